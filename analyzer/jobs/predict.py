"""What is predicted for a job: every GPU it ran on moved to each target, the slowest of them, and what all of it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.cycles import Throughput, idle_at
from epochcast.analyzer.jobs.sources import Source
from epochcast.analyzer.words import length
from epochcast.regressor import Catalog, Gpu, LatencyPredictor, Prediction, Profile
from epochcast.regressor.energy import Energy, has_sparse_sensor, predict_energy
from epochcast.regressor.features import busy_share
from epochcast.regressor.job import JobTime, estimate_job
from epochcast.regressor.precision import CODE, likely_precisions, tensor_cores_idle
from epochcast.regressor.prediction import Estimate
from epochcast.regressor.profile import Unit

if TYPE_CHECKING:
    from epochcast.analyzer.jobs.questions import JobQuestion
    from epochcast.regressor.pipelines import Predictor

# GPUs that train together wait for each other, so their epochs differ by no more than the detector errs: it calls lengths
# within 15 % of each other even.
_SAME_PACE = 1.15

# By choice: with less than a tenth of work, what the job waits for sets its pace.
_LITTLE = 0.1

# What `likely_precisions` assumes of FP32 code.
_TF32 = "FP32 code counts as TF32 from Ampere on, the frameworks' default (TF32 off: state fp32)"

# GPUs that a sentence names; of more it says how many, as each answer says whether it fits.
_MOST_NAMED = 8

_UNITS = ("epoch", "cycle", "step", None)  # from what says most


GIB = 2.0**30

# Error correction on GDDR6 leaves a T4 or an A10G 92 % of its nominal memory (15 109 of 16 384, 22 731 of 24 576 MiB).
_USABLE = 0.92

# TensorFlow and JAX take nearly all memory at startup, regardless of the model's need (research: 91 to 98 % on four GPUs).
_RESERVED = 0.9

_JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class MemoryNeed:
    """GPU memory of a job.

    Attributes:
        bytes: the most that was in use, or what the user says.
        reserved: nearly all of the source's memory was in use: perhaps it was only reserved, and less would do.
    """

    bytes: float
    reserved: bool = False

    def fits(self, gpu: Gpu, *, here: bool = False) -> bool | None:
        """Whether the job runs in the memory of ``gpu``; None where that is not known.

        ``here``: the job was seen on it, and took there what it took; but a user can say more than there is.
        """
        if self.bytes <= (1.0 if here else _USABLE) * gpu.memory:
            return True
        return None if self.reserved else False


@dataclass(frozen=True, kw_only=True)
class Target(Prediction):
    """A job on one GPU model: the prediction of the GPU that sets the pace there, and what all of the job takes.

    Attributes:
        slowest: which of the job's GPUs sets the pace, from 0.
        spread: how much longer that one takes than the fastest, 0 for one GPU.
        energy: of one epoch, cycle or step on all GPUs; None without power readings.
        job: the whole job; None unless its epochs were given.
        job_joules: energy of the whole job, as if the first epoch and stalls drew the power of the others.
        grams_co2e: carbon dioxide equivalents of the whole job, else of one epoch, cycle or step; None unless the carbon
            intensity was given and energy is known.
        fits: whether its memory holds the job; None where that is not known.
        throughput: there; None where the job's is not known.
    """

    slowest: int
    spread: float
    energy: Energy | None
    job: JobTime | None
    job_joules: Estimate | None
    grams_co2e: Estimate | None
    fits: bool | None
    throughput: Throughput | None


def counted(sources: Sequence[Source]) -> list[Source]:
    """The GPUs of a job that count, in their order: none that idles, or shows another cycle than the job's.

    An epoch and a step cannot be compared, so those with what says most (epochs, then cycles, steps, nothing) count.
    """
    busy = [source for source in sources if _idle_at(source) is None]
    even = [source for source in busy if source.odd is None] or busy
    unit = next((unit for unit in _UNITS if any(source.profile.unit == unit for source in even)), None)
    return [source for source in even if source.profile.unit == unit]


def comparable(sources: Sequence[Source]) -> tuple[list[Source], list[str], list[str]]:
    """The sources of `counted`, a sentence on those left out, and one on each doubt.

    Raises InputError where all are idle, and for several GPU models without any seconds: ratios to different GPUs say nothing
    of which is slower.
    """
    kept = counted(sources)
    if not kept:
        metric, share = _idle_at(sources[0]) or ("", 0.0)
        raise InputError(
            f"{sources[0].name}: the GPU is idle in it ({metric} is {100 * share:.2g} % on average), so there is no job to "
            "predict; record while the job trains"
        )
    left_out: dict[str, list[str]] = {}
    in_one_file = len({source.name.rpartition(", ")[0] for source in sources}) == 1
    for source in sources:
        if source not in kept:
            name = source.name.rpartition(", ")[2] if in_one_file else source.name
            left_out.setdefault(_why_not(source), []).append(name)
    not_counted = [f"{', '.join(names)} not counted: {why.removeprefix('is ')}" for why, names in left_out.items()]
    notes = [note for source in kept for note in _little_used(source)]
    models, unit = list(dict.fromkeys(source.gpu.name for source in kept)), kept[0].profile.unit
    if len(models) > 1 and unit is None:
        raise InputError(
            f"no epochs were found in the traces of {' and '.join(models)}, and ratios to different GPUs cannot be compared; "
            "give the traces of one model"
        )
    if len(models) > 1:
        notes.append(
            f"different GPUs in one job ({', '.join(models)}): the faster GPUs wait for the slower, and the prediction "
            "keeps that waiting time, so it is probably too long"
        )
    lengths = [source.profile.epoch_s for source in kept if source.profile.epoch_s is not None]
    if lengths and max(lengths) > _SAME_PACE * min(lengths):
        notes.append(
            f"their {unit}s take {min(lengths):.3g} to {max(lengths):.3g} s, but GPUs of one job keep pace: is it one job?"
        )
    return kept, not_counted, notes


def count_gpus(sources: Sequence[Source], gpus: int) -> int:
    """How many of a job's ``gpus`` count: those that idle, or show another cycle, leave before anything is counted."""
    return max(1, gpus - len(sources) + len(counted(sources)))


