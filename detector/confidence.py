"""How sure an answer must be, 0..1: the two numbers that all rooms go by.

Of 242 answers on simulated traces that nothing was fitted on, 78 % of those stated 0.6 to 0.8 are right, 86 % of 0.8 to 0.9,
and 97 % above (docs/accuracy.md, "Simulated"). Both are by choice, 0.6 since ../shared/research/detector.md, 4.
"""

ANSWERS = 0.6
"""Below this confidence there is no answer."""

SURE = 0.8
"""From this confidence an answer gives seconds and money; a wrong answer counts double in our evaluation."""
