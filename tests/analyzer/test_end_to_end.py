"""From a trace to seconds on another GPU: simulated jobs of public rows, by the parts of benchmarks/regressor/end_to_end.py."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.regressor import end_to_end, simulated_rows

from epochcast.analyzer.answers.sources import profile_of
from epochcast.analyzer.traces.trace import Trace
from epochcast.detector.simulator import simulate_class
from epochcast.regressor import Catalog, LatencyPredictor, load_corpus
from epochcast.regressor.intervals import ScaledInterval
from epochcast.regressor.pairs import Pair, actual_ratio, make_pairs
from epochcast.regressor.protocols import splits
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.reliability import Reliability
from epochcast.regressor.scaling import GpuCountScaling

Jobs = list[tuple[list[Pair], simulated_rows.SimulatedRow]]

GPUS = ("T4", "A10G")
# Class of the simulator and seconds of an epoch, about; the seeds are the numbers of the jobs.
JOBS = (("paper", 8), ("gap", 15), ("unfreezing", 12), ("validation", 20))


@pytest.fixture(scope="module")
def fold(shared_data: Path, catalog: Catalog) -> tuple[LatencyPredictor, list[Pair]]:
    """A predictor of two GPUs, and the pairs of workloads that it was fitted without."""
    profiles = load_corpus(shared_data / "black_box" / "cloud_hw_trainpred.csv")
    pairs = make_pairs([profile for profile in profiles if profile.gpu in GPUS], catalog)
    train, test = next(splits(pairs, "P2"))
    recipe = DefaultRecipe(trees=30).fit([pairs[row] for row in train])
    left_out = [pairs[row] for row in test]
    answers = recipe.answer(left_out)
    interval = ScaledInterval.of_errors(answers.log_ratio - np.log(actual_ratio(left_out)), answers, "P2")
    routes = ("ensemble", "incomplete", "residual", "speeds", "specifications")
    return LatencyPredictor(
        catalog, recipe, Reliability({}, dict.fromkeys(routes, interval), None), GpuCountScaling(), {"gpus": list(GPUS)}, {}
    ), left_out


@pytest.fixture(scope="module")
def jobs(fold: tuple[LatencyPredictor, list[Pair]]) -> Jobs:
    """A simulated job of each class, of the row left out whose epochs are nearest to the length."""
    found = []
    for seed, (cls, epoch_s) in enumerate(JOBS):
        pair = min(fold[1], key=lambda pair: abs(np.log((pair.source.epoch_s or 1) / epoch_s)))
        simulated = simulated_rows.simulate_row(pair.source, cls, "dcgm", seed)
        assert simulated is not None
        found.append(([pair], simulated))
    return found


def test_simulated_traces_have_the_statistics_and_the_epochs_of_their_rows(jobs: Jobs) -> None:
    for (pair,), simulated in jobs:
        row = pair.source
        starts = np.array([start for start, _ in simulated.spans])
        assert np.median(np.diff(starts)[1:]) == pytest.approx(row.epoch_s, rel=1e-6)
        trace = simulated.trace
        job = (trace.time >= starts[0]) & (trace.time < simulated.spans[-1][1])
        for name in ("gpu_utilization", "memory_utilization", "power"):
            readings = trace.metrics()[name][job]
            readings = readings[np.isfinite(readings)]
            wanted = row.metrics[name]
            assert readings.mean() == pytest.approx(wanted["mean"], rel=0.03)
            assert np.percentile(readings, 50) == pytest.approx(wanted["p50"], rel=0.05)
            assert wanted["min"] <= readings.min() <= readings.max() <= wanted["max"]


def test_detected_epochs_cost_next_to_nothing(jobs: Jobs, fold: tuple[LatencyPredictor, list[Pair]]) -> None:
    records = [record for pairs, simulated in jobs for record in end_to_end.outcomes(pairs, simulated, fold[0])]
    records = [record for record in records if record["unit"] == "epoch"]
    assert len(records) >= 3, f"the detector found the epochs of {len(records)} of {len(jobs)} jobs"
    assert max(abs(record["length"]) for record in records) < 0.05
    true, found = (np.array([record[key] for record in records]) for key in ("true", "found"))
    assert np.mean(found) - np.mean(true) < 0.02
    assert np.mean(true) < 0.25, "nor is the answer far off"


def test_a_trace_without_epochs_gives_ratios(fold: tuple[LatencyPredictor, list[Pair]], catalog: Catalog) -> None:
    predictor, (pair, *_) = fold
    drawn = simulate_class("random_walk", 0)
    metrics = simulated_rows.with_statistics(drawn, pair.source.metrics, np.random.default_rng(0))
    frame = pd.DataFrame({"time": drawn.time, **metrics})
    profile, _ = profile_of(Trace(frame, gpu=pair.source.gpu, simulated=True), catalog)
    assert profile.epoch_s is None
    (answer,) = predictor.predict(profile, [pair.target_gpu.name])
    assert (answer.seconds, answer.low, answer.high) == (None, None, None)
    assert 0 < answer.ratio_low < answer.ratio < answer.ratio_high
    # The whole trace has the row's statistics, so the ratio is about that of the row.
    (known,) = predictor.predict(pair.source, [pair.target_gpu.name])
    assert answer.ratio == pytest.approx(known.ratio, rel=0.1)
    assert "there is only the ratio" in answer.why
