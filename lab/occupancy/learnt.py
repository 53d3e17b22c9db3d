"""What models learn from labels: standardised logarithms."""

from __future__ import annotations

import numpy as np

from epochcast.analyzer.backends.occupancy.models.trees import Floats, Output
from epochcast.analyzer.errors import InputError


def output_of(values: Floats, samples: int) -> Output:
    """For values to learn from, shape (n,).

    Raises:
        InputError: there are none, not one per sample, or one is not above 0.
    """
    if len(values) != samples or not samples:
        raise InputError(f"{samples} samples have {len(values)} labels; give one label per sample, and one sample or more")
    allowed = (values > 0) & np.isfinite(values)
    if not allowed.all():
        raise InputError(f"a label is {values[~allowed][0]:g}, but labels are finite and above 0; leave such rows out")
    logarithms = np.log(values)
    return Output(float(logarithms.mean()), float(logarithms.std()) or 1.0)


def learnt(output: Output, values: Floats) -> Floats:
    """What a network's last number should be, shape (n,); 0 is the mean of what was learnt from."""
    return np.asarray((np.log(values) - output.mean) / output.scale)
