"""The answer to a job, in one place: the sources of its GPUs in, everything that commands, HTTP, service and fleet show out.

Telemetry becomes sources in `sources` (a command, an upload) or `jobs.summary` (the live service and a fleet, which stream);
`job_json` makes JSON of the result. What is shown of it, and how, is each caller's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from epochcast.analyzer.answers.cycles import NO_STEP, Throughput
from epochcast.analyzer.answers.gpu_use import GpuUse, use_of
from epochcast.analyzer.answers.predictions import (
    Answer,
    comparable,
    of_gpus_and_batch,
    of_kind,
    of_memory,
    of_precision,
    of_sensors,
    predict_job,
)
from epochcast.analyzer.answers.recommendations import Recommended, Renting, recommend_job
from epochcast.analyzer.answers.sources import Source, on_gpus, slowest_of, throughput_of, waits_of, with_own
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.instances import Instance
from epochcast.analyzer.recommendation import MemoryNeed, Work
from epochcast.analyzer.words import plain
from epochcast.detector import Detection
from epochcast.regressor import Catalog, LatencyPredictor, Profile

if TYPE_CHECKING:
    from epochcast.regressor.pipelines import Predictor


@dataclass(frozen=True)
class JobQuestion:
    """What to answer of a job.

    Attributes:
        targets: any names of GPUs; None: all of the catalogue.
        work: the whole job, to answer for that too.
        gpus: of the job; None: as many as have a source, or as a profile says.
        target_gpus, batch_may_grow, need: as `predict_job` has them.
        samples_per_step, tokens_per_step: of all GPUs together, for the throughput.
        carbon_intensity: of the electricity, wherever the job runs [g CO2e/kWh]; None: that of each region, where it is known.
        renting: what a recommendation must keep; None: no recommendation. It needs all GPUs of the catalogue as targets.
    """

    targets: Sequence[str] | None = None
    work: Work | None = None
    gpus: int | None = None
    target_gpus: int | None = None
    batch_may_grow: bool = False
    samples_per_step: float | None = None
    tokens_per_step: float | None = None
    carbon_intensity: float | None = None
    need: MemoryNeed | None = None
    renting: Renting | None = None


@dataclass(frozen=True)
class JobResult:
    """A job on other GPUs, and where to run it.

    Attributes:
        sources: its GPUs that count, each with its detection and its profile; not those that idle, or show another cycle.
        answers: one for each target, fastest first.
        recommended: instances; None if they were not requested.
        predictor: that made the answers; its catalogue has the GPUs of the sources.
        work: the whole job that answers are of; None: one epoch, cycle or step.
        throughput: of the job here; None where it is not known.
        use: how well it uses its GPUs.
        carbon_intensity: as the question has it.
        idle_at_boundaries: a sentence on each kind of boundary at which the job waits, with what that costs.
        notes: a sentence on each thing that a reader should know of sources and times.
    """

    sources: tuple[Source, ...]
    answers: tuple[Answer, ...]
    recommended: Recommended | None
    predictor: Predictor
    work: Work | None
    throughput: Throughput | None
    use: GpuUse
    carbon_intensity: float | None
    idle_at_boundaries: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def slowest(self) -> Source:
        """The GPU whose epochs take longest, which sets the pace."""
        return slowest_of(self.sources)

    @property
    def detection(self) -> Detection | None:
        """Its detection; None for a profile."""
        return self.slowest.detection

    @property
    def profile(self) -> Profile:
        """Its profile."""
        return self.slowest.profile

    @property
    def catalog(self) -> Catalog:
        """The GPUs, those of the sources among them."""
        return self.predictor.catalog

    @property
    def simulated(self) -> bool:
        """Whether no hardware was read."""
        return any(source.profile.simulated for source in self.sources)

    @property
    def prediction_notes(self) -> tuple[str, ...]:
        """For a reader of the predictions, who is shown energy too."""
        return (*self.notes, *of_sensors(self.sources, self.answers, self.catalog))

    @property
    def recommendation_notes(self) -> tuple[str, ...]:
        """For a reader of the recommendation."""
        return self.notes if self.recommended is None else (*self.notes, *self.recommended.notes)


def answer_job(
    read: Sequence[Source],
    predictor: Predictor,
    instances: Sequence[Instance],
    question: JobQuestion,
    *,
    of_job: Sequence[str] = (),
) -> JobResult:
    """Predict a job on other GPUs, and rank what can be rented for it.

    Args:
        read: one source per GPU of the job that says something.
        predictor: how to predict.
        instances: what can be rented, and what it costs.
        question: what to answer.
        of_job: sentences on how the sources came to be.

    Raises:
        InputError: no source, all of them idle, not comparable, a GPU that is not known, limits that cannot be kept, or a whole
            job without seconds of an epoch.
    """
    if not read:
        raise InputError("a prediction needs the profile of at least one GPU; send one")
    sources, doubts = comparable(on_gpus(read, question.gpus))
    catalog = with_own(predictor.catalog, sources)
    if catalog is not predictor.catalog:
        predictor = replace(predictor, catalog=catalog)
    slowest = slowest_of(sources)
    per_step, work, need = (question.samples_per_step, question.tokens_per_step), question.work, question.need
    rate = throughput_of(slowest, *per_step)
    notes = [*said_once([(source.name, note) for source in sources for note in source.notes], len(read)), *of_job, *doubts]
    notes += [NO_STEP] if rate is None and any(per_step) else []
    if work is not None and slowest.profile.epoch_s is None:
        raise InputError(
            f"{slowest.no_seconds}, so there are only ratios, but the time of the whole job needs seconds: record more of the "
            "job, or leave out the number of epochs"
        )
    names = None if question.targets is None else [catalog.resolve(name).name for name in question.targets]
    epochs = None if work is None else work.epochs
    grows = question.batch_may_grow
    answers = predict_job(
        predictor, catalog, sources, names, epochs, target_gpus=question.target_gpus, batch_may_grow=grows, need=need
    )
    if isinstance(predictor, LatencyPredictor):
        notes += [of_precision(slowest, answers), of_kind(slowest)]
    else:
        notes.append(predictor.note(slowest.profile))
    notes.append(of_gpus_and_batch(sources, answers, batch_may_grow=grows))
    notes += of_memory(sources, answers, need)
    recommended = None
    if question.renting is not None:
        recommended = recommend_job(sources, answers, predictor, instances, question.renting, work=work, need=need)
    current = None if recommended is None or recommended.on.assumed else recommended.current
    idle = waits_of(slowest, read, instances, None if current is None else current.usd_per_hour)
    each = None if recommended is None or recommended.on.assumed else recommended.on.usd_per_gpu_hour
    return JobResult(
        tuple(sources),
        tuple(answers),
        recommended,
        predictor,
        work,
        rate,
        use_of(sources, [source.profile for source in read], each),
        question.carbon_intensity,
        tuple(map(plain, idle)),
        tuple(map(plain, notes)),
    )


def said_once(said: Sequence[tuple[str, str]], gpus: int) -> list[str]:
    """Each sentence once, with the names of the GPUs that it is true of; without names where it is true of all ``gpus``.

    Args:
        said: name of a GPU, sentence on it.
        gpus: how many the job has.
    """
    lines: list[str] = []
    for sentence, number in Counter(sentence for _, sentence in said).items():
        names = [name for name, text in said if text == sentence]
        more = f" and {number - 3} more" if number > 3 else ""
        lines.append(sentence if number >= gpus else f"{', '.join(names[:3])}{more}: {sentence}")
    return lines
