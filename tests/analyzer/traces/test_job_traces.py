"""Several traces and folders as one job, cycles and throughput, in what `detect`, `predict` and `recommend` answer."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.corpus.training_data import labelled_profile
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs import sources
from epochcast.analyzer.jobs.cycles import NO_STEP
from epochcast.analyzer.jobs.prices import load_instances, usd_per_hour
from epochcast.analyzer.jobs.sources import profile_of
from epochcast.analyzer.traces import job_traces
from epochcast.analyzer.traces.job_traces import APART, read_job
from epochcast.analyzer.traces.trace import Trace, read_trace, write_trace
from epochcast.detector import Cycle, Detection, JobDetection, JobEpochs, detect
from epochcast.regressor import load_catalog
from lab.simulator.devices import DEVICES
from lab.simulator.draws import draw_training, uncropped
from lab.simulator.scenario import RecordingFaults, draw_noise, record
from lab.simulator.telemetry import measure
from lab.simulator.timeline import TICK_S, Phase, pause
from lab.simulator.training import train
from lab.simulator.workload import draw

Run = Callable[..., dict[str, Any]]

METRICS = ("gpu_utilization", "sm_active", "dram_active", "power", "memory_used")
IDLE = 1  # the GPU that does nothing
STEP = Cycle("step", 0.5, 0.9, "an even cycle", None, None)
CHECKPOINT = Cycle("checkpoint", 12.0, 0.95, "the GPU rests while the host writes", 0.3, 3.0)


def job_of(gpus: int, idle: int | None) -> list[Trace]:
    """Traces of one timeline on so many GPUs of one kind, each with noise of its own; one may do nothing."""
    rng = np.random.default_rng(0)
    plan = draw_training(rng, epochs=14, epoch_s=12.0, validation=0.15)
    timeline = uncropped(rng, train(plan, rng), lead_s=(4.0, 8.0))
    device, noise = DEVICES[0], draw_noise(rng)
    work, ticks = draw(device, plan.step, 0.5, rng), int(timeline.length_s / TICK_S)
    time = 1.7e9 + TICK_S * np.arange(1, ticks + 1)
    traces = []
    for gpu in range(gpus):
        runs = pause(Phase.PARKED, timeline.length_s) if gpu == idle else timeline
        at, metrics = record(time, measure([(runs, work)], device, noise, ticks, rng), RecordingFaults(), rng)
        frame = pd.DataFrame({"time": at, **{name: metrics[name] for name in METRICS}})
        traces.append(Trace(frame, gpu=device.name, source="replay", simulated=True))
    return traces


ALL: dict[str, tuple[str, ...]] = {"detect": (), "predict": (), "recommend": ("--all",)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of three GPUs of a job, one of which is idle, with labels next to them and a trace of their host."""
    folder = tmp_path_factory.mktemp("job")
    traces = job_of(3, IDLE)
    for gpu, trace in enumerate(traces):
        write_trace(trace, folder / f"run.gpu{gpu}.{'csv' if gpu == 2 else 'parquet'}")
    host = pd.DataFrame({"time": traces[0].time, "cpu_utilization": traces[0].metrics()["sm_active"]})
    write_trace(Trace(host, gpu="a CPU", source="host"), folder / "run.host.parquet")
    (folder / "run.gpu0.json").write_text('{"training": true, "epoch_starts": [], "epoch_ends": []}')
    return folder


