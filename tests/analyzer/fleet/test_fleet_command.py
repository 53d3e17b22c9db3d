"""What the command refuses, in one sentence and with exit code 2, and what it says where nothing could be analysed."""

from pathlib import Path

import pytest

from epochcast.analyzer.cli import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{}/nowhere"], "is not a folder"),
        (["{}"], "there is no trace in"),
        (["{}", "--processes", "1", "--scheduler", "tcp://127.0.0.1:1"], "exclude each other"),
        (["{}", "--from", "yesterday"], "'yesterday' is no time"),
        (["{}", "--from", "nan"], "'nan' is no time"),
        (["{}", "--from", "2026-11-02", "--to", "2026-11-01"], "is not before"),
        (["http://localhost:9", "--from", "2026-11-01", "--to", "2999-01-01"], "is still to come"),
        (["{}", "--nodes", "{}/nodes.csv"], "no such"),
        (["{}", "--cloud", "nimbus"], "nimbus"),
        (["{}", "--token-file", "{}/token"], "is for a Prometheus"),
        (["foo://x"], "Protocol not known"),
        (["{}", "--out", "{}"], "is where the traces are"),
    ],
)
def test_bad_usage_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    (tmp_path / "in").mkdir()
    given = [argument.format(tmp_path / "in") for argument in arguments]
    assert main(["fleet", "analyze", "--out", str(tmp_path / "out"), *given]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_no_scheduler_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from epochcast.analyzer.fleet import dask_cluster

    monkeypatch.setattr(dask_cluster, "_CONNECT_S", 0.5)
    given = ["fleet", "analyze", str(tmp_path), "--out", str(tmp_path / "out"), "--scheduler"]
    for address, said in (("tcp://127.0.0.1:1", "no Dask scheduler answers"), ("nonsense", "no Dask scheduler answers")):
        assert main([*given, address]) == 2
        told = capsys.readouterr().err
        assert said in told
        assert told.count("\n") == 1


def test_an_address_that_is_none_makes_no_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One made of it waits half a minute as it is thrown away, and ends with a traceback."""
    monkeypatch.setattr("distributed.Client", lambda *given, **options: pytest.fail("a client was made"))
    given = ["fleet", "analyze", str(tmp_path), "--out", str(tmp_path / "out"), "--scheduler", "nonsense"]
    assert main(given) == 2


def test_a_wrong_path_leaves_no_folder_behind(tmp_path: Path) -> None:
    assert main(["fleet", "analyze", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


def test_nothing_that_could_be_analysed_is_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("no,trace\n1,2\n")
    assert main(["fleet", "analyze", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--processes", "1"]) == 1
    assert "1 of 1 trace could not be analysed" in capsys.readouterr().out
