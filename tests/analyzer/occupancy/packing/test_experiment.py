"""Many runs summed up: the paper's Table VI from its own figures, and intervals against scipy's."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from epochcast.analyzer.backends.occupancy.packing.experiment import (
    FIGURES,
    RunStatistics,
    compare,
    figures,
    orderings,
    summarise,
)
from epochcast.analyzer.backends.occupancy.packing.job import JobKind
from epochcast.analyzer.backends.occupancy.packing.job_stream import StreamShape, streams
from epochcast.analyzer.backends.occupancy.packing.policies import POLICIES
from epochcast.analyzer.backends.occupancy.packing.simulation import simulate
from epochcast.analyzer.backends.occupancy.packing.slowdown import SLOWDOWNS, fig7

TABLE = [JobKind(f"net{n}", 0.08 * n, 0.15 * n, n * 1e9) for n in range(1, 6)]


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
    assert 100 * occu.makespan_gain == pytest.approx(19.71, abs=0.005)
    assert 100 * occu.utilisation_gain == pytest.approx(31.45, abs=0.005)
    assert 100 * nvml.makespan_gain == pytest.approx(4.90, abs=0.005)
    assert 100 * nvml.utilisation_gain == pytest.approx(-0.21, abs=0.005)
    assert (slot.makespan_gain, slot.won, nvml.won, occu.won) == (0, 0, 0, 1)
    order = orderings(rows)["curve"]
    assert order.makespan
    assert order.utilisation


def test_orders_on_the_means_and_run_by_run() -> None:
    rows = rows_of(
        {"slot": [10, 10, 10, 10], "nvml-util": [9, 9, 9, 11], "occu": [8, 8, 9.5, 8]},
        {"slot": [0.5] * 4, "nvml-util": [0.6] * 4, "occu": [0.7, 0.55, 0.55, 0.55]},
    )
    order = orderings(rows)["curve"]
    assert (order.makespan, order.utilisation) == (True, False)
    assert (order.makespan_runs, order.utilisation_runs) == (0.5, 0.25)
    assert [one.won for one in summarise(rows)] == [0, 0.25, 0.75]


def test_gains_of_the_means_and_run_by_run() -> None:
    rows = rows_of({"slot": [10.0, 20.0], "occu": [5.0, 16.0]}, {"slot": [0.5, 0.5], "occu": [0.5, 0.7]})
    occu = summarise(rows)[1]
    assert occu.makespan_gain == pytest.approx(1 - 21 / 30)
    assert occu.utilisation_gain == pytest.approx(0.2)
    assert occu.run_gain.mean == pytest.approx((0.5 + 0.2) / 2)


def test_equal_runs_are_won_by_nobody() -> None:
    rows = rows_of({"slot": [10.0], "occu": [10.0]}, {"slot": [0.0], "occu": [0.0]})
    assert [one.won for one in summarise(rows)] == [0, 0]
    assert np.isnan(summarise(rows)[1].utilisation_gain)


def test_intervals_are_students() -> None:
    values = np.random.default_rng(0).normal(5, 2, 30)
    found = RunStatistics.of(values)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.mean, found.sd) == (pytest.approx(values.mean()), pytest.approx(values.std(ddof=1)))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert np.isnan(RunStatistics.of([3.0]).low)


def test_a_row_for_each_curve_policy_and_run() -> None:
    runs, lines = streams(TABLE, StreamShape(jobs=12), 3, 7), []
    rows = compare(runs, 2, 16e9, POLICIES, SLOWDOWNS, lines.append)
    assert len(rows) == len(lines) * 3 == len(SLOWDOWNS) * len(POLICIES) * 3
    row = rows[(rows["slowdown"] == "fig7") & (rows["policy"] == "occu") & (rows["run"] == 1)].iloc[0]
    assert {name: row[name] for name in FIGURES} == pytest.approx(figures(simulate(runs[1], 2, 16e9, POLICIES["occu"], fig7)))
    # one job per GPU: no curve matters
    assert rows[rows["policy"] == "slot"].groupby("run")["makespan"].nunique().tolist() == [1, 1, 1]
