"""Training data of the regressor: its own formats, corpora of campaigns, folders of our own traces; and what of them counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from epochcast.analyzer.corpus.run import Run, profile_beside, read_workload
from epochcast.analyzer.corpus.table import read_runs
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.trace import read_trace
from epochcast.regressor import Catalog, Profile, load_corpus
from epochcast.regressor.corpora.run_table import table_file

_SUFFIXES = (".parquet", ".csv.gz", ".csv")


def load_training_data(paths: Sequence[Path], catalog: Catalog) -> tuple[list[Profile], list[str]]:
    """Read the profiles of all ``paths`` and say what was left out.

    A path is a corpus of ours (its folder or its ``corpus.parquet``), a folder of traces (see `trace_profiles`), or what the
    regressor reads itself. A recording that several corpora hold counts once. Runs of a corpus on a CPU, or on a GPU that the
    catalogue lacks, are left out, with a sentence for each device. Raises InputError if nothing is there or left, or naming the
    file that is not what it must be.
    """
    runs: list[Run] = []
    profiles: list[Profile] = []
    for path in paths:
        if _is_corpus(path):
            runs += read_runs(path)
        else:
            profiles += trace_profiles(path, catalog) if path.is_dir() and _traces(path) else load_corpus(path)
    usable, left_out = on_known_gpus(union(runs), catalog)
    profiles += [run.profile for run in usable]
    if not profiles:
        reason = f": {'; '.join(left_out)}" if left_out else ""
        raise InputError(f"{', '.join(repr(str(path)) for path in paths)} has no usable run{reason}")
    return profiles, left_out


def _is_corpus(path: Path) -> bool:
    return table_file(path).suffix == ".parquet" and table_file(path).is_file()


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


_NAMED = 3


def union(runs: Iterable[Run]) -> list[Run]:
    """Every recording once, by its identity, in the order of time, not in the order given.

    One that is there with and without its trace is kept with it. Raises InputError, naming them, for recordings of which two
    different rows are there.
    """
    kept: dict[tuple[str, str, str, float], Run] = {}
    conflicts = set()
    for run in runs:
        other = kept.setdefault(run.identity, run)
        if replace(other, trace=run.trace) != run:
            conflicts.add(run.identity)
        elif other.trace is None or (run.trace is not None and run.trace < other.trace):
            kept[run.identity] = run
    if conflicts:
        named = ", ".join(f"{run!r} ({workload}) on {gpu}" for gpu, workload, run, _ in sorted(conflicts)[:_NAMED])
        more = f" and {len(conflicts) - _NAMED} more" if len(conflicts) > _NAMED else ""
        raise InputError(
            f"the corpora hold different results for the same recording: {named}{more}; leave out the wrong corpus, or delete "
            "the row from its table"
        )
    return sorted(kept.values(), key=lambda run: (run.recorded_at, run.identity))


def on_known_gpus(runs: Sequence[Run], catalog: Catalog) -> tuple[list[Run], list[str]]:
    """The runs on GPUs of the catalogue, and for each other device a sentence: how many runs it has, why they do not count."""
    reasons: dict[str, str] = {}
    for run in runs:
        if run.device == "cpu":
            reasons[run.profile.gpu] = "a CPU run has no GPU telemetry"
            continue
        try:
            catalog.resolve(run.profile.gpu)
        except ValueError as error:  # the regressor's InputError: unknown or ambiguous
            reasons[run.profile.gpu] = str(error)
    counts = Counter(run.profile.gpu for run in runs)
    return [run for run in runs if run.profile.gpu not in reasons], [
        f"{counts[device]} {'run' if counts[device] == 1 else 'runs'} on {device} left out: {reason}"
        for device, reason in reasons.items()
    ]
