"""From a trace to a profile: detect the epochs, then summarise each metric over them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..detector import Detection, detect
from ..regressor import Catalog, Gpu, Profile
from .adapters import prometheus_json
from .errors import InputError
from .profile_of_detection import LEAST_CONFIDENCE, profile_of_detection
from .reasons import REASONS
from .static_gpu import gpu_of
from .trace import Trace, read_trace, read_traces


@dataclass(frozen=True)
class Source:
    """A profile with what a reader of its answers should know.

    Attributes:
        name: the file that it came from.
        profile: the profile.
        gpu: the GPU that it was taken on; made of the trace's static attributes where no catalogue has it.
        notes: sentences on what was found beside it.
    """

    name: str
    profile: Profile
    gpu: Gpu
    notes: tuple[str, ...] = ()


def read_source(path: str, catalog: Catalog, gpu: str | None = None) -> Source:
    """The profile in a JSON file, or the one made of a trace (Parquet, CSV, ``-``) on the GPU named in it or by ``gpu``.

    Raises InputError, naming the file, for one that is neither, for a trace of no known GPU and for a log of several.
    """
    if not path.endswith(".json"):
        return source_of(read_trace(path), path, catalog, gpu)
    if gpu is not None:
        raise InputError(f"{path!r} is a profile and says its GPU itself; leave --gpu out")
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no such profile file: {path!r}") from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, or too long an integer
        raise InputError(f"{path!r} is not a readable profile: {error}") from error
    try:
        profile = Profile.from_json(content)
    except ValueError as error:
        raise InputError(f"{path!r}: {error}") from error
    return Source(path, profile, catalog.resolve(profile.gpu))


def read_sources(path: str, catalog: Catalog, gpu: str | None = None) -> list[Source]:
    """The sources in a file, one for each of its GPUs; raises InputError like `read_source`."""
    if path.endswith(".json") and not _is_answer_of_prometheus(path):
        return [read_source(path, catalog, gpu)]
    traces = read_traces(path)
    names = [path] if len(traces) == 1 else [f"{path}, {trace.label}" for trace in traces]
    traces[1:] = [replace(trace, notes=()) for trace in traces[1:]]  # they are of the file: once is enough
    return [source_of(trace, name, catalog, gpu) for trace, name in zip(traces, names, strict=True)]


def _is_answer_of_prometheus(path: str) -> bool:
    try:
        with Path(path).open(encoding="utf-8") as file:
            return prometheus_json.recognises(file.read(100))
    except (OSError, UnicodeError):  # said where it is read
        return False


def source_of(trace: Trace, name: str, catalog: Catalog, gpu: str | None = None) -> Source:
    """The profile made of a trace on the GPU named in it or by ``gpu``; raises InputError like `read_source`, with ``name``."""
    try:
        profile, found = profile_of(trace, catalog, gpu)
    except ValueError as error:  # the InputError of any room
        raise InputError(f"{name!r}: {error}") from error
    notes = (*trace.notes, *_contradiction(trace, profile.gpu, catalog), *_notes(found))
    return Source(name, profile, gpu_of(profile.gpu, trace.static, catalog), notes)


def with_own(catalog: Catalog, sources: Sequence[Source]) -> Catalog:
    """The catalogue and the GPUs that only the traces know, which can then be predicted from, and for."""
    own = {source.gpu.name: source.gpu for source in sources if source.gpu.name not in catalog}
    return Catalog([*catalog.values(), *own.values()]) if own else catalog


def profile_of(trace: Trace, catalog: Catalog, gpu: str | None = None) -> tuple[Profile, Detection]:
    """Detect the epochs of ``trace`` and summarise its metrics over them, as `profile_of_detection` does.

    Raises InputError for a trace of no known GPU.
    """
    name = trace.gpu if gpu is None else gpu
    if name is None:
        raise InputError("the trace does not say which GPU it was recorded on; name it with --gpu (gpu= over HTTP)")
    if trace.source == "host" and gpu is None:
        raise InputError(f"the trace is of a CPU ({name}), and predictions start from a GPU's telemetry; record on a GPU")
    device = gpu_of(name, trace.static, catalog)
    found = detect(trace.time, trace.metrics())
    return profile_of_detection(device.name, trace.time, trace.metrics(), found, simulated=trace.simulated), found


def _contradiction(trace: Trace, gpu: str, catalog: Catalog) -> tuple[str, ...]:
    """A sentence where the trace names another known GPU than the one that the user says."""
    if trace.gpu is None:
        return ()
    try:
        told = gpu_of(trace.gpu, trace.static, catalog).name
    except ValueError:  # the regressor's InputError: --gpu is there to say what such a name means
        return ()
    return () if told == gpu else (f"the trace says that it was recorded on {told}; by --gpu it counts as {gpu}",)


def _notes(found: Detection) -> tuple[str, ...]:
    notes = [] if found.reason is None else [REASONS[found.reason]]
    if found.verdict == "epochs" and found.confidence < LEAST_CONFIDENCE:
        notes.append(
            f"there may be epochs of {found.period_s:.3g} s, but with confidence {found.confidence:.2f} they are too unsure to "
            "give seconds: record for longer, or with more metrics"
        )
    if len(found.jobs) > 1:
        notes.append(
            f"a second job shares the GPU (period {found.jobs[1].period_s:.3g} s): the answer is for the first one, "
            "and the metrics are those of both"
        )
    return tuple(notes)
