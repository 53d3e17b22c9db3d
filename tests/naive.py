"""Slow, obviously right versions of the fast functions, in plain loops."""

from collections.abc import Sequence


def matched_boundaries(truth: Sequence[float], found: Sequence[float], tolerance: float) -> int:
    """Size of the largest one-to-one matching within the tolerance, by augmenting paths."""
    partner: dict[int, int] = {}

    def augment(i: int, seen: set[int]) -> bool:
        for j, value in enumerate(found):
            if abs(truth[i] - value) <= tolerance and j not in seen:
                seen.add(j)
                if j not in partner or augment(partner[j], seen):
                    partner[j] = i
                    return True
        return False

    return sum(augment(i, set()) for i in range(len(truth)))
