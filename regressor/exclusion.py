"""The black-box paper's exclusion rule (section III-A): no feature that never varies, is a copy, or is not always there."""

import numpy as np
import pandas as pd

UNAVAILABLE = "unavailable"
CONSTANT = "constant"


def exclude(frame: pd.DataFrame) -> tuple[list[str], dict[str, str]]:
    """Drop the features that the paper drops: "not collected from specific GPUs", without variation, or identical.

    Args:
        frame: numeric features, one row per pair; NaN where a row has no such feature.

    Returns:
        The columns that stay, and for each that goes the reason: ``unavailable`` (NaN in some row), ``constant`` (one value in
        all rows), or ``identical to NAME`` (equal in all rows to a column that stays, the first of its kind).
    """
    values = frame.to_numpy(dtype=np.float64)
    missing = np.isnan(values).any(axis=0)
    constant = (values == values[:1]).all(axis=0)
    kept: dict[bytes, str] = {}
    dropped: dict[str, str] = {}
    for position, name in enumerate(frame.columns):
        if missing[position]:
            dropped[name] = UNAVAILABLE
        elif constant[position]:
            dropped[name] = CONSTANT
        else:
            # Adding 0 makes -0.0 and 0.0 the same bytes.
            first = kept.setdefault((values[:, position] + 0.0).tobytes(), name)
            if first != name:
                dropped[name] = f"identical to {first}"
    return list(kept.values()), dropped
