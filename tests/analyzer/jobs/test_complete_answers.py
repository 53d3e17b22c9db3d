"""What a job needs next to a ratio: its number of GPUs, memory, batch, and that it is a job; alike wherever it is asked."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.detected_profile import profile_of_detection
from epochcast.analyzer.jobs.job import Job
from epochcast.analyzer.jobs.predict import GIB
from epochcast.analyzer.jobs.questions import JobQuestion, example_profile
from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.detector import Cycle, Detection, Epoch
from epochcast.regressor import Profile
from epochcast.regressor.profile import RATIOS, STATISTICS
from epochcast.regressor.profile_json import profile_json, read_profile

from .made_reports import where

Capture = pytest.CaptureFixture[str]


def job(gpu: str = "A100 SXM4 40GB", *, used: float = 26 * GIB, busy: float | None = None, **more: Any) -> Profile:
    """The example with another memory, and with each activity at ``busy``."""
    example = read_profile(example_profile())
    metrics = {name: dict(of) for name, of in example.metrics.items()}
    for name, value in (("memory_used", used), ("memory_free", 40 * GIB - used)):
        metrics[name] = dict.fromkeys(STATISTICS, value) | {"std": 0.0}
    if busy is not None:
        metrics |= {name: dict.fromkeys(STATISTICS, busy) | {"std": 0.0} for name in metrics if name in RATIOS}
    return replace(example, gpu=gpu, metrics=metrics, simulated=False, **more)


@pytest.fixture
def file(tmp_path: Path) -> Callable[[Profile], str]:
    def write(profile: Profile) -> str:
        path = tmp_path / "job.json"
        path.write_text(json.dumps(profile_json(profile)))
        return str(path)

    return write


def predicted(advisor: Advisor, *profiles: Profile, **question: Any) -> Job:
    return advisor.answer(profiles, JobQuestion(**question))


def recommended(advisor: Advisor, *profiles: Profile) -> Any:
    return where(advisor.answer(profiles, JobQuestion(), recommend=True))


def test_a_job_of_26_gib_fits_neither_a_t4_nor_a_k80(
    file: Callable[[Profile], str], advisor: Advisor, answer: Callable[..., Any], capsys: Capture
) -> None:
    path = file(job())
    note = "the job has 26 GiB in use on a GPU and does not fit into "
    document = answer("predict", path)
    fits = {one["gpu"]: one["fits"] for one in document["predictions"]}
    assert not fits["T4"] and not fits["K80"] and fits["A100 SXM4 40GB"] and fits["H100 SXM5"]
    (said,) = (one for one in document["notes"] if one.startswith(note))
    small = [gpu for gpu, yes in fits.items() if yes is False]
    assert said == f"{note}{', '.join(small[:8])} and {len(small) - 8} more"
    assert main(["predict", path]) == 0
    table = capsys.readouterr().out.partition("\ngpu ")[2]
    assert "\nH100 SXM5 " in table and "\nT4 " not in table and "\nK80 " not in table, "no seconds where it does not run"
    assert main(["predict", path, "--target", "T4"]) == 1
    assert "does not fit into T4" in capsys.readouterr().err
    ranked = recommended(advisor, job())
    assert {"T4", "K80"} <= {one.instance.gpu for one in ranked.left_out if one.reason == "memory"} and said in ranked.notes
    assert {"T4", "K80"}.isdisjoint(one.instance.gpu for one in ranked.placements)


def test_memory_that_is_nearly_full_may_be_reserved_and_what_is_not_known_fits_nowhere_for_sure(advisor: Advisor) -> None:
    full = {one.gpu: one.fits for one in predicted(advisor, job(used=39.5 * GIB)).predictions}
    assert full["T4"] is None and full["A100 SXM4 40GB"] is True and full["H100 SXM5"] is True
    unknown = job()
    unknown = replace(unknown, metrics={name: of for name, of in unknown.metrics.items() if not name.startswith("memory_")})
    assert {one.fits for one in predicted(advisor, unknown).predictions} == {None}


@pytest.mark.parametrize("command", ["predict", "recommend"])
def test_an_idle_job_is_refused(
    command: str, file: Callable[[Profile], str], refusal: Callable[..., str], tmp_path: Path
) -> None:
    path = file(job(busy=0.0))
    said = refusal(command, path)
    assert said.startswith(f"epochcast: {path}: the GPU is idle in it (gpu_utilization is 0 % on average)")
    time = np.arange(0, 120, 1.0)
    rows = pd.DataFrame({"time": time, "gpu_utilization": 0.0, "memory_used": 4e8, "power": 27.0})
    write_trace(Trace(rows, gpu="T4", source="nvml"), tmp_path / "idle.parquet")
    assert "the GPU is idle in it" in refusal(command, tmp_path / "idle.parquet")


def test_an_idle_gpu_among_others_does_not_count(advisor: Advisor) -> None:
    both = predicted(advisor, job(), job(busy=0.001))
    assert "profile 2 not counted: idle" in both.notes
    alone = predicted(advisor, job()).predictions[0]
    assert both.predictions[0].ratio == alone.ratio and both.predictions[0].gpus == alone.gpus == 1
    priced = [recommended(advisor, *profiles) for profiles in ((job(), job(busy=0.001)), (job(),))]
    assert [row.usd for row in priced[0].placements] == [row.usd for row in priced[1].placements]
    assert priced[0].current.usd == priced[1].current.usd


def test_a_job_of_1_percent_utilisation_is_warned_of(advisor: Advisor) -> None:
    says = "the GPU works 1 % of the time (gpu_utilization): the job waits for something else"
    assert any(says in note for note in predicted(advisor, job(busy=0.01)).notes)
    assert any(says in note for note in recommended(advisor, job(busy=0.01)).notes)
    assert not any("of the time (gpu" in note for note in predicted(advisor, job(busy=0.3)).notes)


def test_eight_gpus_of_another_kind(
    file: Callable[[Profile], str], answer: Callable[..., Any], text: Callable[..., str], refusal: Callable[..., str]
) -> None:
    path = file(job())
    one = answer("predict", path, "--target", "H100 SXM5")
    eight = answer("predict", path, "--target", "H100 SXM5", "--target-gpus", "8")
    (before,), (after,) = one["predictions"], eight["predictions"]
    assert (before["gpus"], after["gpus"]) == (1, 8) and 5 < before["seconds"] / after["seconds"] < 8
    assert after["high"] / after["low"] > before["high"] / before["low"]
    assert after["energy"]["watts"]["value"] > 8 * before["energy"]["watts"]["value"] * 0.99, "of all of them together"
    assert any(note.startswith("8 GPUs instead of 1, as measured jobs scaled within one machine") for note in eight["notes"])
    assert "\n8 x H100 SXM5  0.0" in text("predict", path, "--target", "H100 SXM5", "--target-gpus", "8")
    assert "target-gpus" in refusal("predict", path, "--target-gpus", "0")


def test_eight_gpus_of_one_job_move_as_one(file: Callable[[Profile], str], answer: Callable[..., Any]) -> None:
    path = file(job())
    single, several = (answer("predict", *[path] * n, "--target", "H100 SXM5")["predictions"][0] for n in (1, 8))
    assert several["gpus"] == 8 and several["ratio"] == pytest.approx(single["ratio"], rel=0.15), "as many of the other kind"
    four = answer("predict", *[path] * 8, "--target", "A100 SXM4 40GB", "--target-gpus", "4")["predictions"][0]
    assert 1.7 < four["ratio"] < 2
    said_itself = file(job(gpus=8))
    assert answer("predict", said_itself, "--target", "H100 SXM5")["predictions"][0]["gpus"] == 8


def test_the_batch_stays_unless_it_may_grow(file: Callable[[Profile], str], answer: Callable[..., Any]) -> None:
    path = file(job())
    stays, grows = (answer("predict", path, *more) for more in ((), ("--batch-may-grow",)))
    assert any(note.startswith("assumed: the batch stays the same") for note in stays["notes"])
    assert any(note.startswith("assumed: the batch grows with a GPU's memory") for note in grows["notes"])
    before, after = ({one["gpu"]: one for one in each["predictions"]} for each in (stays, grows))
    assert {one["batch"] for one in before.values()} == {1.0}
    assert after["A100 SXM4 80GB"]["batch"] == pytest.approx(2**1.15, rel=1e-3)
    assert after["A100 SXM4 80GB"]["seconds"] < before["A100 SXM4 80GB"]["seconds"]
    assert after["A100 SXM4 40GB"]["batch"] == 1 and after["A100 SXM4 40GB"] == before["A100 SXM4 40GB"]
    rows = [answer("recommend", path, *more)["recommendation"]["placements"] for more in ((), ("--batch-may-grow",))]
    fastest = [min(row["prediction"]["ratio"] for row in each) for each in rows]
    assert fastest[1] < fastest[0]


def test_waiting_for_checkpoints_is_priced_as_it_is_here(
    file: Callable[[Profile], str], answer: Callable[..., Any], text: Callable[..., str]
) -> None:
    """Ten seconds of each epoch of 40; the GPUs look busy while they wait for the one that saves."""
    path = file(job(busy=1.0, wait_share=0.25, precision="mixed", epoch_s_low=None, epoch_s_high=None, first_epoch_s=None))
    document = answer("recommend", path, "--epochs", "100")["recommendation"]
    seconds = read_profile(json.loads(Path(path).read_text())).epoch_s
    assert seconds
    for row in document["placements"]:
        assert row["job"]["checkpoint_s"] == pytest.approx(25 * seconds)
        assert row["seconds"]["value"] == pytest.approx(row["job"]["epochs_s"]["value"] + row["job"]["checkpoint_s"])
    fastest = min(row["job"]["epochs_s"]["value"] for row in document["placements"])
    assert fastest < 0.5 * 75 * seconds, "what is no waiting is as much faster as ever"
    assert " of checkpoints" in text("recommend", path, "--epochs", "100", "--all")


def test_the_share_of_waiting_is_that_of_the_checkpoint_cycle() -> None:
    time = np.arange(0, 400, 1.0)
    epochs = tuple(Epoch(start, start + 40.0, 0.95) for start in np.arange(0, 400, 40.0))
    cycles = (
        Cycle("step", 1.0, 0.9, "", None, 0.1),
        Cycle("checkpoint", 80.0, 0.9, "", 0.3, 8.0),
        Cycle("epoch", 40.0, 0.9, "", None, None),
    )
    found = Detection("epochs", 40.0, None, epochs, 0.95, "track", "wall", None, cycles=cycles)
    profile = profile_of_detection("T4", time, {"gpu_utilization": np.full(400, 0.9)}, found, simulated=False)
    assert profile.unit == "epoch" and profile.wait_share == pytest.approx(0.1)
