"""Real trainings on this CPU: a whole campaign by the command line, its failures, its end by a signal, and blocks."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.corpus import read_runs
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.labels import read_labels
from epochcast.analyzer.traces.trace import read_trace
from lab.campaign import preflight as preflight_module
from lab.campaign import trainer
from lab.campaign.plan import read_plan
from lab.campaign.preflight import preflight
from lab.campaign.recording import reason_of
from lab.campaign.runner import run_campaign

pytest.importorskip("torch", reason="the extra 'torch' is not installed")

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
GRID = "batch_size = 8\nimage_size = 16\nsamples = 12000\nepochs = 3\n"


@pytest.fixture
def preflight_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that builds a plan's networks runs in this one, which loads PyTorch but once for all tests."""

    def run(command: list[str], *, input: str, **_: object) -> subprocess.CompletedProcess[str]:
        assert command == [sys.executable, "-m", "lab.campaign.preflight"]
        with redirect_stdout(StringIO()) as said, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", StringIO(input))
            return subprocess.CompletedProcess(command, preflight_module.main(), said.getvalue(), "")

    monkeypatch.syspath_prepend(ENVIRONMENT["PYTHONPATH"])
    monkeypatch.setattr(preflight_module, "subprocess", SimpleNamespace(run=run, SubprocessError=subprocess.SubprocessError))


@pytest.mark.usefixtures("preflight_here")
def test_a_campaign_records_what_it_can_and_goes_on_after_what_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
    plan, corpus = tmp_path / "plan.toml", tmp_path / "corpus"
    sizes = GRID.replace("16", "[4, 16]", 1)
    networks = (("killed", GRID), ("picky", sizes))
    plan.write_text("".join(f'[[workload]]\nnetwork = "own_networks:{name}"\n{grid}' for name, grid in networks))
    arguments = [str(plan), "--out", str(corpus), "--time-budget", "1000", "--device", "cpu", "--json"]
    assert main(["campaign", "run", *arguments]) == 1
    said = capfd.readouterr()
    assert said.err == ""
    answer = json.loads(said.out)
    dead, small, good = answer["runs"]
    assert (good["status"], good["epochs"]) == ("done", 3), good
    assert (dead["status"], dead["reason"]) == ("failed", "ended by SIGKILL (out of memory, unless someone sent the signal)")
    assert small["status"] == "failed" and "4 pixels are too few" in small["reason"]
    assert sorted(path.name for path in (corpus / "failures").iterdir()) == sorted(
        f"{run['run']}.log" for run in answer["runs"] if run["status"] == "failed"
    )

    trace, beside = corpus / "traces" / f"{good['run']}.parquet", corpus / "traces" / f"{good['run']}.json"
    recorded, labels = read_trace(trace), read_labels(beside)
    assert recorded.source == "host"
    assert recorded.time[0] < labels.epoch_starts[0] and labels.epoch_ends[-1] < recorded.time[-1] + 0.5
    assert len(labels.epoch_starts) == 3
    told = json.loads(beside.read_text())
    assert told["workload"] == "own_networks:picky|8|16|12000"
    assert told["parameters"] == 3 * 16 * 16 * 10 + 10
    assert good["run"] in {run.run for run in read_runs(corpus)}
    assert not (corpus / ".running").exists()


@pytest.mark.usefixtures("preflight_here")
def test_a_network_that_nobody_knows_is_refused_before_anything_runs(tmp_path: Path) -> None:
    path, corpus = tmp_path / "plan.toml", tmp_path / "corpus"
    path.write_text(f'[[workload]]\nnetwork = ["LeNet5", "LeNet6"]\n{GRID}'.replace("size = 16", "size = 32"))
    with pytest.raises(InputError, match=r"unknown network 'LeNet6'; did you mean LeNet5\?"):
        run_campaign(read_plan(str(path)), corpus, device="cpu")
    assert not corpus.exists()


@pytest.mark.usefixtures("preflight_here")
def test_a_network_that_computes_while_it_is_built_can_be_built() -> None:
    assert preflight(
        [("own_networks:scheduled", 16), ("own_networks:picky", 16), ("own_networks:picky", 4)]
    ).failures.keys() == {("own_networks:picky", 4)}


def test_sigterm_ends_training_and_campaign_and_leaves_no_half_run(tmp_path: Path, until: Callable[..., None]) -> None:
    plan, corpus, hangs = tmp_path / "plan.toml", tmp_path / "corpus", tmp_path / "hangs"
    plan.write_text(f'[[workload]]\nnetwork = "own_networks:hanging"\n{GRID}')
    arguments = ["campaign", "run", str(plan), "--out", str(corpus), "--device", "cpu", "--json"]
    command = [sys.executable, "-m", "epochcast.analyzer", *arguments]
    environment = ENVIRONMENT | {"HANGS_FILE": str(hangs)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as campaign:
        try:
            until(hangs.exists, 120)
            campaign.send_signal(signal.SIGTERM)
            assert campaign.wait(120) == 128 + signal.SIGTERM
        finally:
            campaign.kill()
    assert not (corpus / "traces").exists()
    assert not (corpus / "failures").exists()
    assert not (corpus / "corpus.parquet").exists()


def _sizes(network: str) -> list[str]:
    return ["--batch-size", "8", "--image-size", "32", "--samples", "64", "--network", network]


def test_a_training_that_hangs_ends_by_itself_and_says_so() -> None:
    arguments = [*_sizes("own_networks:hanging"), "--epochs", "2", "--timeout", "1"]
    command = [sys.executable, "-m", "lab.campaign.trainer", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    # While modules are still loaded (a cold disk) the dump itself may crash; the reason is read from what it says first.
    assert done.returncode != 0
    assert reason_of(1, done.stderr.splitlines(), 1.0) == "it hung: not finished after 1 s"


def test_blocks_are_trained_when_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda *_, **__: None)  # it would end this process in an hour
    monkeypatch.setattr(sys, "stdin", StringIO("\n\n"))
    assert trainer.main([*_sizes("LeNet5"), "--epochs", "3", "--blocks", "--precision", "amp"]) == 0
    blocks = [json.loads(line)["epoch_s"] for line in capsys.readouterr().out.splitlines()]
    assert [len(block) for block in blocks] == [3, 3]
    assert all(seconds > 0 for block in blocks for seconds in block)
