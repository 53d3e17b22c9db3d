"""``import epochcast`` in notebooks and scripts: read telemetry, see its epochs, predict, recommend.

Results print as the commands do, show as a table in notebooks, and have ``to_frame()`` and ``plot()``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.job import Job as JobAnswer
from epochcast.analyzer.jobs.job import JobQuestion, answer_job
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.prices import Instance, load_instances
from epochcast.analyzer.jobs.rank import JobLimits, Objective
from epochcast.analyzer.jobs.recommend import Renting
from epochcast.analyzer.jobs.sources import JobDescription, Source, add_description, read_sources
from epochcast.analyzer.jobs.verdict import AT_MOST_SLOWER
from epochcast.analyzer.jobs.whole_job import Work
from epochcast.analyzer.traces.trace import Trace, read_trace
from epochcast.analyzer.words import length, plain
from epochcast.detector import Detection
from epochcast.detector import detect as find_epochs
from epochcast.regressor import LatencyPredictor, load_catalog
from epochcast.regressor.precision import Precision

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class _Result(ABC):
    """What all results are."""

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """Return one row per epoch, GPU or instance."""

    def _repr_html_(self) -> str:
        first, *_ = repr(self).split("\n")
        table: str = self.to_frame().to_html(index=False, float_format="{:.4g}".format)
        return f"<p><b>{escape(first)}</b></p>{table}"


@dataclass(frozen=True, repr=False)
class Epochs(_Result):
    """The epochs of one GPU's telemetry.

    Attributes:
        detection: the full detection; its verdict, period, unit and confidence are also attributes here.
        trace: its telemetry; None for a profile, and for one GPU of several.
    """

    detection: Detection
    trace: Trace | None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.detection, name)

    def __len__(self) -> int:
        return len(self.detection.epochs)

    def __repr__(self) -> str:
        from epochcast.analyzer.cli.detect import sentences

        return plain(sentences(self.detection, [] if self.trace is None else [self.trace]))

    def to_frame(self) -> pd.DataFrame:
        """``start`` and ``end`` [UTC], ``seconds`` and ``confidence`` of each epoch."""
        epochs = self.detection.epochs
        frame = pd.DataFrame({"start": [epoch.start for epoch in epochs], "end": [epoch.end for epoch in epochs]}, dtype=float)
        times = {name: pd.to_datetime(frame[name], unit="s", utc=True) for name in ("start", "end")}
        return frame.assign(**times, seconds=frame["end"] - frame["start"], confidence=[epoch.confidence for epoch in epochs])

    def plot(self) -> Figure:
        """Draw the telemetry and its epochs.

        Raises:
            InputError: there is no telemetry to draw.
        """
        if self.trace is None:
            raise InputError("this answer has no trace to draw; read the trace of one GPU")
        from epochcast.analyzer.charts import detection_figure

        return detection_figure(self.trace, self.detection, title=self.trace.title)


@dataclass(frozen=True, repr=False)
class Predictions(_Result):
    """A job on other GPUs; `answer` has all of it, as ``epochcast predict --json``."""

    answer: JobAnswer

    def __len__(self) -> int:
        return len(self.answer.predictions)

    def __repr__(self) -> str:
        from epochcast.analyzer.jobs.prediction_text import prediction_text

        return plain("\n".join([prediction_text(self.answer), *(f"note: {note}" for note in self.answer.notes)]))

    def to_frame(self) -> pd.DataFrame:
        """A row for each GPU, fastest first, as in ``epochcast predict --json`` without the full explanations."""
        columns = ["gpu", "gpus", "ratio", "ratio_low", "ratio_high", "seconds", "low", "high", "fits", "route", "why"]
        rows = [[getattr(target, name) for name in columns] for target in self.answer.predictions]
        return pd.DataFrame(rows, columns=columns)

    def plot(self) -> Figure:
        """Draw the ratio on every GPU with its 90 % interval."""
        from epochcast.analyzer.charts import chart_figure
        from epochcast.analyzer.jobs.prediction_text import prediction_chart

        return chart_figure(prediction_chart(self.answer))


@dataclass(frozen=True, repr=False)
class Recommendations(_Result):
    """What can be rented for a job, best first; `answer` has all of it, as ``epochcast recommend --json``."""

    answer: JobAnswer

    @property
    def placements(self) -> tuple[Placement, ...]:
        """The instances, best first."""
        assert self.answer.recommendation is not None
        return self.answer.recommendation.placements

    @property
    def verdict(self) -> str:
        """What to do, in one line."""
        assert self.answer.recommendation is not None
        return self.answer.recommendation.verdict.text

    def __len__(self) -> int:
        return len(self.placements)

    def __repr__(self) -> str:
        from epochcast.analyzer.jobs.recommendation_text import recommendation_text

        return plain(recommendation_text(self.answer))

    def to_frame(self) -> pd.DataFrame:
        """A row for each instance: where, its price, time and cost with their intervals."""
        names = ("seconds", "usd")
        return pd.DataFrame(
            [
                {
                    **row.instance.place,
                    "gpus": row.gpus,
                    "usd_per_hour": row.usd_per_hour,
                    "ratio": row.prediction.ratio,
                    **{
                        f"{name}{end}": estimate and getattr(estimate, end.strip("_") or "value")
                        for name, estimate in zip(names, (row.seconds, row.usd), strict=True)
                        for end in ("", "_low", "_high")
                    },
                    "fits": row.fits,
                    "pareto": row.pareto,
                }
                for row in self.placements
            ]
        )

    def plot(self) -> Figure:
        """Draw time against cost; InputError where no instance qualifies."""
        from epochcast.analyzer.charts import cost_figure

        return cost_figure(self.placements)


@dataclass(frozen=True, repr=False)
class Job:
    """A job that was recorded on one GPU or several.

    Attributes:
        sources: one for each GPU.
        notes: sentences on how the sources were read.
    """

    sources: tuple[Source, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        """A line on each GPU: where it was read from, its model, and what was found."""

        def line(source: Source) -> str:
            profile = source.profile
            answer = source.no_seconds if profile.epoch_s is None else f"{length(profile.epoch_s)} per {profile.unit}"
            return f"{source.name}: {profile.gpu}{' (simulated)' * profile.simulated}, {answer}"

        return plain("\n".join(map(line, self.sources)))

    @property
    def epochs(self) -> Epochs:
        """The epochs of its first GPU.

        Raises:
            InputError: it was read from profiles, which have no telemetry.
        """
        first = next((source for source in self.sources if source.detection is not None), None)
        if first is None or first.detection is None:
            raise InputError("a profile has no telemetry; read the trace to see its epochs")
        return Epochs(first.detection, read_trace(first.name) if len(self.sources) == 1 else None)

    def predict(
        self,
        targets: str | Sequence[str] | None = None,
        *,
        epochs: int | None = None,
        target_gpus: int | None = None,
        batch_may_grow: bool = False,
    ) -> Predictions:
        """Predict the job on these GPUs, or all: arguments and answers of ``epochcast predict``.

        Raises:
            InputError: a GPU is unknown, or there is nothing to predict from.
        """
        names = None if targets is None else _several(targets)
        answer = answer_job(
            self.sources,
            _predictor(),
            _instances(),
            JobQuestion(
                targets=names,
                work=None if epochs is None else Work(epochs),
                target_gpus=target_gpus,
                batch_may_grow=batch_may_grow,
            ),
            of_job=self.notes,
        )
        return Predictions(answer)

    def recommend(
        self,
        *,
        objective: Objective = "cost",
        epochs: int | None = None,
        deadline: float | str | None = None,
        budget: float | None = None,
        clouds: str | Sequence[str] = (),
        regions: str | Sequence[str] = (),
        spot: bool = False,
        data_parallel: bool = False,
        at_most_slower: float = AT_MOST_SLOWER,
        price_now: float | None = None,
        switch_cost: float | None = None,
    ) -> Recommendations:
        """Rank what can be rented for the job: arguments and answers of ``epochcast recommend``.

        ``deadline`` is in seconds, or text such as ``10h``; ``budget`` and ``switch_cost`` in USD, ``price_now`` in USD/h.

        Raises:
            InputError: a limit is invalid, or no instance can meet it.
        """
        if objective not in get_args(Objective):
            raise InputError(f"the objective is {objective!r}; choose from {', '.join(get_args(Objective))}")
        if budget is not None and not isinstance(budget, int | float):
            raise InputError(f"the budget is {budget!r}; give USD as a number")
        limits = JobLimits(
            _seconds(deadline), budget, tuple(_several(regions)), tuple(_several(clouds)), "spot" if spot else "on-demand"
        )
        renting = Renting(
            objective,
            limits,
            data_parallel=data_parallel,
            usd_per_hour_now=price_now,
            at_most_slower=at_most_slower,
            switch_usd=switch_cost,
        )
        question = JobQuestion(work=None if epochs is None else Work(epochs), renting=renting)
        return Recommendations(answer_job(self.sources, _predictor(), _instances(), question, of_job=self.notes))


def read(*paths: str | Path, gpu: str | None = None, precision: Precision | None = None) -> Job:
    """Read the telemetry of a job: traces, profiles, folders, or logs of other tools, as the commands take them.

    ``gpu`` names the GPU if the file does not; ``precision`` is the precision of the job's matrix products, if known.

    Raises:
        InputError: a file cannot be read, or names no known GPU.
    """
    if not paths:
        raise InputError("read needs the path of a trace or a profile")
    for path in paths:
        if not isinstance(path, str | Path):
            raise InputError(f"read takes paths, but this is a {type(path).__name__}; a table goes to epochcast.detect")
    sources, notes = read_sources([str(path) for path in paths], load_catalog(), gpu)
    return Job(tuple(add_description(source, JobDescription(precision)) for source in sources), tuple(notes))


def detect(telemetry: pd.DataFrame | str | Path) -> Epochs:
    """Find the epochs in telemetry of one GPU: a path, or a table with a column ``time`` [unix s] and one for each metric.

    Raises:
        InputError: it is not such telemetry.
    """
    if isinstance(telemetry, pd.DataFrame):
        if "time" not in telemetry:
            raise InputError(f"the table has no column 'time' in unix seconds; it has {', '.join(map(str, telemetry.columns))}")
        trace = Trace(telemetry.astype(float).sort_values("time").reset_index(drop=True))
    else:
        trace = read_trace(str(telemetry))
    return Epochs(find_epochs(trace.time, trace.metrics()), trace)


def _several(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


@cache
def _predictor() -> LatencyPredictor:
    return LatencyPredictor.load(None, load_catalog())


@cache
def _instances() -> tuple[Instance, ...]:
    return tuple(load_instances(None, load_catalog())[0])


def _seconds(duration: float | str | None) -> float | None:
    if duration is None or isinstance(duration, (int, float)):
        return duration
    import click

    from epochcast.analyzer.cli.quantities import Duration

    try:
        return Duration("seconds").convert(duration, None, None)
    except click.BadParameter as error:
        raise InputError(f"the deadline: {error.message}") from error
