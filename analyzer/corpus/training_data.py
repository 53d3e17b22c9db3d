"""Training data of the regressor: its own formats, corpora of campaigns, folders of our own traces; and what of them counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from epochcast.analyzer.corpus.labelled_profile import profile_beside, read_workload
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.trace import read_trace
from epochcast.regressor import Catalog, Profile, load_corpus
from epochcast.regressor.corpora.run_table import is_corpus
from epochcast.regressor.profile_json import profile_json

_SUFFIXES = (".parquet", ".csv.gz", ".csv")


def load_training_data(paths: Sequence[Path], catalog: Catalog) -> tuple[list[Profile], list[str]]:
    """Read the profiles of all ``paths`` and say what was left out.

    A path is a corpus of ours (its folder or its ``corpus.parquet``), a folder of traces (see `trace_profiles`), or what the
    regressor reads itself. A recording that several corpora hold counts once, in an order that is not that of the paths. Runs
    of a corpus on a CPU or on a GPU that the catalogue lacks are left out, with a sentence for
    each device. Raises InputError if nothing is there or left, or naming the file that is not what it must be.
    """
    recorded: dict[str, Profile] = {}
    profiles: list[Profile] = []
    for path in paths:
        if is_corpus(path):
            recorded |= {json.dumps(profile_json(profile), sort_keys=True): profile for profile in load_corpus(path)}
        else:
            profiles += trace_profiles(path, catalog) if path.is_dir() and _traces(path) else load_corpus(path)
    usable, left_out = on_known_gpus([recorded[key] for key in sorted(recorded)], catalog)
    profiles += usable
    if not profiles:
        reason = f": {'; '.join(left_out)}" if left_out else ""
        named = ", ".join(repr(str(path)) for path in paths) or "what was given"
        raise InputError(f"{named} has no usable run{reason}")
    return profiles, left_out


def trace_profiles(folder: Path, catalog: Catalog) -> list[Profile]:
    """A profile of every trace (Parquet, CSV) of a folder, in the order of their names.

    ``NAME.json`` next to a trace says its ``workload`` (text), its ``group`` (text, else the label ``cls``) and, where they are
    known, the true epochs (`read_labels`: ``epoch_starts``, ``epoch_ends``, ``training``); otherwise the detector finds them.
    Raises InputError, naming the file, for a trace without such a file, workload or epochs, for one of no known GPU, and for a
    ``NAME.json`` without a trace (a profile does not belong here).
    """
    traces = _traces(folder)
    if alone := sorted({path.name for path in folder.glob("*.json")} - {f"{_stem(path)}.json" for path in traces}):
        raise InputError(f"{str(folder / alone[0])!r} has no trace next to it; keep profiles and other JSON in another folder")
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
    profile = profile_beside(trace, beside, read_workload(beside), catalog)
    catalog.resolve(profile.gpu)
    return profile


def _stem(path: Path) -> str:
    return next(path.name.removesuffix(suffix) for suffix in _SUFFIXES if path.name.endswith(suffix))


def on_known_gpus(profiles: Sequence[Profile], catalog: Catalog) -> tuple[list[Profile], list[str]]:
    """Those on GPUs of the catalogue, and for each other device a sentence: how many runs it has, why they do not count."""
    reasons: dict[str, str] = {}
    for profile in profiles:
        try:
            catalog.resolve(profile.gpu)
        except ValueError as error:  # the regressor's InputError: unknown or ambiguous
            reasons[profile.gpu] = str(error) if profile.metrics else "a CPU run has no GPU telemetry"
    counts = Counter(profile.gpu for profile in profiles)
    return [profile for profile in profiles if profile.gpu not in reasons], [
        f"{counts[device]} {'run' if counts[device] == 1 else 'runs'} on {device} left out: {reason}"
        for device, reason in reasons.items()
    ]
