"""What is said of a job: its sources in, everything that commands, service and fleet show of it out. The one place for that.

Telemetry becomes sources in `profiles` (a command, an upload) or `jobs.summary` (the live service and a fleet, which stream);
predictions are those of `predictions`, instances those of `recommendations`. What is shown, and how, is each caller's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..regressor import Catalog, Predictor
from .cycles import NO_STEP, Throughput
from .errors import InputError
from .instances import Instance
from .predictions import Answer, comparable, of_gpus_and_batch, of_memory, of_precision, of_sensors, predict_job
from .profiles import Source, on_gpus, slowest_of, throughput_of, waits_of, with_own
from .recommendation import MemoryNeed

if TYPE_CHECKING:
    from ..regressor import PaperPredictor


@dataclass(frozen=True)
class JobResult:
    """A job on every GPU that was asked for.

    Attributes:
        sources: those of its GPUs that count; not those that idle, or show another cycle.
        answers: one for each target, fastest first.
        predictor: that made them; its catalogue has the GPUs of the sources.
        throughput: of the job here; None where it is not known.
        notes: a sentence on each thing that a reader should know.
    """

    sources: tuple[Source, ...]
    answers: tuple[Answer, ...]
    predictor: Predictor | PaperPredictor
    throughput: Throughput | None
    notes: tuple[str, ...]

    @property
    def slowest(self) -> Source:
        """The GPU whose epochs take longest, which sets the pace."""
        return slowest_of(self.sources)

    @property
    def catalog(self) -> Catalog:
        """The GPUs, those of the sources among them."""
        return self.predictor.catalog

    def with_energy(self) -> JobResult:
        """The same for a reader who is shown energy: with a note on power sensors that do not see all of it."""
        return replace(self, notes=(*self.notes, *of_sensors(self.sources, self.answers, self.catalog)))


def answer_job(
    read: Sequence[Source],
    predictor: Predictor | PaperPredictor,
    instances: Sequence[Instance] | None = None,
    *,
    targets: Sequence[str] | None = None,
    epochs: int | None = None,
    gpus: int | None = None,
    target_gpus: int | None = None,
    batch_may_grow: bool = False,
    samples_per_step: float | None = None,
    tokens_per_step: float | None = None,
    need: MemoryNeed | None = None,
    of_job: Sequence[str] = (),
) -> JobResult:
    """Predict a job on other GPUs.

    Args:
        read: one source per GPU of the job that says something.
        predictor: how to predict.
        instances: prices, for what waiting costs; None: ours.
        targets: any names of GPUs; None: all of the catalogue.
        epochs: epochs (or steps, cycles) of the whole job, to answer for that too.
        gpus: of the job; None: as many as were read, or as a profile says.
        target_gpus, batch_may_grow, need: as `predict_job` has them.
        samples_per_step, tokens_per_step: of all GPUs together, for the throughput.
        of_job: sentences on how the sources came to be.

    Raises:
        InputError: no source, all of them idle, not comparable, or a GPU that is not known.
    """
    if not read:
        raise InputError("a prediction needs the profile of at least one GPU; send one")
    sources, doubts = comparable(on_gpus(read, gpus))
    catalog = with_own(predictor.catalog, sources)
    if catalog is not predictor.catalog:
        predictor = replace(predictor, catalog=catalog)
    slowest = slowest_of(sources)
    rate = throughput_of(slowest, samples_per_step, tokens_per_step)
    notes = [*(_of(source, note, many=len(read) > 1) for source in sources for note in source.notes), *of_job, *doubts]
    notes += waits_of(slowest, read, instances)
    notes += [NO_STEP] if rate is None and (samples_per_step or tokens_per_step) else []
    if epochs is not None and slowest.profile.epoch_s is None:
        notes.append("how long the whole job takes is not known: no epochs were found, so there are only ratios")
        epochs = None
    names = None if targets is None else [catalog.resolve(name).name for name in targets]
    answers = predict_job(
        predictor, catalog, sources, names, epochs, target_gpus=target_gpus, batch_may_grow=batch_may_grow, need=need
    )
    notes.append(of_precision(slowest, answers) if isinstance(predictor, Predictor) else predictor.note(slowest.profile))
    notes.append(of_gpus_and_batch(sources, answers, batch_may_grow=batch_may_grow))
    notes += of_memory(sources, answers, need)
    return JobResult(tuple(sources), tuple(answers), predictor, rate, tuple(notes))


def _of(source: Source, note: str, *, many: bool) -> str:
    return f"{source.name}: {note}" if many else note
