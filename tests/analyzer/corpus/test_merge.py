"""Several corpora as one: a set union of recordings, with their files."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from epochcast.analyzer.corpus.merge import merge
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.analyzer.cli import main
from epochcast.analyzer.corpus import Run, append_run, read_runs, table
from epochcast.analyzer.corpus.table import write_runs
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.labels import labelled_traces
from epochcast.regressor import Profile

RecordRun = Callable[..., tuple[Path, Path]]

NO_METRICS = Profile("T4", 1.0, "epoch", 3, {}, "none", True, workload="w", group="g")
IDENTITIES = st.tuples(st.sampled_from(["T4", "A10G"]), st.sampled_from("vw"), st.sampled_from("ab"), st.integers(0, 1))
CORPORA = st.lists(st.dictionaries(IDENTITIES, st.booleans(), max_size=6), min_size=2, max_size=3)


def _fill(corpus: Path, recordings: dict[tuple[str, str, str, int], bool]) -> Path:
    """A corpus of made-up recordings; the flag says whether the trace came along."""
    (corpus / "traces").mkdir(parents=True)
    runs = []
    for number, ((gpu, workload, name, when), has_trace) in enumerate(recordings.items()):
        profile = replace(NO_METRICS, gpu=gpu, workload=workload)
        trace = f"traces/{number}.parquet"
        if has_trace:
            (corpus / trace).write_text(f"trace of {gpu} {workload} {name} {when}")
            (corpus / trace).with_suffix(".json").write_text(f"labels of {gpu} {workload} {name} {when}")
        runs.append(Run(name, "gpu", float(when), profile, trace=trace))
    write_runs(corpus, runs)
    return corpus


def _content(corpus: Path) -> dict[str, object]:
    """All that a corpus holds, but for the bytes of its table."""
    files = {path.name: path.read_text() for path in (corpus / "traces").glob("*")}
    return {"runs": read_runs(corpus), "files": files}


@settings(max_examples=8, deadline=None)
@given(CORPORA)
def test_a_merge_is_a_union_whatever_the_order_and_however_often(
    recordings: list[dict[tuple[str, str, str, int], bool]],
) -> None:
    with tempfile.TemporaryDirectory() as name, patch("os.fsync"):  # hundreds of files, none of which must outlive a power cut
        folder = Path(name)
        corpora = [_fill(folder / str(number), one) for number, one in enumerate(recordings)]
        first, last, steps = folder / "first", folder / "last", folder / "steps"
        merged = merge(corpora, first)
        merge(corpora[::-1], last)
        for corpus in corpora:
            merge([corpus], steps)
        whole = _content(first)
        assert _content(last) == _content(steps) == whole
        assert merge(corpora, first) == replace(merged, added=0)
        merge([first, *corpora, first], first)
        assert _content(first) == whole
        wanted = {identity for one in recordings for identity in one}
        with_trace = {identity for one in recordings for identity, has_trace in one.items() if has_trace}
        runs = read_runs(first)
        assert len(runs) == len(wanted) == merged.runs == merged.added
        assert {run.identity for run in runs} == wanted
        assert {run.identity for run in runs if run.trace} == with_trace
        for run in runs:
            if run.trace:
                told = f"{run.profile.gpu} {run.profile.workload} {run.run} {int(run.recorded_at)}"
                assert (first / run.trace).read_text() == f"trace of {told}"
                assert (first / run.trace).with_suffix(".json").read_text() == f"labels of {told}"


def test_campaigns_of_one_plan_on_two_gpus_keep_their_traces(tmp_path: Path, record_run: RecordRun) -> None:
    for folder, gpu in (("a", "Tesla T4"), ("b", "NVIDIA A10G")):
        append_run(tmp_path / folder, *record_run(tmp_path / folder, "LeNet5|32|32", gpu))
    assert main(["corpus", "merge", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "c")]) == 0
    traces = {trace.gpu: labels for _, trace, labels in labelled_traces(tmp_path / "c")}
    assert set(traces) == {"Tesla T4", "NVIDIA A10G"} and all(labels.training for labels in traces.values())
    assert {run.run for run in read_runs(tmp_path / "c")} == {"LeNet5-32-32"}
    # A campaign goes on in the merged corpus, and is merged again.
    append_run(tmp_path / "c", *record_run(tmp_path / "c", "LeNet5|64|32", start=1_900_000_000.0))
    before = read_runs(tmp_path / "c")
    for run in before:  # as a campaign does that finds labels whose run it does not know
        trace = tmp_path / "c" / (run.trace or "")
        append_run(tmp_path / "c", trace, trace.with_suffix(".json"))
    assert read_runs(tmp_path / "c") == before
    assert merge([tmp_path / "b", tmp_path / "a" / "corpus.parquet"], tmp_path / "c").added == 0
    assert read_runs(tmp_path / "c") == before


def test_a_trace_that_was_lost_comes_back(tmp_path: Path) -> None:
    first = _fill(tmp_path / "1", {("T4", "w", "a", 0): True})
    merge([first], tmp_path / "out")
    (run,) = read_runs(tmp_path / "out")
    (tmp_path / "out" / (run.trace or "")).unlink()
    assert merge([tmp_path / "out"], tmp_path / "other").without_trace == 1
    assert merge([first], tmp_path / "out").without_trace == 0
    assert (tmp_path / "out" / (run.trace or "")).is_file()


def test_contradictions_are_named_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recordings = {("T4", "w", name, 0): True for name in "abcd"}
    first, second = _fill(tmp_path / "1", recordings), _fill(tmp_path / "2", recordings)
    write_runs(second, [replace(run, profile=replace(run.profile, epoch_s=2.0)) for run in read_runs(second)])
    assert main(["corpus", "merge", str(first), str(second), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "different results for the same recording: 'a' (w) on T4, 'b' (w) on T4, 'c' (w) on T4 and 1 more" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out" / "corpus.parquet").exists()


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    good = _fill(tmp_path / "good", {("T4", "w", "a", 0): True})
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "letter.txt").write_text("hello")
    file = tmp_path / "file"
    file.write_text("")
    outside = _fill(tmp_path / "outside", {("T4", "w", "a", 0): False})
    write_runs(outside, [replace(run, trace="../else/letter.txt") for run in read_runs(outside)])
    for arguments, says in (
        ([str(good), str(tmp_path / "none"), "--out", str(tmp_path / "out")], "there is no corpus at"),
        ([str(good), "--out", str(tmp_path / "else")], "is a folder but not a corpus; name a corpus"),
        ([str(good), "--out", str(file)], "cannot make the folder"),
        ([str(outside), "--out", str(tmp_path / "out")], "outside the corpus; correct it"),
        (["--out", str(tmp_path / "out")], "Missing argument 'CORPUS...'"),
    ):
        assert main(["corpus", "merge", *arguments]) == 2
        said = capsys.readouterr().err
        assert says in said and said.count("\n") == 1
    with pytest.raises(InputError, match="cannot make the folder"):
        merge([good], file / "below")
    monkeypatch.setattr(table, "_WAIT_S", 0.05)
    (tmp_path / "out").mkdir()
    with table.locked(tmp_path / "out"), pytest.raises(InputError, match=r"cannot write .*another process has been writing"):
        merge([good], tmp_path / "out")
