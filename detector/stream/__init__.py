"""Detection while the job runs: samples in as they come, the same answers as `detect` on the whole trace, in bounded memory.

The samples go into a pyramid of rings. At times that grow with the job's length the tracker searches what the pyramid holds of
the job; once two searches in a row agree, their answer is given, and a template of the boundaries found finds the next ones as
they arrive.
"""

from .stream import Stream

__all__ = ["Stream"]
