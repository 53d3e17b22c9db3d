"""Training data of the regressor: its own formats, and a folder of our own traces."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from ..regressor import Catalog, Profile, load_corpus
from ..regressor.summary import summarise
from .errors import InputError
from .labels import read_labels
from .profiles import profile_of
from .trace import Trace, read_trace

_SUFFIXES = (".parquet", ".csv.gz", ".csv")


def load_training_data(path: Path, catalog: Catalog) -> list[Profile]:
    """Read profiles from a folder of traces (see `trace_profiles`), or from what the regressor reads itself.

    Raises InputError if nothing is there, or naming the file that is not what it must be.
    """
    return trace_profiles(path, catalog) if path.is_dir() and _traces(path) else load_corpus(path)


def trace_profiles(folder: Path, catalog: Catalog) -> list[Profile]:
    """A profile of every trace (Parquet, CSV) of a folder, in the order of their names.

    ``NAME.json`` beside a trace says its ``workload`` (text), its ``group`` (text, else the label ``cls``) and, where they are
    known, the true epochs (`read_labels`: ``epoch_starts``, ``epoch_ends``, ``training``); otherwise the detector finds them.
    Raises InputError, naming the file, for a trace without such a file, workload or epochs, for one of no known GPU, and for a
    ``NAME.json`` without a trace (a profile does not belong here).
    """
    traces = _traces(folder)
    if alone := sorted({path.name for path in folder.glob("*.json")} - {f"{_stem(path)}.json" for path in traces}):
        raise InputError(f"{str(folder / alone[0])!r} has no trace beside it; keep profiles and other JSON in another folder")
    profiles = []
    for path in traces:
        try:
            profiles.append(_profile(path, catalog))
        except ValueError as error:  # the InputError of any room
            sentence = str(error)
            raise InputError(sentence if str(path) in sentence else f"{str(path)!r}: {sentence}") from error
    return profiles


def _traces(folder: Path) -> list[Path]:
    files = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return sorted(path for path in files if path.name.endswith(_SUFFIXES))


def _profile(path: Path, catalog: Catalog) -> Profile:
    trace = read_trace(path)
    beside = path.with_name(f"{_stem(path)}.json")
    told = _told(beside)
    workload, group = (told.get(key) for key in ("workload", "group"))
    if not isinstance(workload, str) or not workload:
        raise InputError(
            f'{str(beside)!r} has workload {workload!r}; say what was trained, e.g. {{"workload": "resnet50|64|224"}}'
        )
    group = told.get("cls") if group is None else group
    if group is not None and not isinstance(group, str):
        raise InputError(f"{str(beside)!r} has group {group!r}; give the name of the family, or leave it out")
    profile = _labelled(trace, beside, catalog) if "epoch_starts" in told else profile_of(trace, catalog)[0]
    if profile.unit != "epoch":
        found = f"only steps of {profile.epoch_s:.3g} s were" if profile.epoch_s is not None else "no epochs were"
        raise InputError(f"{found} found in it; give its epoch_starts and epoch_ends in {beside.name}, or remove it")
    return replace(profile, workload=workload, group=group)


def _labelled(trace: Trace, path: Path, catalog: Catalog) -> Profile:
    """The profile over the true epochs; it is measured, so its epoch has the interval of their scatter alone."""
    labels = read_labels(path)
    if not labels.training:
        raise InputError(f"{path.name} says that it is no training; remove it")
    if trace.gpu is None:
        raise InputError("the trace does not say which GPU it was recorded on; write its name into the metadata ('gpu')")
    spans = list(zip(labels.epoch_starts, labels.epoch_ends, strict=True))
    return summarise(catalog.resolve(trace.gpu).name, trace.time, trace.metrics(), spans, simulated=trace.simulated)


def _told(path: Path) -> dict[str, object]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f'there is no {path.name} beside it; say there what was trained, e.g. {{"workload": "resnet50"}}'
        ) from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, or too long an integer
        raise InputError(f"{str(path)!r} is not a readable label file: {error}") from error
    if not isinstance(told, dict):
        raise InputError(f"{str(path)!r} is a JSON {type(told).__name__}, not an object with a workload")
    return told


def _stem(path: Path) -> str:
    return next(path.name.removesuffix(suffix) for suffix in _SUFFIXES if path.name.endswith(suffix))
