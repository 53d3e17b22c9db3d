"""How sure an answer is, 0..1, and the two numbers that all rooms go by."""

import math

ANSWERS = 0.6
"""Below this confidence there is no answer. By choice, since ../shared/research/detector.md, 4."""

SURE = 0.8
"""From this confidence an answer gives seconds and money; a wrong answer counts double in our evaluation. By choice."""

#: Fitted by lab/speed/detector/calibrate.py.
OFFSET, SLOPE = -4.79, 2.34

#: How much an unrelated period with evidence of its own takes away. ../shared/research/period_fold.md, "Confidence".
RIVAL = 1.3


def confidence(evidence: float, rival: float) -> float:
    """Probability that a period is within 5 % of the true one, by how far it stands out (a logarithm).

    Args:
        evidence: log likelihood ratio [nats] of the period, >= 0.
        rival: that of the best period that has nothing to do with it, >= 0.
    """
    score = min(math.log1p(evidence), RIVAL * math.log((evidence + 2) / (rival + 2)))
    return 1 / (1 + math.exp(-OFFSET - SLOPE * score))
