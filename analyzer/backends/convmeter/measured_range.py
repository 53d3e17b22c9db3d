"""How far a question is outside the measured range."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

_SIZES = ("image_size", "batch", "devices", "nodes", "flops", "weights")
_DENSE = "dense_share"
_BEYOND = 1.05  # a range ends where rounding does not matter
_MORE_DENSE = 0.2

Ranges = Mapping[str, tuple[float, float]]
"""Least and largest of each size, and of the share of FLOPs in dense layers and attention."""


def ranges_of(points: pd.DataFrame) -> Ranges:
    """The ranges of measured points."""
    sizes = _sizes(points)
    return {name: (float(sizes[name].min()), float(sizes[name].max())) for name in (*_SIZES, _DENSE)}


def notes_on(points: pd.DataFrame, ranges: Ranges) -> list[str]:
    """Where points lie outside of all measured ones, a sentence each."""
    sizes, notes = _sizes(points), []
    for name in _SIZES:
        low, high = ranges[name]
        if name in ("devices", "nodes") and high == 1:
            continue  # inference takes as long next to other devices; all else is refused
        out = sizes[name][(sizes[name] > high * _BEYOND) | (sizes[name] < low / _BEYOND)]
        if len(out):
            span = " to ".join(dict.fromkeys(f"{end:.4g}" for end in (out.min(), out.max())))
            notes.append(f"{name.replace('_', ' ')} {span} is outside the measured range of {low:.4g} to {high:.4g}")
    if (points["conv_outputs"] == 0).any():
        notes.append(
            "the network has no convolution: the answer rests on the FLOPs and traffic of its other layers alone, of which "
            "measured networks have few"
        )
    elif (dense := float(sizes[_DENSE].max())) > ranges[_DENSE][1] + _MORE_DENSE:
        notes.append(
            f"{100 * dense:.0f} % of the FLOPs are in dense layers and attention, in measured networks at most "
            f"{100 * ranges[_DENSE][1]:.0f} %: the answer rests on how these few did"
        )
    return notes


def _sizes(points: pd.DataFrame) -> pd.DataFrame:
    dense = (points["linear_flops"] + points["attention_flops"]) / points["flops"].clip(lower=1)
    return points[list(_SIZES)].astype(float).assign(**{_DENSE: dense})