def _idle_at(source: Source) -> tuple[str, float] | None:
    return idle_at({name: statistics["mean"] for name, statistics in source.profile.metrics.items()})


def _little_used(source: Source) -> list[str]:
    share, metric = busy_share(source.profile)
    if share >= _LITTLE:
        return []
    return [
        f"{source.name}: the GPU works {100 * share:.0f} % of the time ({metric}): the job waits for something else, which "
        "another GPU hardly changes; a cheaper GPU may do as well"
    ]


def _why_not(source: Source) -> str:
    if _idle_at(source) is not None:
        return source.odd or "idle"
    return source.odd or (f"only {source.profile.unit}s found" if source.profile.unit else source.no_seconds)


def resolve_targets(catalog: Catalog, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names in the catalogue of what a user wants to know of, and a sentence on each that was taken for its usual form."""
    known, notes = [], []
    for name in names:
        gpu = catalog.usual(name) or catalog.resolve(name)
        known.append(gpu.name)
        if catalog.usual(name) is not None:
            notes.append(f"{name} is taken for {gpu.name}, the form that clouds usually rent")
    return known, notes


def predict_job(
    predictor: Predictor,
    sources: Sequence[Source],
    targets: Sequence[str] | None,
    epochs: int | None,
    question: JobQuestion,
    rate: Throughput | None,
) -> tuple[list[Target], list[tuple[Prediction, ...]]]:
    """Predict the job of these GPUs on each target, fastest first.

    Args:
        predictor: how to predict, and between which GPUs.
        sources: of `comparable`.
        targets: names in the catalogue; None: all of it.
        epochs: of the whole job, to answer for that too.
        question: what is assumed of the targets, and of the job.
        rate: of the job here.

    Returns:
        The targets, and of each source its own predictions, in the same order.
    """

    def moved(source: Source) -> dict[str, Prediction]:
        predictions = predictor.predict(source.profile, targets)
        if question.batch_may_grow:
            predictions = [predictor.with_larger_batch(prediction, source.gpu) for prediction in predictions]
        if question.target_gpus is not None:
            predictions = [predictor.on_gpus(prediction, question.target_gpus) for prediction in predictions]
        return {prediction.gpu: prediction for prediction in predictions}

    by_source, need = [moved(source) for source in sources], memory_of_job(sources, question)
    answers = [
        _target(predictor.catalog[gpu], sources, [moved_to[gpu] for moved_to in by_source], epochs, need, rate, question)
        for gpu in by_source[0]
    ]
    answers.sort(key=_pace)
    return answers, [tuple(moved_to[answer.gpu] for answer in answers) for moved_to in by_source]


def sensor_notes(sources: Sequence[Source], answers: Sequence[Target], catalog: Catalog) -> list[str]:
    """A sentence on power sensors that do not see all, if there is energy and such a GPU among sources and targets."""
    gpus = [*(source.gpu for source in sources), *(catalog[answer.gpu] for answer in answers)]
    if not any(answer.energy for answer in answers) or not any(map(has_sparse_sensor, gpus)):
        return []
    return [
        "power sensors of A100 and H100 sample about a quarter of the time (arXiv 2312.02741): the energy of a short job "
        "may be off by more than the interval"
    ]


def answer_notes(
    predictor: Predictor, sources: Sequence[Source], slowest: Source, answers: Sequence[Target], question: JobQuestion
) -> list[str]:
    """A sentence on each thing that answers rest on: the job's precision, type, batch and memory."""
    profile, need = slowest.profile, memory_of_job(sources, question)
    if isinstance(predictor, LatencyPredictor):
        kind = f"the job is taken for {'inference' if profile.inference else 'training'} of type {profile.type}"
        if profile.type is None:
            kind = "the type of the job is not known, so the answers are the mean over types; state it"
        elif profile.group:
            kind += f", of the family {profile.group}"
        notes = [_precision_note(slowest, answers), kind, _batch_note(sources, answers, question)]
    else:
        notes = [predictor.note(profile), _batch_note(sources, answers, question)]
    small = [answer.gpu for answer in answers if answer.fits is False]
    if small and need is not None:
        more = f" and {len(small) - _MOST_NAMED} more" * (len(small) > _MOST_NAMED)
        # A user who says what it needs knows that.
        has = "" if question.memory_bytes else f"has {need.bytes / GIB:.3g} GiB in use on a GPU and "
        notes.append(f"the job {has}does not fit into {', '.join(small[:_MOST_NAMED])}{more}")
    return notes


def _precision_note(job: Source, answers: Sequence[Target]) -> str:
    likely, reason = likely_precisions(job.profile, job.gpu)
    assumed = f"; {_TF32}" if "tf32" in likely and job.profile.precision is None else ""
    if len(likely) == 1:
        (code,) = likely
        faster = "; the SMs are busy, so tensor cores may be several times as fast" * tensor_cores_idle(job.profile, job.gpu)
        return f"the job computes in {CODE[code]}: {reason}{faster}{assumed}"
    differ = ""
    ratios = {answer.gpu: answer.by_precision for answer in answers if answer.by_precision}
    if ratios:
        gpu = max(ratios, key=lambda name: max(ratios[name].values()) / min(ratios[name].values()))
        each = ", ".join(f"{ratio:.2f}x in {CODE[code]}" for code in likely for ratio in [ratios[gpu][code]])
        differ = f", so the answers are the mean of both: on {gpu} {each}"
    shown = "" if reason == "not known" else f" ({reason})"
    return f"precision not known{shown}{differ}; state it{assumed}"


def _batch_note(sources: Sequence[Source], answers: Sequence[Target], question: JobQuestion) -> str:
    profile = sources[0].profile
    before, after = profile.gpus, answers[0].gpus if answers else profile.gpus
    grows = "grows with a GPU's memory, and the number of epochs " * question.batch_may_grow
    of_batch = f"assumed: the batch{' on each GPU' * (max(before, after) > 1)} {grows}stays the same"
    if before == after:
        return of_batch
    number = f"{after} GPU{'s' * (after > 1)} instead of {before}"
    scaled = f"{number}, as measured jobs scaled within one machine (each holds the whole model)"
    return f"{scaled}; {of_batch}{equal_work_text(profile.unit)}"


def interruption_note(sources: Sequence[Source]) -> str:
    """A sentence on what it costs when the cloud takes a spot instance back."""
    cycles = [] if sources[0].detection is None else sources[0].detection.cycles
    apart = next((cycle.period_s for cycle in cycles if cycle.kind == "checkpoint"), None)
    lost = "all since the last checkpoint; no checkpoints show" if apart is None else f"up to {length(apart)} of work"
    return f"spot: an interruption costs {lost}"


def equal_work_text(unit: Unit | None) -> str:
    """What times mean on another number of GPUs, which do more or less in a step or cycle; an epoch is one everywhere."""
    return "" if unit in ("epoch", None) else f"; times are for the work of one {unit} here"


def memory_of_job(sources: Sequence[Source], question: JobQuestion) -> MemoryNeed | None:
    """What is said of the job's memory per GPU, else what it takes where it fills a GPU most; None if no source shows it."""
    if question.memory_bytes is not None:
        return MemoryNeed(question.memory_bytes)
    needs = [need for source in sources if (need := memory_need(source.profile, source.gpu)) is not None]
    return max(needs, key=lambda need: need.bytes, default=None)


def _target(
    target: Gpu,
    sources: Sequence[Source],
    predictions: Sequence[Prediction],
    epochs: int | None,
    need: MemoryNeed | None,
    rate: Throughput | None,
    question: JobQuestion,
) -> Target:
    slowest = max(range(len(sources)), key=lambda number: _pace(predictions[number]))
    there = predictions[slowest]
    pairs = list(zip(sources, predictions, strict=True))
    energy = _sum([predict_energy(source.profile, prediction, source.gpu, target) for source, prediction in pairs])
    if energy is not None:
        energy = energy.times(predictions[0].gpus / sources[0].profile.gpus)
    job = None if epochs is None else estimate_job(sources[slowest].profile, there, epochs)
    joules = None if energy is None else energy.joules
    of_job = None
    if job is not None and joules is not None and there.seconds is not None:
        of_job = joules.times(job.seconds.value / there.seconds)
    return Target(
        **{each.name: getattr(there, each.name) for each in fields(Prediction) if each.init},
        slowest=slowest,
        spread=_pace(there) / min(map(_pace, predictions)) - 1,
        energy=energy,
        job=job,
        job_joules=of_job,
        grams_co2e=grams_of(joules if job is None else of_job, question.carbon_intensity),
        fits=None if need is None else need.fits(target, here=any(source.gpu == target for source in sources)),
        throughput=None if rate is None else rate.times_as_long(there.ratio),
    )


def _pace(prediction: Prediction) -> float:
    return prediction.ratio if prediction.seconds is None else prediction.seconds


def _sum(energies: Sequence[Energy | None]) -> Energy | None:
    """Of all GPUs; None if one of them is not known."""
    total, *others = energies
    for other in others:
        total = None if total is None or other is None else total.plus(other)
    return total


def grams_of(joules: Estimate | None, grams_per_kwh: float | None) -> Estimate | None:
    """Carbon dioxide equivalents [g] of an energy; None where one of the two is not known."""
    return None if joules is None or grams_per_kwh is None else joules.times(grams_per_kwh / _JOULES_PER_KWH)


def memory_need(profile: Profile, gpu: Gpu) -> MemoryNeed | None:
    """What the job took on its source ``gpu``; None where the trace has no ``memory_used``."""
    used = profile.metrics.get("memory_used")
    if used is None:
        return None
    free = profile.metrics.get("memory_free")
    total = gpu.memory if free is None else used["max"] + free["min"]
    return MemoryNeed(used["max"], reserved=used["max"] >= _RESERVED * total)
