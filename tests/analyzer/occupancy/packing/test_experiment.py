"""Many runs summed up: the paper's Table VI from its own figures."""

import pandas as pd
import pytest

from epochcast.analyzer.backends.occupancy.packing.simulation import FIGURES, orderings, summarise


def rows_of(makespan: dict[str, list[float]], utilisation: dict[str, list[float]]) -> pd.DataFrame:
    """Rows of runs with these figures, the others 0."""
    return pd.DataFrame(
        [
            {"slowdown": "curve", "policy": policy, "run": run, **dict.fromkeys(FIGURES, 0.0)}
            | {"makespan": seconds, "nvml_utilisation": utilisation[policy][run]}
            for policy, runs in makespan.items()
            for run, seconds in enumerate(runs)
        ]
    )


def test_gains_are_those_of_table_vi() -> None:
    rows = rows_of(
        {"slot": [133.10], "nvml-util": [126.58], "occu": [106.87]}, {"slot": [46.58], "nvml-util": [46.48], "occu": [61.23]}
    )
    slot, nvml, occu = summarise(rows)
    assert 100 * occu["makespan_gain"] == pytest.approx(19.71, abs=0.005)
    assert 100 * occu["utilisation_gain"] == pytest.approx(31.45, abs=0.005)
    assert 100 * nvml["makespan_gain"] == pytest.approx(4.90, abs=0.005)
    assert 100 * nvml["utilisation_gain"] == pytest.approx(-0.21, abs=0.005)
    assert (slot["makespan_gain"], slot["won"], nvml["won"], occu["won"]) == (0, 0, 0, 1)
    order = orderings(rows)["curve"]
    assert order["makespan"] and order["utilisation"]
