"""The commands of docs/how-to/grow-your-own-corpus.md, one after the other, on a plan of seconds and a driver made of C.

A network trains on the CPU while the agent reads a stub of NVML that shows a T4, or an A100: the chain is real, its telemetry
is not, so nothing is asserted about accuracy.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.corpus import append_run, read_runs
from epochcast.regressor import LatencyPredictor
from lab.campaign.plan import read_plan

# A user's own network. It waits more than it computes, so that an epoch (4 batches to train on, 1 to validate) lasts alike
# on any machine: the epochs after the first together long enough for a reading of the utilisation, which comes once a second.
NETWORK = """
import time
from torch import nn

class Slow(nn.Sequential):
    def forward(self, images):
        time.sleep(0.12)
        return super().forward(images)

def slow(image_size, classes):
    return Slow(nn.Flatten(), nn.Linear(3 * image_size**2, classes))
"""
PLAN = """
[[workload]]
network = "own:slow"
batch_size = 16
image_size = 16
samples = 64
epochs = 4
"""
# Busy for 1.05 of every 1.5 s, which is what is detected; the user's training program only has to last for some of them.
SCENARIO = "gpus 1\ngpu 0 {model}\nepoch 0 1.5 0.7\n"
TRAIN = "import time\ntime.sleep(15)\n"


# A regressor is trained on five workloads or more.
MORE_BATCH_SIZES = (4, 6, 8, 12)


class Machine:
    """A folder in which the documented commands run, with a GPU that the driver only pretends to have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, command: str, gpu: str) -> subprocess.Popen[str]:
        """Start a command of the page as it stands, but that PyTorch trains on the CPU."""
        (self.folder / f"{gpu}.scenario").write_text(SCENARIO.format(model=gpu))
        words = command.replace("campaign run", "campaign run --device cpu --source nvml").split()
        environment = {
            "NVML_STUB_SCENARIO": str(self.folder / f"{gpu}.scenario"),
            "LD_LIBRARY_PATH": str(self.folder),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }
        assert words[0] == "epochcast"
        return subprocess.Popen(
            [sys.executable, "-m", "epochcast.analyzer", *words[1:]],
            cwd=self.folder,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @staticmethod
    def end(process: subprocess.Popen[str]) -> str:
        """What it said, once it ended well."""
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
        return said

    def add_runs(self, corpus: str) -> None:
        """Enter the one run of a corpus again under other workloads, as if the campaign had gone on for them."""
        (beside,) = (self.folder / corpus / "traces").glob("*.json")
        trained = json.loads(beside.read_text())
        for batch_size in MORE_BATCH_SIZES:
            told = {"batch_size": batch_size, "workload": trained["workload"].replace("|16|16|", f"|{batch_size}|16|")}
            labels = beside.with_stem(beside.stem.replace("_16_16_", f"_{batch_size}_16_"))
            trace = labels.with_suffix(".parquet")
            assert not trace.exists()
            shutil.copy(beside.with_suffix(".parquet"), trace)
            labels.write_text(json.dumps(trained | told))
            append_run(self.folder / corpus, trace, labels)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, nvml_library: Path) -> Machine:
    if find_spec("torch") is None:
        pytest.skip("no torch: a campaign trains its networks with it (extra: torch)")
    folder = tmp_path_factory.mktemp("machine")
    shutil.copy(nvml_library, folder)
    (folder / "own.py").write_text(NETWORK)
    (folder / "plan.toml").write_text(PLAN)
    (folder / "train.py").write_text(TRAIN)
    return Machine(folder)


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "how-to" / "grow-your-own-corpus.md").read_text()


@pytest.mark.usefixtures("few_trees")
def test_the_page_from_its_plan_to_its_recommendation(
    machine: Machine, page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = [
        line for block in re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE) for line in block.splitlines()
    ]
    # What trains comes first, and on machines of its own: here all at once.
    training = [command for command in commands if command.startswith(("epochcast campaign run", "epochcast record"))]
    assert len(training) == 3 and commands[:2] == training[:2]
    gpus = {command: "a100" if "a100" in command else "t4" for command in training}
    for process in [machine.start(command, gpu) for command, gpu in gpus.items()]:
        machine.end(process)
    for corpus in ("corpus-t4", "corpus-a100"):
        machine.add_runs(corpus)

    monkeypatch.chdir(machine.folder)
    said = {}
    for command in commands:
        if command not in training:
            assert main(command.split()[1:]) == 0, capsys.readouterr().err
            said[command.split(" --")[0]] = capsys.readouterr().out

    assert "5 of 5 workloads ran on two or more GPUs: 10 pairs" in said["epochcast corpus report corpus-t4 corpus-a100"]
    runs = read_runs(machine.folder / "corpus")
    assert [sum(run.profile.gpu == gpu for run in runs) for gpu in ("T4", "A100 SXM4 40GB")] == [5, 5]
    assert {run.profile.feature_set for run in runs if run.profile.gpu == "T4"} == {"nvml"}
    assert {run.profile.workload for run in runs} == {f"own:slow|{batch}|16|64" for batch in (4, 6, 8, 12, 16)}
    for run in runs:
        labels = json.loads((machine.folder / "corpus" / (run.trace or "")).with_suffix(".json").read_text())
        epochs = sorted(end - start for start, end in zip(labels["epoch_starts"], labels["epoch_ends"], strict=True))
        assert epochs[0] <= (run.profile.epoch_s or 0) <= epochs[-1]

    model = LatencyPredictor.load(machine.folder / "my-model")
    assert (model.training["gpus"], model.training["workloads"], model.training["profiles"]) == (
        ["A100 SXM4 40GB", "T4"],
        5,
        10,
    )
    calibrated = LatencyPredictor.load(machine.folder / "my-calibrated-model")
    assert [(one.gpu, one.workloads) for one in calibrated.calibrations] == [("A100 SXM4 40GB", 5)]
    assert "fitted on 10 profiles of A100 SXM4 40GB, T4" in said["epochcast fit regressor"]
    assert "P2: 10 pairs among 10 profiles" in said["epochcast evaluate regressor"]
    assert "own_slow_16_16_64_Tesla-T4" in said["epochcast evaluate detector"]
    assert (
        said["epochcast predict job.parquet"].startswith("from T4: ")
        and "A100 SXM4 40GB" in said["epochcast predict job.parquet"]
    )
    assert "of a job seen on T4, best cost first" in said["epochcast recommend job.parquet"]
    assert "g4dn.xlarge" in said["epochcast recommend job.parquet"]


def test_the_plan_of_the_page_is_one(page: str, tmp_path: Path) -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "plan.toml").write_text(block)
    assert len(read_plan(str(tmp_path / "plan.toml")).runs()) == 12
