"""How probably a cycle is the epoch, that is, its period within 5 % of the true one."""

import numpy as np

from .boundaries import Track
from .folding import Folded

#: Tracks whose periods differ by more than this (of the logarithm) compete.
RIVAL = 0.1


def of_track(best: Track, tracks: list[Track]) -> dict[str, float]:
    """The evidence for a track.

    Args:
        best: the chosen one.
        tracks: all that were followed.
    """
    fit = best.fit
    shorter = [other.fit.quality for other in tracks if other.samples < best.samples * np.exp(-RIVAL)]
    longer = [other.fit.quality for other in tracks if other.samples > best.samples * np.exp(RIVAL)]
    return {
        "quality": fit.quality,
        "alike": fit.alike,
        "contrast": fit.contrast,
        "distinct": fit.distinct,
        "intervals": float(np.log(fit.intervals)),
        "spread": float(np.log(fit.spread + 0.003)),
        "even": fit.even,
        "covered": fit.covered,
        "samples": float(np.log(best.samples)),
        "shorter": max(shorter, default=0.0),
        "longer": max(longer, default=0.0),
    }


def of_fold(folded: Folded) -> dict[str, float]:
    """The evidence for a folded cycle."""
    return {
        "explained": folded.explained,
        "significance": float(np.log(folded.significance)),
        "ahead": float(np.log(folded.ahead)),
        "covered": folded.covered,
    }


def confidence(evidence: dict[str, float]) -> float:
    """Probability, 0..1."""
    if "quality" in evidence:
        return evidence["quality"]
    return float(min(1.0, np.exp(evidence["significance"]) / 60) ** 0.5)
