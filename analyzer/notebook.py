"""``import epochcast`` in notebooks and scripts: read telemetry, see its epochs, predict, recommend.

Results print as the commands do, show as a table in notebooks, and have ``to_frame()`` and ``plot()``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, wraps
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click
import pandas as pd

from epochcast.analyzer.cli.backend_command import argument_name, options_of, question_of
from epochcast.analyzer.cli.shared_options import Duration
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.job import Job as JobAnswer
from epochcast.analyzer.jobs.job import answer_job
from epochcast.analyzer.jobs.prices import Instance, load_instances
from epochcast.analyzer.jobs.questions import PREDICTION, RECOMMENDATION_OF_FILES, SOURCE, JobQuestion
from epochcast.analyzer.jobs.rank import Placement
from epochcast.analyzer.jobs.sources import Source, add_description, is_profile, read_source, sources_of_traces
from epochcast.analyzer.traces.job_traces import checked_epochs, detect_together, labelled, read_job, with_known_epochs
from epochcast.analyzer.traces.known_epochs import known_epochs
from epochcast.analyzer.traces.logs import wandb_run
from epochcast.analyzer.traces.table import gpu_traces
from epochcast.analyzer.traces.trace import Trace, check_telemetry
from epochcast.analyzer.words import length, plain
from epochcast.detector import Detection, JobDetection
from epochcast.detector import InputError as DetectorInputError
from epochcast.detector import detect as find_epochs
from epochcast.regressor import InputError as RegressorInputError
from epochcast.regressor import load_catalog
from epochcast.regressor.pipelines import Pipeline, Predictor, load_predictor

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Given = ParamSpec("Given")
Answer = TypeVar("Answer")


# The commands' words for what has another name here.
_ARGUMENTS = {
    option.opts[0]: f"{argument_name(option)}="
    for option in options_of(JobQuestion, *SOURCE, *PREDICTION, *RECOMMENDATION_OF_FILES)
} | {"--epoch-time": "epoch_time=", "--epochs-from": "epochs_from="}


def _in_one_sentence(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """The function, whose InputError is ours for whichever room it comes from, and names arguments instead of options."""

    @wraps(function)
    def called(*arguments: Given.args, **named: Given.kwargs) -> Answer:
        try:
            return function(*arguments, **named)
        except (InputError, DetectorInputError, RegressorInputError) as error:
            raise InputError(re.sub(r"--[a-z-]+", lambda option: _ARGUMENTS.get(option[0], option[0]), str(error))) from error
        except click.BadParameter as error:  # of a quantity
            raise InputError(error.message) from error

    return called


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
    """The epochs of a job.

    Attributes:
        detection: the full detection; its verdict, period, unit and confidence are also attributes here.
        traces: the telemetry of its GPUs.
        notes: sentences on how the telemetry was read, and whether it agrees with epochs that are known.
    """

    detection: Detection
    traces: tuple[Trace, ...]
    notes: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.detection, name)

    def __len__(self) -> int:
        return len(self.detection.epochs)

    def __repr__(self) -> str:
        from epochcast.analyzer.cli.detect import sentences

        return plain("\n".join([sentences(self.detection, self.traces), *(f"note: {note}" for note in self.notes)]))

    def to_frame(self) -> pd.DataFrame:
        """``start`` and ``end`` [UTC], ``seconds`` and ``confidence`` of each epoch."""
        epochs = self.detection.epochs
        frame = pd.DataFrame({"start": [epoch.start for epoch in epochs], "end": [epoch.end for epoch in epochs]}, dtype=float)
        times = {name: pd.to_datetime(frame[name], unit="s", utc=True) for name in ("start", "end")}
        return frame.assign(**times, seconds=frame["end"] - frame["start"], confidence=[epoch.confidence for epoch in epochs])

    def plot(self) -> Figure:
        """Draw the telemetry and its epochs.

        Raises:
            InputError: it is of several GPUs.
        """
        if len(self.traces) != 1:
            raise InputError(f"this answer is of {len(self.traces)} GPUs, and one can be drawn; read the trace of one GPU")
        from epochcast.analyzer.charts import detection_figure

        return detection_figure(self.traces[0], self.detection, title=self.traces[0].title)


@dataclass(frozen=True, repr=False)
class Predictions(_Result):
    """A job on other GPUs; `answer` has all of it, as ``epochcast predict --json``."""

    answer: JobAnswer

    def __len__(self) -> int:
        return len(self.answer.predictions)

    def __repr__(self) -> str:
        from epochcast.analyzer.jobs.text import prediction_text

        return plain("\n".join([prediction_text(self.answer), *(f"note: {note}" for note in self.answer.notes)]))

    def to_frame(self) -> pd.DataFrame:
        """A row for each GPU, fastest first, as in ``epochcast predict --json`` without the full explanations."""
        columns = ["gpu", "gpus", "ratio", "ratio_low", "ratio_high", "seconds", "low", "high", "fits", "route", "why"]
        rows = [[getattr(target, name) for name in columns] for target in self.answer.predictions]
        return pd.DataFrame(rows, columns=columns)

    def plot(self) -> Figure:
        """Draw the ratio on every GPU with its 90 % interval."""
        from epochcast.analyzer.charts import ratios_figure

        return ratios_figure(self.answer)


class Recommendations(Predictions):
    """What can be rented for a job, best first; `answer` has all of it, as ``epochcast recommend --json``."""

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
        from epochcast.analyzer.jobs.text import recommendation_text

        return plain(recommendation_text(self.answer))

    def to_frame(self) -> pd.DataFrame:
        """A row for each instance: where, its price, time and cost with their intervals."""
        columns = ["gpus", "usd_per_hour", "fits", "pareto"]
        ends = {"": "value", "_low": "low", "_high": "high"}
        return pd.DataFrame(
            {
                **row.instance.place,
                **{name: getattr(row, name) for name in columns},
                "ratio": row.prediction.ratio,
                **{f"seconds{end}": getattr(row.seconds, name, None) for end, name in ends.items()},
                **{f"usd{end}": getattr(row.usd, name, None) for end, name in ends.items()},
            }
            for row in self.placements
        )

    def plot(self) -> Figure:
        """Draw time against cost; InputError where no instance qualifies."""
        from epochcast.analyzer.charts import cost_figure

        return cost_figure(self.placements)


@dataclass(frozen=True, repr=False)
class Job:
    """A job that was recorded on one GPU or several.

    Attributes:
        named: its traces, each with the name that sentences call it by.
        profiles: paths of profiles of further GPUs.
        said: what is known of it besides.
    """

    named: tuple[tuple[str, Trace], ...]
    profiles: tuple[str, ...] = ()
    said: JobQuestion = field(default_factory=JobQuestion)

    @cached_property
    def _read(self) -> tuple[list[Source], list[str]]:
        catalog = load_catalog()
        sources, notes = (
            sources_of_traces(self.named, catalog, self.said.gpu, self.said.pipeline or "default") if self.named else ([], [])
        )
        sources += [read_source(path, catalog, self.said.gpu) for path in self.profiles]
        return [add_description(source, self.said) for source in sources], notes

    @property
    @_in_one_sentence
    def sources(self) -> list[Source]:
        """One for each GPU."""
        return self._read[0]

    def __repr__(self) -> str:
        """A line on each GPU: where it was read from, its model, and what was found."""

        def line(source: Source) -> str:
            profile = source.profile
            answer = source.no_seconds if profile.epoch_s is None else f"{length(profile.epoch_s)} per {profile.unit}"
            return f"{source.name}: {profile.gpu}{' (simulated)' * profile.simulated}, {answer}"

        try:
            return plain("\n".join(map(line, self.sources)))
        except InputError:  # no GPU is named
            return "\n".join(f"{name}: {trace.title}, {len(trace.time)} rows" for name, trace in self.named)

    @_in_one_sentence
    def detect(self) -> Epochs:
        """Find its epochs, as ``epochcast detect`` does.

        Raises:
            InputError: it was read from profiles, which have no telemetry.
        """
        if not self.named:
            raise InputError("a profile has no telemetry; read the trace to see its epochs")
        traces = [trace for _, trace in self.named]
        if len(traces) > 1:
            detected = detect_together(self.named)
        else:
            detected = JobDetection(None, (find_epochs(traces[0].time, traces[0].metrics()),), {})
        detected, known = checked_epochs(detected, traces)
        notes = dict.fromkeys([*(note for trace in traces for note in trace.notes), *known])
        return Epochs(detected.job or detected.gpus[0], tuple(traces), tuple(notes))

    @property
    def epochs(self) -> Epochs:
        """`detect`."""
        return self.detect()

    @_in_one_sentence
    def predict(self, targets: str | Sequence[str] | None = None, **options: Any) -> Predictions:
        """Predict the job on these GPUs, or all: options and answers of ``epochcast predict`` (``--target-gpus``: target_gpus).

        Raises:
            InputError: a GPU is unknown, or there is nothing to predict from.
        """
        return Predictions(self._answer(options | {"targets": targets}, (*PREDICTION, "model")))

    @_in_one_sentence
    def recommend(self, **options: Any) -> Recommendations:
        """Rank what can be rented for the job: options and answers of ``epochcast recommend``.

        Times and memory may be text such as ``10h`` and ``24GiB``; what may be repeated is a list: targets, clouds, regions.

        Raises:
            InputError: a limit is invalid, or no instance can meet it.
        """
        return Recommendations(self._answer(options, RECOMMENDATION_OF_FILES, recommend=True))

    def _answer(self, options: dict[str, Any], fields: tuple[str, ...], *, recommend: bool = False) -> JobAnswer:
        question = question_of(JobQuestion, options, fields)
        predictor = _predictor(self.said.pipeline or "default", question.model)
        return answer_job(self.sources, predictor, _instances(), question, recommend=recommend, of_job=self._read[1])


@_in_one_sentence
def read(
    *telemetry: str | Path | pd.DataFrame | Any,
    epoch_time: float | str | None = None,
    epochs_from: str | Path | None = None,
    **said: Any,
) -> Job:
    """Read the telemetry of a job: paths as the commands take them (traces, folders, other tools' logs), tables, wandb runs.

    A table has its times as an index or a column, and columns as a tool or our metric catalogue names them. ``epoch_time``
    (seconds, or text such as ``7m``) or ``epochs_from`` (a wandb run, TensorBoard's events, a CSV of the times at which epochs
    start) say what is known of its epochs; a wandb run's own are read. ``said``: gpu, precision, type, family, inference,
    pipeline, as the commands have them.

    Raises:
        InputError: something cannot be read.
    """
    if not telemetry:
        raise InputError("read needs the path of a trace or a profile, or a table")
    question = question_of(JobQuestion, said, SOURCE)
    paths: list[str] = []
    profiles: list[str] = []
    traces: list[tuple[str, Trace]] = []
    for place, one in enumerate(telemetry, start=1):
        name = f"table {place}" if len(telemetry) > 1 else "the table"
        if isinstance(one, pd.DataFrame):
            traces += [(name, check_telemetry(trace, name)) for trace in gpu_traces(one, name)]
        elif isinstance(one, str | Path):
            (profiles if is_profile(str(one)) else paths).append(str(one))
        elif callable(getattr(one, "history", None)) or isinstance(getattr(one, "dir", None), str):
            traces += [(str(getattr(one, "id", name)), trace) for trace in wandb_run.read_object(one)]
        else:
            raise InputError(f"read takes paths, tables and wandb runs, but this is a {type(one).__name__}; give one of them")
    seconds = None if epoch_time is None else Duration("seconds").convert(epoch_time, None, None)
    known = known_epochs(seconds, None if epochs_from is None else str(epochs_from))
    named = [*(read_job(paths) if paths else []), *(labelled(traces) if traces else [])]
    return Job(tuple(with_known_epochs(named, known)), tuple(profiles), question)


def detect(telemetry: pd.DataFrame | str | Path) -> Epochs:
    """Find the epochs in telemetry, as `read` takes it.

    Raises:
        InputError: it is not such telemetry.
    """
    return read(telemetry).detect()


@cache
def _predictor(pipeline: Pipeline, model: Path | None) -> Predictor:
    return load_predictor(pipeline, model, load_catalog())


@cache
def _instances() -> tuple[Instance, ...]:
    return tuple(load_instances(None, load_catalog())[0])
