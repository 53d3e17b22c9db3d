"""What the command refuses, in one sentence and with exit code 2, and what it says where nothing could be analysed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from epochcast.analyzer.cli import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{}/nowhere"], "is not a folder"),
        (["{}"], "there is no trace in"),
        (["{}", "--processes", "1", "--scheduler", "tcp://127.0.0.1:1"], "exclude each other"),
        (["{}", "--from", "yesterday"], "'yesterday' is not a time"),
        (["{}", "--from", "nan"], "'nan' is not a time"),
        (["{}", "--from", "2026-11-02", "--to", "2026-11-01"], "is not before"),
        (["http://localhost:9", "--from", "2026-11-01", "--to", "2999-01-01"], "is in the future"),
        (["{}", "--nodes", "{}/nodes.csv"], "no such"),
        (["{}", "--cloud", "nimbus"], "nimbus"),
        (["{}", "--config", "{}/fleet.toml"], "is for a Prometheus"),
        (["foo://x"], "Protocol not known"),
        (["{}", "--out", "{}"], "holds the traces"),
    ],
)
def test_bad_usage_is_one_sentence(tmp_path: Path, refusal: Callable[..., str], arguments: list[str], said: str) -> None:
    (tmp_path / "in").mkdir()
    given = [argument.format(tmp_path / "in") for argument in arguments]
    assert said in refusal("fleet", "analyze", "--out", tmp_path / "out", *given)


def test_no_scheduler_is_one_sentence(tmp_path: Path, refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    from epochcast.analyzer.fleet import dask_cluster

    monkeypatch.setattr(dask_cluster, "_CONNECT_S", 0.5)
    given = ["fleet", "analyze", tmp_path, "--out", tmp_path / "out", "--scheduler"]
    assert "no Dask scheduler answers" in refusal(*given, "tcp://127.0.0.1:1")
    # A client of an address that is none waits half a minute as it is thrown away, and ends with a traceback.
    monkeypatch.setattr("distributed.Client", lambda *given, **options: pytest.fail("a client was made"))
    assert "no Dask scheduler answers" in refusal(*given, "nonsense")


def test_a_wrong_path_leaves_no_folder_behind(tmp_path: Path) -> None:
    assert main(["fleet", "analyze", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


def test_nothing_that_could_be_analysed_is_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("no,trace\n1,2\n")
    assert main(["fleet", "analyze", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--processes", "1"]) == 1
    assert "1 of 1 trace could not be analysed" in capsys.readouterr().out
