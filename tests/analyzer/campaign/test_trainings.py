"""Real trainings on this CPU: a whole campaign by the command line, its failures, its end by a signal, and blocks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.campaign.plan import read_plan
from epochcast.analyzer.campaign.preflight import preflight
from epochcast.analyzer.campaign.runner import run_campaign
from epochcast.analyzer.campaign.trainer_process import reason_of
from epochcast.analyzer.corpus import read_runs
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.labels import read_labels
from epochcast.analyzer.trace import read_trace

pytest.importorskip("torch", reason="the extra 'torch' is not installed")

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
GRID = "batch_size = 8\nimage_size = 16\nsamples = 2000\nepochs = 3\n"


def _campaign(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "epochcast.analyzer", "campaign", "run", *arguments, "--device", "cpu", "--json"]


def _run(*arguments: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(_campaign(*arguments), capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def test_a_campaign_records_what_it_can_and_goes_on_after_what_it_cannot(tmp_path: Path) -> None:
    plan, corpus = tmp_path / "plan.toml", tmp_path / "corpus"
    sizes = GRID.replace("16", "[4, 16]", 1)
    networks = (("killed", GRID), ("picky", sizes))
    plan.write_text("".join(f'[[workload]]\nnetwork = "own_networks:{name}"\n{grid}' for name, grid in networks))
    status, answer, stderr = _run(str(plan), "--out", str(corpus), "--time-budget", "1000")
    assert stderr == ""
    assert status == 1
    dead, small, good = answer["runs"]
    assert (good["status"], good["epochs"]) == ("done", 3)
    assert (dead["status"], dead["reason"]) == ("failed", "ended by SIGKILL (out of memory, unless somebody sent it)")
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
    assert told["workload"] == "own_networks:picky|8|16|2000"
    assert told["parameters"] == 3 * 16 * 16 * 10 + 10
    assert good["run"] in {run.run for run in read_runs(corpus)}
    assert not (corpus / ".running").exists()


def test_a_network_that_nobody_knows_is_refused_before_anything_runs(tmp_path: Path) -> None:
    path, corpus = tmp_path / "plan.toml", tmp_path / "corpus"
    path.write_text(f'[[workload]]\nnetwork = ["LeNet5", "LeNet6"]\n{GRID}'.replace("size = 16", "size = 32"))
    with pytest.raises(InputError, match=r"unknown network 'LeNet6'; did you mean LeNet5\?"):
        run_campaign(read_plan(str(path)), corpus, device="cpu")
    assert not corpus.exists()


def test_a_network_that_computes_while_it_is_built_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
    assert preflight(
        [("own_networks:scheduled", 16), ("own_networks:picky", 16), ("own_networks:picky", 4)]
    ).failures.keys() == {("own_networks:picky", 4)}


def test_sigterm_ends_training_and_campaign_and_leaves_no_half_run(tmp_path: Path) -> None:
    plan, corpus = tmp_path / "plan.toml", tmp_path / "corpus"
    plan.write_text(f'[[workload]]\nnetwork = "own_networks:hanging"\n{GRID}')
    with subprocess.Popen(
        _campaign(str(plan), "--out", str(corpus)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as campaign:
        deadline = time.monotonic() + 60
        while not (corpus / ".running").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1.0)
        campaign.send_signal(signal.SIGTERM)
        assert campaign.wait(30) == 128 + signal.SIGTERM
    assert not (corpus / "traces").exists()
    assert not (corpus / "failures").exists()
    assert not (corpus / "corpus.parquet").exists()


def _trainer(network: str, *arguments: str) -> list[str]:
    sizes = ("--batch-size", "8", "--image-size", "16", "--samples", "64", "--network", f"own_networks:{network}")
    return [sys.executable, "-m", "epochcast.analyzer.campaign.trainer", *sizes, *arguments]


def test_a_training_that_hangs_ends_by_itself_and_says_so() -> None:
    command = _trainer("hanging", "--epochs", "2", "--timeout", "1")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    # While modules are still loaded (a cold disk) the dump itself may crash; the reason is read from what it says first.
    assert done.returncode != 0
    assert reason_of(1, done.stderr.splitlines(), 1.0) == "it hung: not finished after 1 s"


def test_blocks_are_trained_when_they_are_asked_for() -> None:
    command = _trainer("good", "--epochs", "3", "--blocks", "--precision", "amp")
    done = subprocess.run(command, input="\n\n", capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    blocks = [json.loads(line)["epoch_s"] for line in done.stdout.splitlines()]
    assert [len(block) for block in blocks] == [3, 3]
    assert all(seconds > 0 for block in blocks for seconds in block)
