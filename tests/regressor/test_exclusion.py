import numpy as np
import pandas as pd
import pytest

from epochcast.regressor import Catalog, Profile
from epochcast.regressor.features import exclude, paper_features
from epochcast.regressor.pairs import make_pairs


def test_each_reason_by_hand() -> None:
    frame = pd.DataFrame(
        {
            "varies": [1.0, 2.0, 3.0],
            "constant": [5.0, 5.0, 5.0],
            "somewhere": [1.0, np.nan, 2.0],
            "nowhere": [np.nan] * 3,
            "copy": [1.0, 2.0, 3.0],
            "nearly": [1.0, 2.0, 3.0 + 1e-12],
            "zeros": [0.0, -0.0, 1.0],
            "signed zeros": [-0.0, 0.0, 1.0],
        }
    )
    kept, dropped = exclude(frame)
    assert kept == ["varies", "nearly", "zeros"]
    assert dropped == {
        "constant": "constant",
        "somewhere": "unavailable",
        "nowhere": "unavailable",
        "copy": "identical to varies",
        "signed zeros": "identical to zeros",
    }


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_comparing_every_two_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.choice([0.0, 1.0, np.nan], size=(4, 60), p=[0.5, 0.45, 0.05]))
    frame.columns = [f"feature {number}" for number in frame]
    kept: list[str] = []
    for name in frame:
        column = frame[name]
        if not column.isna().any() and len(set(column)) > 1 and not any(column.equals(frame[other]) for other in kept):
            kept.append(str(name))
    found, dropped = exclude(frame)
    assert found == kept
    assert sorted([*found, *dropped]) == sorted(frame)


def test_one_row_tells_nothing_apart() -> None:
    assert exclude(pd.DataFrame({"a": [1.0], "b": [np.nan]})) == ([], {"a": "constant", "b": "unavailable"})


def test_what_goes_from_the_public_measurements(public_profiles: list[Profile], catalog: Catalog) -> None:
    table = paper_features(make_pairs(public_profiles, catalog))
    kept, dropped = exclude(table)
    assert len(kept) + len(dropped) == table.shape[1]
    # nvidia-smi alone was recorded, so every DCGM metric is missing; all four cards sit in the same kind of slot.
    assert {dropped[f"dram_active_{name}"] for name in ("mean", "max")} == {"unavailable"}
    assert dropped["pcie_width_ratio"] == "constant"
    assert dropped["memory_used_max"] == "identical to memory_used_p75"
    assert not table[kept].isna().to_numpy().any()
