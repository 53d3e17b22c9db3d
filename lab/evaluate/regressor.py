"""``python -m lab.evaluate regressor``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, InstanceOf, model_serializer, model_validator

import lab.corpora  # noqa: F401 (makes them known)
from epochcast.analyzer.corpus.training_data import load_training_data
from epochcast.analyzer.plugins import Plugin
from epochcast.analyzer.plugins.answer import AnswerPart
from epochcast.analyzer.plugins.question import Option
from epochcast.regressor import load_catalog
from lab.evaluate.common.comparison import ALL, Comparison, RowsQuestion, each_recipe
from lab.evaluate.common.report import columns, figure
from lab.evaluate.latency import Evaluation

if TYPE_CHECKING:
    from epochcast.regressor import Profile

_ANCHORS = 10

_BY = {"source_gpu": "from GPU", "target_gpu": "to GPU", "source": "source", "precision": "precision"}
_COLUMNS = columns(
    *("mape", "median_ape", "p90_ape", "rmse", "r2", "n", "coverage"),
    wrong_order="wrong order %",
    fastest_right="fastest GPU right",
    fastest_regret="regret %",
)
_LEGEND = (
    "wrong order: of pairs more than 10 % apart; regret: how much longer a job takes on the predicted fastest GPU than on the "
    "true fastest"
)
_GROUPS = columns("mape", "median_ape", "n", inside="in 90 % interval", interval_half_width="half-width %")


class EvaluationQuestion(RowsQuestion):
    """Which pairs of GPUs to predict, from which others, and by which recipe."""

    tables: ClassVar[str] = "Corpora"
    metavar: ClassVar[str] = "PATH"
    splitting: ClassVar[Sequence[str]] = ("protocol", "anchors", "seeds")

    protocol: Annotated[str | None, Option(metavar="NAME", default="P2")] = Field(
        None,
        description="P2 new workload, P1 random rows (leaks), P3 new architecture, P4 new GPU, P4-anchors; for rates of equal "
        "work new-workload and new-gpu.",
    )
    families: bool = Field(False, description="Leave out equal networks of all sources at once (protocol new-workload).")
    anchors: Annotated[int | None, Option(metavar="N", default=str(_ANCHORS))] = Field(
        None, ge=0, description="Number of workloads measured on the new GPU (protocol P4-anchors)."
    )
    recipe: Annotated[str | None, Option(metavar="NAME", default="default; latency-only for timed steps without telemetry")] = (
        Field(None, description="Recipe to fit, or `all` to compare them.")
    )
    seeds: Annotated[int | None, Option(metavar="N", default="5, the paper's models 1")] = Field(
        None, ge=1, le=5, description="Number of shuffles of the groups (P1, P2)."
    )

    @model_validator(mode="after")
    def _of_its_protocol(self) -> Self:
        if self.families and self.protocol != "new-workload":
            raise ValueError("--families applies only to --protocol new-workload; give both")
        if self.anchors is not None and self.protocol != "P4-anchors":
            raise ValueError(f"--anchors {self.anchors} applies only to --protocol P4-anchors; give both")
        return self


class RegressorFigures(AnswerPart):
    """See :class:`epochcast.regressor.Evaluation`."""

    of: InstanceOf[Evaluation]

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        return self.of.to_json()


class EvaluationAnswer(Comparison[RegressorFigures]):
    """Recipes next to each other, and by group."""

    @property
    def status(self) -> int:
        """1 where the subject, or each of all recipes, has no answer for the protocol."""
        subjects = [figures.of for name, figures in self.figures.items() if self.subject in (ALL, name)]
        return 0 if any(figures.n for figures in subjects) else 1

    @property
    def text(self) -> str:
        """Errors, and how wide and how right the intervals are."""
        first = next(iter(self.figures.values())).of
        detailed = self.subject != ALL and first.n > 0
        by = {title: first.by[key] for key, title in _BY.items()} if detailed else {}
        beside = [_bias(first), _interval(first)] if detailed else []
        return self.report(_heading(first), _COLUMNS, _GROUPS, by, legend=_LEGEND, beside=beside)


def _heading(answer: Evaluation) -> str:
    """What was trained on, what was tested, and what was passed over."""
    settings = answer.settings
    alone = settings["workloads_on_one_gpu"]
    skipped = f"; {alone} workloads ran on one GPU only and make no pair" if alone else ""
    if answer.protocol is None:
        trained = f"trained on {settings['train_profiles']} profiles, tested on {settings['pairs']} pairs"
        if into := settings["only_into"]:
            return f"{trained} into GPUs that training has not seen ({', '.join(into)}){skipped}"
        both = settings["workloads_in_both"]
        shared = f"; {both} workloads are in both, so this does not test new workloads" if both else ""
        return f"{trained} among {settings['test_profiles']} others{skipped}{shared}"
    low, high = (figure(value) for value in answer.spread)
    shuffles = len(settings["seeds"])
    spread = f"; mean over {shuffles} shuffles, MAPE {low} to {high}" if shuffles > 1 else ""
    anchors = f" with {settings['anchors']} anchors on each new GPU" if "anchors" in settings else ""
    drawn = answer.random_anchors
    drawn_text = (
        f"; anchors drawn at random: MAPE {figure(sum(drawn) / len(drawn))} ({figure(min(drawn))} to {figure(max(drawn))}, "
        f"{len(drawn)} draws)"
        if drawn
        else ""
    )
    heading = f"{answer.protocol}{anchors}: {settings['pairs']} pairs among {settings['profiles']} profiles"
    return heading + spread + drawn_text + skipped


def _bias(answer: Evaluation) -> str:
    by_group = answer.mape_by_group
    mean = "" if math.isnan(by_group) else f"mean over groups: MAPE {figure(by_group)} %; "
    return f"{mean}median log error {answer.bias:+.3f}"


def _interval(answer: Evaluation) -> str:
    if math.isnan(answer.inside):
        return ""
    constant = answer.constant_width_score
    beside = "" if math.isnan(constant) else f" (one width for all: {figure(constant)}; smaller is better)"
    return (
        f"90 % interval: {100 * answer.inside:.3g} % inside, median half-width "
        f"{figure(answer.interval_half_width)} %, interval score {figure(answer.interval_score)}{beside}"
    )


class RegressorEvaluation(Plugin):
    """Predicts latencies on GPUs, or of workloads, that no fit saw."""

    name = "regressor"
    summary = "Compare predicted latency on other GPUs with simple rules."
    manual = """Compare predicted latency on other GPUs with measurements and simple rules.

    \b
    Example: python -m lab.evaluate regressor --data cloud_hw_trainpred.csv \\
                 --protocol P3
             python -m lab.evaluate regressor --data cloud_hw_trainpred.csv \\
                 --protocol P4-anchors --anchors 5
             python -m lab.evaluate regressor --data rates.csv.gz --protocol new-gpu
             python -m lab.evaluate regressor --train old.csv --test new.csv
    """
    Question, Answer = EvaluationQuestion, EvaluationAnswer

    def answer(self, question: EvaluationQuestion) -> EvaluationAnswer:
        """Fit and predict by each recipe; raises InputError."""
        from lab.evaluate.latency import BASELINES, evaluate, evaluate_split
        from lab.rivals.latency import RECIPES

        catalog = load_catalog(self._settings.gpus)

        def read(paths: Sequence[Path]) -> list[Profile]:
            profiles, left_out = load_training_data(paths, catalog)
            for sentence in left_out:
                self._settings.note(f"{', '.join(str(path) for path in paths)}: {sentence}")
            return profiles

        known = read(question.train or question.data)
        tested = read(question.test) if question.test else None

        def measure(name: str) -> RegressorFigures:
            if tested is not None:
                return RegressorFigures(of=evaluate_split(known, tested, catalog, recipe=name))
            evaluation = evaluate(
                known,
                catalog,
                protocol=question.protocol or "P2",
                recipe=name,
                seeds=None if question.seeds is None else range(question.seeds),
                anchors=_ANCHORS if question.anchors is None else question.anchors,
                families=question.families,
                progress=lambda done, fits: self._settings.report(f"{name}: fit {done + 1} of {fits}"),
            )
            return RegressorFigures(of=evaluation)

        subject = question.recipe or _recipe_for(known)
        return EvaluationAnswer(
            subject=subject, figures=each_recipe(subject, list(RECIPES), BASELINES, measure, self._settings)
        )


def _recipe_for(profiles: Sequence[Profile]) -> str:
    """What answers for data like these: PROFET's time steps next to epochs, and have no telemetry."""
    from epochcast.regressor.telemetry_correction import has_telemetry

    timed = any(profile.step_s for profile in profiles)
    return "latency-only" if timed and not any(map(has_telemetry, profiles)) else "default"
