"""Training data of the regressor: its own formats and folders of our own traces; and what of them counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.sources import profile_of
from epochcast.analyzer.traces.labels import read_label_file, read_labels
from epochcast.analyzer.traces.trace import Trace, read_trace
from epochcast.regressor import Catalog, Profile
from epochcast.regressor.precision import precision_of
from epochcast.regressor.profile_json import profile_json, read_profile, read_profiles
from epochcast.regressor.summary import summarise

_SUFFIXES = (".parquet", ".csv.gz", ".csv")


def load_training_data(paths: Sequence[Path], catalog: Catalog) -> tuple[list[Profile], list[str]]:
    """Read the profiles of all ``paths`` and say what was left out.

    A path is a folder of traces (see `trace_profiles`), or of profiles, or a file of them. Traces of a CPU, or of a GPU that
    the catalogue lacks, are left out, with a sentence for each device. Raises InputError if nothing is there or left, or naming
    the file that is not what it must be.
    """
    profiles: list[Profile] = []
    recorded: list[Profile] = []
    for path in paths:
        if path.is_dir() and _traces(path):
            recorded += trace_profiles(path, catalog)
        else:
            profiles += read_profiles(path)
    reasons: dict[str, str] = {}
    for profile in recorded:
        try:
            catalog.resolve(profile.gpu)
        except ValueError as error:  # the regressor's InputError: unknown or ambiguous
            reasons[profile.gpu] = str(error)
    counts = Counter(profile.gpu for profile in recorded)
    left_out = [
        f"{counts[device]} {'run' if counts[device] == 1 else 'runs'} on {device} left out: {reason}"
        for device, reason in reasons.items()
    ]
    usable = profiles + [profile for profile in recorded if profile.gpu not in reasons]
    if not usable:
        reason = f": {'; '.join(left_out)}" if left_out else ""
        named = ", ".join(repr(str(path)) for path in paths) or "what was given"
        raise InputError(f"{named} has no usable run{reason}")
    return usable, left_out


def trace_profiles(folder: Path, catalog: Catalog) -> list[Profile]:
    """A profile of every trace (Parquet, CSV) of a folder, in the order of their names.

    ``NAME.json`` next to a trace says its ``workload`` (text), its ``group`` (text, else the label ``cls``) and, where they are
    known, the true epochs (`read_labels`: ``epoch_starts``, ``epoch_ends``, ``training``); otherwise the detector finds them.
    Raises InputError, naming the file, for a trace without such a file, workload or epochs, and for a ``NAME.json`` without a
    trace (a profile does not belong here).
    """
    traces = _traces(folder)
    if alone := sorted({path.name for path in folder.glob("*.json")} - {f"{_stem(path)}.json" for path in traces}):
        raise InputError(f"{str(folder / alone[0])!r} has no trace next to it; keep profiles and other JSON in another folder")
    profiles = []
    for path in traces:
        beside = path.with_name(f"{_stem(path)}.json")
        try:
            profiles.append(labelled_profile(read_trace(path), beside, catalog))
        except ValueError as error:  # the InputError of any room
            sentence = str(error)
            raise InputError(sentence if str(path) in sentence else f"{str(path)!r}: {sentence}") from error
    return profiles


def labelled_profile(trace: Trace, labels: Path, catalog: Catalog) -> Profile:
    """The profile over the true epochs that the file next to the trace holds, else over those that are detected.

    Over true epochs a device that the catalogue lacks keeps its own name, and a CPU's profile has no statistics. Raises
    InputError for labels of no training or without a workload, for a trace that does not name its device, and without epochs.
    """
    label = read_label_file(labels)
    if not label.get("workload"):
        raise InputError(f'{str(labels)!r} does not give the workload, e.g. {{"workload": "resnet50|64|224"}}')
    if "epoch_starts" not in label:
        profile = profile_of(trace, catalog)[0]
        if profile.unit != "epoch":
            cause = f"only {profile.unit}s of {profile.epoch_s:.3g} s were" if profile.epoch_s is not None else "no epochs were"
            raise InputError(f"{cause} found in it; give its epoch_starts and epoch_ends in {labels.name}, or remove it")
    else:
        marks = read_labels(labels)
        if not marks.training:
            raise InputError(f"{labels.name} marks it as no training run; remove it")
        if trace.gpu is None:
            raise InputError("the trace does not name its GPU; write the GPU's name into the metadata ('gpu')")
        try:
            gpu = catalog.resolve(trace.gpu).name
        except ValueError:  # the regressor's InputError: unknown or ambiguous
            gpu = trace.gpu
        spans = list(zip(marks.epoch_starts, marks.epoch_ends, strict=True))
        metrics = {} if trace.source == "host" else trace.metrics()
        profile = summarise(gpu, trace.time, metrics, spans, simulated=trace.simulated)
    of_job = replace(
        profile,
        workload=label["workload"],
        group=label.get("group", label.get("cls")),
        precision=precision_of(str(label.get("precision"))),
        batch=label.get("batch_size"),
    )
    return read_profile(profile_json(of_job))


def _traces(folder: Path) -> list[Path]:
    files = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return sorted(path for path in files if path.name.endswith(_SUFFIXES))


def _stem(path: Path) -> str:
    return next(path.name.removesuffix(suffix) for suffix in _SUFFIXES if path.name.endswith(suffix))