@pytest.fixture
def found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Let detection answer for a trace as it does, but with other cycles or jobs; returns the trace."""
    trace = read_trace(folder / "run.gpu0.parquet")
    true = detect(trace.time, trace.metrics())

    def changed(**changes: object) -> Path:
        for place in ("jobs.detected_profile.detect", "cli.detect.find_epochs"):
            monkeypatch.setattr(f"epochcast.analyzer.{place}", lambda *_, **__: replace(true, **changes))
        return folder / "run.gpu0.parquet"

    return changed


# Which traces are a job's -------------------------------------------------------------------------------------------------


def test_a_folder_is_one_job_of_the_traces_in_it(folder: Path, answer: Run, text: Callable[..., str]) -> None:
    document = answer("detect", folder)
    assert document["job"]["period_s"] == pytest.approx(12.0, rel=0.05) and document["job"]["unit"] == "epoch"
    assert len(document["job"]["epochs"]) == 14
    assert [one["label"] for one in document["gpus"]] == ["run.gpu0", "run.gpu1", "run.gpu2"]
    assert [one["odd"] for one in document["gpus"]] == [None, "is idle", None]
    assert document["gpus"][2]["period_s"] == pytest.approx(12.0, rel=0.05)
    assert document["notes"] == [f"'{folder / 'run.host.parquet'}' is a host trace, not a GPU trace, and is skipped"]
    files = [folder / name for name in ("run.gpu0.parquet", "run.gpu1.parquet", "run.gpu2.csv")]
    assert answer("detect", *files) == document | {"notes": []}
    printed = text("detect", *files)
    assert printed.startswith("14 epochs, period 12."), "the job's answer comes first"
    lines = printed.splitlines()
    gpus = lines[lines.index("each of the 3 GPUs:") + 1 :]
    assert gpus[0].startswith("  run.gpu0 (Tesla T4): 14 epochs, period 12.")
    assert gpus[1].startswith("  run.gpu1 (Tesla T4): is idle (no epochs found")
    assert len(gpus) == 3


def test_predictions_are_of_the_gpus_that_do_the_job(folder: Path, answer: Run) -> None:
    document = answer("predict", folder, "--target", "A10G")
    assert [one["name"] for one in document["gpus"]] == [str(folder / "run.gpu0.parquet"), str(folder / "run.gpu2.csv")]
    assert f"{folder / 'run.gpu1.parquet'} not counted: idle" in document["notes"]
    assert document["gpus"][0]["profile"]["unit"] == "epoch"
    ranked = answer("recommend", folder, "--cloud", "aws")
    assert ranked["gpus"][0]["profile"]["gpus"] == 2, "the idle one need not be rented"
    assert any("not counted: idle" in note for note in ranked["notes"])


def test_each_gpu_gets_the_cycle_of_the_job(folder: Path, answer: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs that are alone too unsure to give seconds give those of the job, which is sure."""
    together = sources.detect_together

    def unsure(named: Any) -> JobDetection:
        found = together(named)
        return replace(found, gpus=tuple(replace(one, confidence=0.65, cycles=()) for one in found.gpus))

    monkeypatch.setattr(sources, "detect_together", unsure)
    document = answer("predict", folder, "--target", "A10G")
    assert [one["profile"]["epoch_s"] for one in document["gpus"]] == pytest.approx([12.0, 12.0], rel=0.05)


