"""The protocols on measured runs: nothing of what is told is learnt from, figures are those of their definitions."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.evaluation import RunEvaluator, by_rows, by_size, by_split, regret
from epochcast.analyzer.backends.distributed.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.runs import MeasuredIteration
from epochcast.analyzer.errors import InputError


@pytest.fixture(scope="module")
def evaluator() -> RunEvaluator:
    return RunEvaluator()


@pytest.fixture(scope="module")
def runs(evaluator: RunEvaluator) -> list[MeasuredIteration]:
    """Two sizes by four ways to spread them, as fast as the belief says, and half as slow again."""
    jobs = [
        TrainingConfiguration(data=d, tensor=t, pipeline=p, global_batch=16, sequence_length=256, precision="fp16")
        for d, t, p in ((4, 1, 1), (1, 4, 1), (1, 1, 4), (2, 2, 1))
    ]
    made = [
        MeasuredIteration(f"gpt:hidden={hidden},layers=4,heads=8", job, "A100 SXM4 80GB", 8, None, None, 1.0, f"{hidden}")
        for hidden in (512, 1024)
        for job in jobs
    ]
    seconds = 1.5 * evaluator.predict(made, Coefficients())
    return [replace(run, seconds=float(value)) for run, value in zip(made, seconds, strict=True)]


def test_a_size_is_told_by_the_others_alone(evaluator, runs) -> None:
    before = by_size(evaluator, runs)
    changed = [replace(run, seconds=run.seconds * 7) if run.group == "512" else run for run in runs]
    after = by_size(evaluator, changed)
    same = np.array([run.group == "512" for run in runs])
    np.testing.assert_allclose(after.predicted[same], before.predicted[same])
    assert not np.allclose(after.predicted[~same], before.predicted[~same])


def test_learning_helps_and_figures_are_those_of_the_rows(evaluator, runs) -> None:
    belief, learnt = by_rows(evaluator, runs, 0), by_rows(evaluator, runs, 4)
    assert belief.figures.mape == pytest.approx(100 / 3)
    assert belief.figures.n == len(runs)
    assert learnt.figures.n == 12 * 4
    draws = [draw.mape for draw in learnt.by_test().values()]
    assert len(draws) == 12
    assert learnt.figures.mape < belief.figures.mape / 2
    assert np.mean(draws) == pytest.approx(learnt.figures.mape)
    assert set(belief.by("parallelism")) == {"DP", "TP", "PP", "DP+TP"}


def test_regret_is_what_following_the_first_place_costs(evaluator, runs) -> None:
    answer = by_rows(evaluator, runs, 0)
    assert set(regret(answer).values()) == {0.0}
    own = [index for index, run in enumerate(runs) if run.group == "512"]
    first = min(own, key=lambda index: answer.predicted[index])
    slowed = answer.measured.copy()
    slowed[first] = 2 * min(answer.measured[index] for index in own if index != first)
    assert regret(replace(answer, measured=slowed))["512"] == pytest.approx(100.0)


def test_a_split_learns_from_the_first_table(evaluator, runs) -> None:
    train, test = runs[:4], runs[4:]
    answer = by_split(evaluator, train, test)
    assert list(answer.points["size"]) == [run.group for run in test] and answer.figures.n == 4
    np.testing.assert_allclose(answer.predicted, evaluator.predict(test, evaluator.fit(train)))


def test_what_leaves_nothing_to_learn_or_to_tell_is_refused(evaluator, runs) -> None:
    with pytest.raises(InputError, match="all 4 runs are of the model 512"):
        by_size(evaluator, runs[:4])
    with pytest.raises(InputError, match="8 rows to learn from leave none of 8"):
        by_rows(evaluator, runs, 8)
    with pytest.raises(InputError, match="unknown recipe 'magic'"):
        evaluator.predict(runs, Coefficients(), "magic")
