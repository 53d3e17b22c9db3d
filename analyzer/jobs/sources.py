"""From a trace to a profile: detect the epochs, then summarise each metric over them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.cycles import REASONS, open_text, second_job
from epochcast.analyzer.jobs.detected_profile import detect_epochs, is_sure, profile_of_detection
from epochcast.analyzer.traces.detection_json import DetectionJson, reported
from epochcast.analyzer.traces.job_traces import APART, checked_epochs, detect_together, read_job, shows, with_known_epochs
from epochcast.analyzer.traces.logs.exported_series import is_of_prometheus
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs
from epochcast.analyzer.traces.static_gpu import gpu_of
from epochcast.analyzer.traces.trace import Trace, read_trace
from epochcast.detector import Cycle, Detection, JobDetection
from epochcast.regressor import Catalog, Gpu, Prediction, Profile
from epochcast.regressor.job_types import job_type_of, network_in
from epochcast.regressor.pipelines import Pipeline
from epochcast.regressor.precision import overall_flop_utilization
from epochcast.regressor.profile_json import read_profile

if TYPE_CHECKING:
    from epochcast.analyzer.jobs.questions import JobQuestion


@dataclass(frozen=True, kw_only=True)
class GpuOfJob:
    """One GPU of a job, as answers show it.

    Attributes:
        name: the trace, profile or GPU that it comes from.
        profile: of the job on it.
        detection: in its trace, without arrays and epochs; None of a profile.
        ofu: share of its peak of matrix products that the job reaches, 0..1; None without tensor activity and SM clock.
        predictions: of this GPU alone; empty for a job of one GPU.
    """

    name: str
    profile: Profile
    detection: DetectionJson | None = None
    ofu: float | None = None
    predictions: tuple[Prediction, ...] = ()

    @property
    def cycle(self) -> Cycle | None:
        """What the profile's unit is, where it is a cycle and a trace was read."""
        return None if self.detection is None or self.profile.unit != "cycle" else self.detection.cycle

    @property
    def no_seconds(self) -> str:
        """Why its profile has no seconds, in a few words."""
        if self.detection is None or self.detection.verdict != "epochs":
            return "no epochs found"
        return f"{self.detection.unit}s found with confidence {self.detection.confidence:.2f} only"

    @property
    def kind(self) -> str:
        """What to write behind the word cycle: `` (checkpoint)``, or nothing."""
        return "" if self.cycle is None or self.cycle.kind == "unknown" else f" ({self.cycle.kind})"

    @property
    def unit(self) -> str:
        """Of its profile, as people say it: ``checkpoint cycle``."""
        kind = "" if self.cycle is None or self.cycle.kind == "unknown" else f"{self.cycle.kind} "
        return f"{kind}{self.profile.unit or 'epoch'}"


@dataclass(frozen=True, kw_only=True)
class Source(GpuOfJob):
    """A GPU that answers start from, with what a reader of them should know.

    Attributes:
        gpu: the GPU that the profile was taken on; made of the trace's static attributes where no catalogue has it.
        notes: sentences on what was found next to it.
        odd: why the GPU says nothing of its job, a sentence that follows its name; None where it does.
        job: what the trace says of its job.
    """

    gpu: Gpu
    notes: tuple[str, ...] = ()
    odd: str | None = None
    job: Mapping[str, Any] = field(default_factory=dict)

    def answered(self, predictions: tuple[Prediction, ...]) -> GpuOfJob:
        """The GPU as answers show it, with its own predictions."""
        detection = None if self.detection is None else reported(self.detection)
        ofu = overall_flop_utilization(self.profile, self.gpu)
        return GpuOfJob(name=self.name, profile=self.profile, detection=detection, ofu=ofu, predictions=predictions)


def read_source(path: str, catalog: Catalog, gpu: str | None = None, epochs: KnownEpochs | None = None) -> Source:
    """The profile in a JSON file, or the one made of a trace (Parquet, CSV, ``-``) on the GPU named in it or by ``gpu``.

    Raises InputError, naming the file, for one that is neither, for a trace of no known GPU and for a log of several.
    """
    if not path.endswith(".json"):
        trace = read_trace(path)
        return source_of(replace(trace, epochs=epochs or trace.epochs), path, catalog, gpu)
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no such profile file: {path!r}") from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, or too long an integer
        raise InputError(f"{path!r} is not a readable profile: {error}") from error
    with _naming(path):
        profile = read_profile(content)
        own = catalog.resolve(profile.gpu)
        return Source(name=path, profile=profile, gpu=own if gpu is None else _agreed(own, catalog.resolve(gpu)))