def test_gpus_that_disagree_give_no_seconds(
    folder: Path, capsys: pytest.CaptureFixture[str], answer: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = job_traces.detect_job
    sentence = "shows a cycle of 12 s, others another one"

    def rivals(traces: Any, **options: Any) -> JobDetection:
        found = searched(traces, **options)
        gpus = (replace(found.gpus[0], cycles=(CHECKPOINT,)), *found.gpus[1:])
        return JobDetection(
            Detection("none", None, None, (), 0.4, "track", "wall", reason="rival_cycles"), gpus, {**found.odd, 0: sentence}
        )

    monkeypatch.setattr(job_traces, "detect_job", rivals)
    assert main(["detect", str(folder)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("no epochs found: two cycles are equally likely")
    assert lines[3].startswith(f"  run.gpu0 (Tesla T4): {sentence} (14 cycles, period 12.")
    assert lines[5].startswith("  run.gpu2 (Tesla T4): 14 epochs, period 12.")
    document = answer("predict", folder, "--target", "A10G")
    assert [one["profile"]["epoch_s"] for one in document["gpus"]] == [None] * 2, "the idle one says nothing even of ratios"
    assert f"{folder / 'run.gpu0.parquet'}: {sentence}" in document["notes"]
    assert sum("two cycles are equally likely" in note for note in document["notes"]) == 1


def test_a_job_of_steps_is_one_on_every_gpu(folder: Path, answer: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Together the GPUs show steps, which none shows alone."""
    searched = job_traces.detect_job
    steps = Detection("steps", 0.5, None, (), 0.9, "track", "wall", step_s=0.5, cycles=(STEP,))
    nothing = Detection("none", None, None, (), 0.4, "track", "wall", reason="no_cycle")

    def even(traces: Any, **options: Any) -> JobDetection:
        return replace(searched(traces, **options), job=steps, gpus=(nothing,) * 3)

    monkeypatch.setattr(job_traces, "detect_job", even)
    document = answer("predict", folder, "--target", "A10G", "--samples-per-step", "256")
    assert [(one["profile"]["unit"], one["profile"]["epoch_s"]) for one in document["gpus"]] == [("step", 0.5)] * 2
    assert document["throughput"]["samples_per_s"] == 512


def test_traces_of_different_times_are_no_job(folder: Path, tmp_path: Path, answer: Run, text: Callable[..., str]) -> None:
    trace = read_trace(folder / "run.gpu0.parquet")
    later = trace.frame.assign(time=trace.time + 1e4)
    files = [folder / "run.gpu0.parquet", write_trace(replace(trace, frame=later), tmp_path / "later.csv")]
    document = answer("detect", *files)
    assert document["job"] is None and document["notes"] == [APART]
    assert [one["verdict"] for one in document["gpus"]] == ["epochs", "epochs"]
    printed = text("detect", *files)
    assert "each of the" not in printed and printed.count(" epochs, period 12.") == 2
    assert APART in answer("predict", *files)["notes"]


def test_other_methods_search_each_gpu_by_itself(folder: Path, answer: Run) -> None:
    document = answer("detect", folder, "--method", "paper")
    assert document["job"] is None and {one["method"] for one in document["gpus"]} == {"paper"}


def test_each_gpu_is_drawn_with_its_own_boundaries(folder: Path, tmp_path: Path) -> None:
    assert main(["detect", str(folder), "--plot", str(tmp_path / "job.png")]) == 0
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [f"job.rungpu{gpu}.png" for gpu in range(3)]


def test_labels_tell_traces_apart(folder: Path, tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "run.csv").write_bytes((folder / "run.gpu2.csv").read_bytes())
    paths = [str(tmp_path / place / "run.csv") for place in ("a", "b")]
    assert [trace.label for _, trace in read_job(paths)] == paths
    assert [name for name, _ in read_job(paths)] == paths
    with pytest.raises(InputError, match=r"run\.csv' is given twice; name each trace of a job once"):
        read_job([paths[0], paths[0]])
    assert read_job(paths[:1])[0][1].label is None, "one trace needs none"


def test_a_folder_without_a_trace_is_refused(tmp_path: Path, refusal: Callable[..., str]) -> None:
    (tmp_path / "run.json").write_text("{}")
    assert refusal("detect", tmp_path) == (
        f"epochcast: {str(tmp_path)!r} is a folder without a trace; a trace is a file whose name ends in .csv, .csv.gz, "
        ".parquet, .pq\n"
    )


def test_the_trace_that_cannot_be_searched_is_named(folder: Path, tmp_path: Path, refusal: Callable[..., str]) -> None:
    (tmp_path / "short.csv").write_text("time,power\n1700000000,5\n")
    said = refusal("detect", folder / "run.gpu2.csv", tmp_path / "short.csv")
    assert said.startswith(f"epochcast: {str(tmp_path / 'short.csv')!r}: the trace has 1 sample(s)")


# Cycles that are no epochs ------------------------------------------------------------------------------------------------


def test_a_cycle_is_called_one_and_costs_what_is_waited(
    found: Callable[..., Path], answer: Run, text: Callable[..., str]
) -> None:
    trace = found(cycles=(STEP, CHECKPOINT))
    catalog = load_catalog()
    t4 = usd_per_hour(["T4"], load_instances(None, catalog)[0])
    assert t4 is not None
    waits = f"25 % of the time goes to what looks like checkpoints (3.00 s in 12.0 s, ${t4 / 4:.2f}/h)"
    without_price = f"{waits.rpartition(', ')[0]})"
    printed = text("detect", trace).splitlines()
    assert printed[0].startswith("14 cycles, period 12.") and printed[0].endswith(" samples per cycle)")
    assert printed[1].startswith("step: 500") and printed[2].startswith("checkpoint: 12.0") and printed[3] == without_price
    document = answer("predict", trace, "--target", "A10G")
    assert document["gpus"][0]["profile"]["unit"] == "cycle"
    assert waits in document["idle_at_boundaries"]
    printed = "\n".join(text("predict", trace, "--target", "A10G", "--epochs", "9").splitlines())
    assert "s per cycle (checkpoint), " in printed and "left out: the first cycle" in printed and "job: 9 cycles, " in printed
    ranked = answer("recommend", trace)
    assert ranked["gpus"][0]["profile"]["unit"] == "cycle" and waits in ranked["idle_at_boundaries"]
    assert "14 cycles (checkpoint) of a job" in text("recommend", trace, "--format", "skypilot")
    assert "9 cycles (checkpoint) of a job" in text("recommend", trace, "--epochs", "9", "--format", "skypilot")


def test_waiting_on_a_gpu_without_a_price_has_none() -> None:
    assert usd_per_hour(["T4", "RTX 3090"], load_instances(None, load_catalog())[0]) is None
    one = usd_per_hour(["T4"], load_instances(None, load_catalog())[0])
    assert usd_per_hour(["T4", "T4"], load_instances(None, load_catalog())[0]) == pytest.approx(2 * (one or 0))


def test_a_corpus_takes_no_cycles_for_epochs(found: Callable[..., Path], tmp_path: Path) -> None:
    trace = read_trace(found(cycles=(CHECKPOINT,)))
    profile, _ = profile_of(trace, load_catalog())
    assert profile.unit == "cycle"
    (unmarked := tmp_path / "run.json").write_text('{"workload": "net|64"}')
    with pytest.raises(InputError, match=r"only cycles of 12\.?\d* s were found in it; give its epoch_starts"):
        labelled_profile(trace, unmarked, load_catalog())


def test_samples_and_tokens_per_second_here_and_elsewhere(
    found: Callable[..., Path], answer: Run, text: Callable[..., str]
) -> None:
    trace, options = found(cycles=(STEP, CHECKPOINT)), ("--samples-per-step", "256", "--tokens-per-step", "1e5")
    for command in ("predict", "recommend"):
        document = answer(command, trace, *options)
        here, placed = document["throughput"], (document["recommendation"] or {"placements": []})["placements"]
        assert (here["samples_per_s"], here["tokens_per_s"]) == (512, 2e5)
        rows = [(one["throughput"], one["ratio"]) for one in document["predictions"]]
        rows += [(one["throughput"], one["prediction"]["ratio"]) for one in placed]
        assert all(rate["samples_per_s"] * ratio == pytest.approx(512) for rate, ratio in rows)
        assert all(rate["tokens_per_s"] * ratio == pytest.approx(2e5) for rate, ratio in rows)
        printed = text(command, trace, *options[:2], *ALL[command])
        (header,) = [line for line in printed.splitlines() if "90 %" in line and "gpu" in line.lower() and "samples/s" in line]
        assert "samples/s" in header and "tokens/s" not in header
    assert "throughput here: 512 samples/s at 500" in text("predict", trace, *options[:2])


def test_without_a_step_no_throughput_is_known(found: Callable[..., Path], answer: Run, text: Callable[..., str]) -> None:
    trace = found(cycles=(CHECKPOINT,))
    assert NO_STEP in text("predict", trace, "--samples-per-step", "256")
    assert NO_STEP not in text("predict", trace)
    document = answer("predict", trace, "--samples-per-step", "256")
    assert document["throughput"] is None


def test_epochs_that_are_too_unsure_are_not_called_none(found: Callable[..., Path], text: Callable[..., str]) -> None:
    trace = found(confidence=0.76)
    assert "confidence below 0.8: too unsure for predict and recommend to give seconds" in text("detect", trace)
    for command in ("predict", "recommend"):
        printed = text(command, trace).lower()
        assert "epochs found with confidence 0.76 only" in printed and "no epochs found" not in printed
    assert main(["predict", str(trace), "--epochs", "9"]) == 2


def test_a_second_job_is_named_by_every_command(found: Callable[..., Path], text: Callable[..., str]) -> None:
    sentence = "two jobs share the GPU: besides 12.0 s there is a cycle of 31.0 s"
    jobs = (JobEpochs(12.0, (), 0.9), JobEpochs(31.0, (), 0.9))
    for command in ("detect", "predict", "recommend"):
        assert sentence not in text(command, found(jobs=jobs[:1]), *ALL[command])
        assert text(command, found(jobs=jobs), *ALL[command]).count(sentence) == 1


def test_jobs_that_share_one_gpu_of_several_are_named_with_it(
    folder: Path, answer: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = job_traces.detect_job
    jobs = (JobEpochs(12.0, (), 0.9), JobEpochs(31.0, (), 0.9))

    def shared(traces: Any, **options: Any) -> Any:
        found = searched(traces, **options)
        return replace(found, gpus=(*found.gpus[:2], replace(found.gpus[2], jobs=jobs)))

    monkeypatch.setattr(job_traces, "detect_job", shared)
    for command in ("detect", "predict"):
        (note,) = [note for note in answer(command, folder)["notes"] if "two jobs share" in note]
        assert note.startswith("run.gpu2" if command == "detect" else str(folder / "run.gpu2.csv"))


# A real job ---------------------------------------------------------------------------------------------------------------


def test_eight_real_gpus_wait_for_a_checkpoint(shared_data: Path, answer: Run) -> None:
    files = sorted((shared_data / "real_traces").glob("h100_ckpt1_gpu*.csv.gz"))
    document = answer("detect", *files)
    assert document["job"]["unit"] == "cycle" and document["job"]["period_s"] == pytest.approx(17.4, rel=0.05)
    assert [cycle["kind"] for cycle in document["job"]["cycles"]] == ["checkpoint"]
    assert [one["odd"] for one in document["gpus"]] == [None] * 8
    predicted = answer("predict", *files, "--target", "H100 PCIe")
    assert [gpu["profile"]["unit"] for gpu in predicted["gpus"]] == ["cycle"] * 8
    assert any(
        "of the time goes to what looks like checkpoints" in note and "/h)" in note for note in predicted["idle_at_boundaries"]
    )


def test_what_other_methods_find_is_of_epochs() -> None:
    assert Detection("epochs", 5.0, None, (), 0.9, "paper", "wall").unit == "epoch"
