"""Fitting: known efficiencies come back, disturbed runs do not pull, and files hold what was saved."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from hand_made import graph

from epochcast.analyzer.backends.distributed.calibration import CalibrationSample, fit
from epochcast.analyzer.backends.distributed.coefficients import BOUNDS, Coefficients
from epochcast.analyzer.backends.distributed.communication import cluster_for
from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.distributed.iteration import prepare
from epochcast.analyzer.backends.distributed.job import TrainingConfiguration
from epochcast.analyzer.errors import InputError

TRUTH = replace(Coefficients(), gemm=0.6, network=0.4, gemm_bandwidth=0.6)
JOBS = [
    TrainingConfiguration(data=data, tensor=tensor, pipeline=pipeline, global_batch=32, precision="fp32")
    for data in (1, 4, 16)
    for tensor in (1, 4)
    for pipeline in (1, 2)
]


def measured(slowed=()) -> list[CalibrationSample]:
    runs = []
    for index, job in enumerate(JOBS):
        prepared = prepare(graph(width=4096, exchanges=2), job, cluster_for("A100 SXM4 80GB", job.gpus))
        seconds = CalibrationSample.of(prepared, 1.0).predict(TRUTH)
        runs.append(CalibrationSample.of(prepared, seconds * (1.5 if index in slowed else 1.0)))
    return runs


def errors(runs, coefficients):
    return np.array([run.predict(coefficients) / CalibrationSample.of(run.prepared, 1.0).predict(TRUTH) - 1 for run in runs])


def test_known_efficiencies_come_back() -> None:
    runs = measured()
    assert np.abs(errors(runs, Coefficients())).max() > 0.15
    assert np.abs(errors(runs, fit(runs))).max() < 0.03


def test_disturbed_runs_do_not_pull_the_others() -> None:
    runs = measured(slowed=(1, 6, 10))
    assert np.abs(errors(runs, fit(runs))).mean() < 0.03
    # The same runs taken for good would be told a tenth too slow on average.
    assert np.mean([np.log(run.seconds / CalibrationSample.of(run.prepared, 1.0).predict(TRUTH)) for run in runs]) > 0.1


def test_one_run_moves_little_and_none_is_refused() -> None:
    belief = Coefficients()
    moved = fit(measured()[:1])
    assert all(0.3 < getattr(moved, name) / value < 3 for name, value in asdict(belief).items())
    with pytest.raises(InputError, match="no measured runs"):
        fit([])


def test_a_belief_of_its_own_is_kept_where_runs_say_nothing() -> None:
    belief = replace(Coefficients(), optimizer=0.33)
    runs = [run for run in measured() if run.prepared.job.gpus == 1]
    assert fit(runs, replace(belief, network=0.11)).network == pytest.approx(0.11, rel=1e-3)


def test_files_hold_what_was_saved(tmp_path) -> None:
    folder = tmp_path / "new"
    DistributedModel(TRUTH, runs=4, gpus=("T4",)).save(folder)
    kept = DistributedModel.load(folder)
    assert (kept.coefficients, kept.operators, kept.runs, kept.gpus) == (TRUTH, None, 4, ("T4",))


def test_what_comes_with_the_package_is_within_its_bounds() -> None:
    model = DistributedModel.load()
    shipped = model.coefficients
    assert model.runs > 0 and model.gpus and model.operators is not None
    assert all(low <= getattr(shipped, name) <= high for name, (low, high) in BOUNDS.items())
    assert shipped != Coefficients()