def read_sources(
    paths: Sequence[str],
    catalog: Catalog,
    gpu: str | None = None,
    pipeline: Pipeline = "default",
    epochs: KnownEpochs | None = None,
) -> tuple[list[Source], list[str]]:
    """The sources of one job in files and folders, those of traces first, and a sentence on each thing that is true of all.

    Several traces are searched together, so that each GPU has the job's cycle; by the paper's passes each alone.

    Raises:
        InputError: as `read_source` and `read_job`.
    """
    of_profiles = [path for path in paths if is_profile(path)]
    of_traces = [path for path in paths if path not in of_profiles]
    sources, notes = (
        sources_of_traces(with_known_epochs(read_job(of_traces), epochs), catalog, gpu, pipeline) if of_traces else ([], [])
    )
    return [*sources, *(read_source(path, catalog, gpu) for path in of_profiles)], notes


def is_profile(path: str) -> bool:
    """Whether a path is of a profile: JSON, and no answer of a Prometheus."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            return path.endswith(".json") and not is_of_prometheus(file.read(100))
    except (OSError, UnicodeError):  # said where it is read
        return path.endswith(".json")


def sources_of_traces(
    named: Sequence[tuple[str, Trace]], catalog: Catalog, gpu: str | None = None, pipeline: Pipeline = "default"
) -> tuple[list[Source], list[str]]:
    """The source of each trace, and what is true of all."""
    if len(named) == 1 or pipeline == "paper":
        return [source_of(trace, name, catalog, gpu, pipeline=pipeline) for name, trace in named], []
    for name, trace in named:
        with _naming(name):
            device_of(trace, catalog, gpu)  # refused before the search, which takes seconds
    together, known = checked_epochs(detect_together(named), [trace for _, trace in named])
    seen, sources = set[str](), list[Source]()
    job = together.job
    for place, (name, trace) in enumerate(named):
        once = replace(trace, notes=tuple(note for note in trace.notes if note not in seen))
        seen.update(once.notes)
        own, odd = together.gpus[place], together.odd.get(place)
        if job is None:
            sources.append(source_of(once, name, catalog, gpu, own))
            continue
        # One that begins its cycles late has those of the job; one that idles or does something else says nothing of it.
        counts = odd is None or (own.period_s is not None if job.period_s is None else shows(own, job))
        shared = None if second_job(job) else second_job(own)
        notes = [*([odd] if odd and counts else []), *([shared] if shared else [])]
        sources.append(source_of(once, name, catalog, gpu, _of_job(own, job), notes=notes, odd=None if counts else odd))
    return sources, [*known, *([APART] if job is None else notes_on(job))]


def _of_job(own: Detection, job: Detection) -> Detection:
    """What is known of the job on one of its GPUs: its boundaries where it shows them; at least how long a step is."""
    if shows(own, job):
        return replace(own, cycles=job.cycles, confidence=max(own.confidence, job.confidence))
    return own if job.verdict == "epochs" else job


def source_of(
    trace: Trace,
    name: str,
    catalog: Catalog,
    gpu: str | None = None,
    detection: Detection | None = None,
    pipeline: Pipeline = "default",
    *,
    notes: Sequence[str] | None = None,
    odd: str | None = None,
) -> Source:
    """The profile made of a trace on the GPU named in it or by ``gpu``; raises InputError like `read_source`, with ``name``.

    ``detection`` is that of the trace, where it is known; ``notes`` are on it, else those of `notes_on`.
    """
    known: list[str] = []
    with _naming(name):
        if detection is None and trace.epochs is not None and device_of(trace, catalog, gpu):
            found = JobDetection(None, (detect_epochs(trace.time, trace.metrics(), pipeline),), {})
            checked, known = checked_epochs(found, [trace])
            detection = checked.gpus[0]
        profile, detection = profile_of(trace, catalog, gpu, detection, pipeline)
    device, named = gpu_of(profile.gpu, trace.static, catalog), gpu or trace.gpu or ""
    taken = catalog.nearest(named) == device
    nearest = [f"{named} is not known: it is taken for the nearest that is, {device.name}"] * taken
    of_batch = [f"its batch, {profile.batch:g}, is from its configuration"] if profile.batch else []
    said = (*trace.notes, *nearest, *of_batch, *known, *(notes_on(detection) if notes is None else notes))
    return Source(name=name, profile=profile, gpu=device, notes=said, detection=detection, odd=odd, job=trace.job)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:  # the InputError of any room
        raise InputError(f"{name!r}: {error}") from error


def add_description(source: Source, stated: JobQuestion) -> Source:
    """The source of a job with what the user says of it, else what its trace does, of which a note says where it is from.

    Raises InputError where the profile says something else.
    """
    profile = source.profile
    for option, said, held in (
        ("precision", stated.precision, profile.precision),
        ("type", stated.job_type, profile.type),
        ("family", stated.family, profile.group),
    ):
        if None not in (said, held) and said != held:
            raise InputError(
                f"{source.name!r} has {option} {held!r}, and --{option} is {said!r}; leave --{option} "
                "out, or correct the profile"
            )
    family, job_type = stated.family or profile.group, stated.job_type or profile.type
    where = "configuration" if source.job.get("configuration") else "command"
    named = None if family or job_type else network_in([str(source.job.get(where))])
    notes = source.notes
    if named is not None:
        network, job_type = named
        family = None if network == job_type else network  # "transformer" is a type, and no one network
        notes += (f"its type, {job_type}, is from its {where} ({network}); state the type to correct it",)
    return replace(
        source,
        profile=replace(
            profile,
            precision=stated.precision or profile.precision,
            type=job_type or (None if family is None else job_type_of(family)),
            group=family,
            inference=stated.inference or profile.inference,
        ),
        notes=notes,
    )


def without_seconds(profile: Profile) -> Profile:
    """The profile of a job of which only ratios between GPUs are to be said."""
    return replace(profile, epoch_s=None, unit=None, epoch_s_low=None, epoch_s_high=None)


def find_slowest(sources: Sequence[Source]) -> Source:
    """The one with the longest epochs, or cycles, or steps."""
    return max(sources, key=lambda source: source.profile.epoch_s or 0.0)


def profile_of(
    trace: Trace,
    catalog: Catalog,
    gpu: str | None = None,
    detection: Detection | None = None,
    pipeline: Pipeline = "default",
) -> tuple[Profile, Detection]:
    """Detect epochs, unless ``detection`` has them, and summarise the metrics over them (`profile_of_detection`).

    Raises InputError for a trace of no known GPU.
    """
    device = device_of(trace, catalog, gpu)
    detection = detection or detect_epochs(trace.time, trace.metrics(), pipeline)
    profile = profile_of_detection(device.name, trace.time, trace.metrics(), detection, simulated=trace.simulated)
    return replace(profile, batch=trace.job.get("batch")), detection


def device_of(trace: Trace, catalog: Catalog, gpu: str | None = None) -> Gpu:
    """The GPU that a trace names, or ``gpu`` where it names none that is known, or a part of one.

    Raises InputError for none that is known, and where ``gpu`` is another than the trace's own, which was measured.
    """
    if trace.source == "host":
        raise InputError(f"the trace is of a CPU ({trace.gpu}), but predictions need a GPU's telemetry; record on a GPU")
    if gpu is None and trace.gpu is None:
        raise InputError("the trace does not say which GPU it was recorded on; name it with --gpu (over HTTP: gpu)")
    device = gpu_of(gpu or trace.gpu or "", trace.static, catalog)
    if gpu is not None and trace.gpu is not None and catalog.nearest(trace.gpu) is None:
        try:
            own = gpu_of(trace.gpu, trace.static, catalog)
        except ValueError:  # the InputError of either room: --gpu is there to say what such a name means
            return device
        return _agreed(own, device)
    return device


def _agreed(own: Gpu, given: Gpu) -> Gpu:
    """The GPU that a file names, which was measured; raises InputError where the one that somebody states is another."""
    if own != given:
        raise InputError(f"recorded on {own.name}, but the GPU that is given is {given.name}; leave it out")
    return own


def notes_on(detection: Detection) -> list[str]:
    """A sentence on each thing that a reader should know of what was found, in a trace or while the job runs."""
    notes = []
    if detection.reason is not None:
        notes.append(REASONS[detection.reason])
    elif detection.verdict == "none":
        notes.append("no epochs or steps were found so far, so there are only ratios between GPUs, no seconds")
    elif not is_sure(detection):
        notes.append(
            f"there may be {detection.unit}s of {detection.period_s:.3g} s, but with confidence {detection.confidence:.2f} "
            "that is too uncertain to give seconds: record more of the job, or more metrics"
        )
    elif detection.unit == "step":
        notes.append("only steps were found, no epochs: seconds and cost are per step")
    elif detection.unit == "cycle":
        cycle = detection.cycle
        kind = "unknown" if cycle is None else cycle.kind
        why = "" if cycle is None or kind == "unknown" else f" ({cycle.evidence})"
        notes.append(f"seconds and cost are per cycle{'' if cycle is None else open_text(cycle)}; its kind is {kind}{why}")
    shared = second_job(detection)
    return [*notes, *([shared] if shared else [])]
