"""Several traces and folders as one job, cycles and throughput, in what `detect`, `predict` and `recommend` answer."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.answers import sources
from epochcast.analyzer.answers.cycles import NO_STEP
from epochcast.analyzer.answers.sources import profile_of
from epochcast.analyzer.cli import main
from epochcast.analyzer.corpus.run import NoEpochsError, profile_beside
from epochcast.analyzer.corpus.workloads import Workload
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.instances import load_instances
from epochcast.analyzer.traces import job_traces
from epochcast.analyzer.traces.job_traces import APART, read_job, usd_per_hour
from epochcast.analyzer.traces.trace import Trace, read_trace, write_trace
from epochcast.detector import Cycle, Detection, Job, JobDetection, detect
from epochcast.detector.simulator.devices import DEVICES
from epochcast.detector.simulator.draws import draw_training, uncropped
from epochcast.detector.simulator.scenario import Recording, draw_noise, record
from epochcast.detector.simulator.telemetry import measure
from epochcast.detector.simulator.timeline import TICK_S, Phase, pause
from epochcast.detector.simulator.training import train
from epochcast.detector.simulator.workload import draw
from epochcast.regressor import load_catalog

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
        at, metrics = record(time, measure([(runs, work)], device, noise, ticks, rng), Recording(), rng)
        frame = pd.DataFrame({"time": at, **{name: metrics[name] for name in METRICS}})
        traces.append(Trace(frame, gpu=device.name, source="replay", simulated=True))
    return traces


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of three GPUs of a job, one of which is idle, with labels beside them and a trace of their host."""
    folder = tmp_path_factory.mktemp("job")
    traces = job_of(3, IDLE)
    for gpu, trace in enumerate(traces):
        write_trace(trace, folder / f"run.gpu{gpu}.{'csv' if gpu == 2 else 'parquet'}")
    host = pd.DataFrame({"time": traces[0].time, "cpu_utilization": traces[0].metrics()["sm_active"]})
    write_trace(Trace(host, gpu="a CPU", source="host"), folder / "run.host.parquet")
    (folder / "run.gpu0.json").write_text('{"training": true, "epoch_starts": [], "epoch_ends": []}')
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command with --json and return its answer."""

    def answered(*arguments: object, status: int = 0) -> dict[str, Any]:
        assert main([*map(str, arguments), "--json"]) == status
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    return answered


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command and return what it prints, notes first."""

    def text(*arguments: object) -> str:
        assert main([*map(str, arguments)]) == 0
        out, err = capsys.readouterr()
        return err + out

    return text


@pytest.fixture
def found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Let detection answer for a trace as it does, but with other cycles or jobs; returns the trace."""
    trace = read_trace(folder / "run.gpu0.parquet")
    true = detect(trace.time, trace.metrics())

    def changed(**changes: object) -> Path:
        for place in ("answers.sources.detect", "cli.detect.find_epochs"):
            monkeypatch.setattr(f"epochcast.analyzer.{place}", lambda *_, **__: replace(true, **changes))
        return folder / "run.gpu0.parquet"

    return changed


# Which traces are a job's -------------------------------------------------------------------------------------------------


def test_a_folder_is_one_job_of_the_traces_in_it(folder: Path, run: Run, shown: Callable[..., str]) -> None:
    answer = run("detect", folder)
    assert answer["job"]["period_s"] == pytest.approx(12.0, rel=0.05) and answer["job"]["unit"] == "epoch"
    assert len(answer["job"]["epochs"]) == 14
    assert [one["label"] for one in answer["gpus"]] == ["run.gpu0", "run.gpu1", "run.gpu2"]
    assert [one["odd"] for one in answer["gpus"]] == [None, "is idle", None]
    assert answer["gpus"][2]["period_s"] == pytest.approx(12.0, rel=0.05)
    assert answer["notes"] == [f"'{folder / 'run.host.parquet'}' is of the host, not of a GPU, and is left out"]
    files = [folder / name for name in ("run.gpu0.parquet", "run.gpu1.parquet", "run.gpu2.csv")]
    assert run("detect", *files) == answer | {"notes": []}
    text = shown("detect", *files)
    assert text.startswith("14 epochs, period 12."), "the job's answer comes first"
    lines = text.splitlines()
    gpus = lines[lines.index("each of the 3 GPUs:") + 1 :]
    assert gpus[0].startswith("  run.gpu0 (Tesla T4): 14 epochs, period 12.")
    assert gpus[1].startswith("  run.gpu1 (Tesla T4): is idle (no epochs found")
    assert len(gpus) == 3


def test_predictions_are_of_the_gpus_that_do_the_job(folder: Path, run: Run) -> None:
    answer = run("predict", folder, "--target", "A10G")
    assert [one["trace"] for one in answer["gpus"]] == [str(folder / "run.gpu0.parquet"), str(folder / "run.gpu2.csv")]
    assert f"{folder / 'run.gpu1.parquet'}: is idle, so it is not counted" in answer["notes"]
    assert (answer["unit"], answer["cycle"]) == ("epoch", None)
    ranked = run("recommend", folder, "--cloud", "aws")
    assert ranked["gpus"] == 3, "the idle one is rented all the same"
    assert any("is idle" in note for note in ranked["notes"])


def test_each_gpu_gets_the_cycle_of_the_job(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs that are alone too unsure to give seconds give those of the job, which is sure."""
    together = sources.detect_together

    def unsure(named: Any) -> JobDetection:
        found = together(named)
        return replace(found, gpus=tuple(replace(one, confidence=0.65, cycles=()) for one in found.gpus))

    monkeypatch.setattr(sources, "detect_together", unsure)
    answer = run("predict", folder, "--target", "A10G")
    assert [one["epoch_s"] for one in answer["gpus"]] == pytest.approx([12.0, 12.0], rel=0.05)


def test_gpus_that_disagree_give_no_seconds(
    folder: Path, capsys: pytest.CaptureFixture[str], run: Run, monkeypatch: pytest.MonkeyPatch
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
    answer = run("predict", folder, "--target", "A10G")
    assert answer["epoch_s"] is None and len(answer["gpus"]) == 2, "the idle one says nothing even of ratios"
    assert f"{folder / 'run.gpu0.parquet'}: {sentence}" in answer["notes"]
    assert sum("two cycles are equally likely" in note for note in answer["notes"]) == 1


def test_a_job_of_steps_is_one_on_every_gpu(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Together the GPUs show steps, which none shows alone."""
    searched = job_traces.detect_job
    steps = Detection("steps", 0.5, None, (), 0.9, "track", "wall", step_s=0.5, cycles=(STEP,))
    nothing = Detection("none", None, None, (), 0.4, "track", "wall", reason="no_cycle")

    def even(traces: Any, **options: Any) -> JobDetection:
        return replace(searched(traces, **options), job=steps, gpus=(nothing,) * 3)

    monkeypatch.setattr(job_traces, "detect_job", even)
    answer = run("predict", folder, "--target", "A10G", "--samples-per-step", "256")
    assert [(one["unit"], one["epoch_s"]) for one in answer["gpus"]] == [("step", 0.5)] * 2
    assert answer["samples_per_s"] == 512


def test_traces_of_different_times_are_no_job(folder: Path, tmp_path: Path, run: Run, shown: Callable[..., str]) -> None:
    trace = read_trace(folder / "run.gpu0.parquet")
    later = trace.frame.assign(time=trace.time + 1e4)
    files = [folder / "run.gpu0.parquet", write_trace(replace(trace, frame=later), tmp_path / "later.csv")]
    answer = run("detect", *files)
    assert answer["job"] is None and answer["notes"] == [APART]
    assert [one["verdict"] for one in answer["gpus"]] == ["epochs", "epochs"]
    text = shown("detect", *files)
    assert "each of the" not in text and text.count(" epochs, period 12.") == 2
    assert APART in run("predict", *files)["notes"]


def test_other_methods_search_each_gpu_by_itself(folder: Path, run: Run) -> None:
    answer = run("detect", folder, "--method", "autocorrelation")
    assert answer["job"] is None and {one["method"] for one in answer["gpus"]} == {"autocorrelation"}


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


@pytest.mark.parametrize("command", ["detect", "predict", "recommend"])
def test_a_folder_without_a_trace_is_refused(tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.json").write_text("{}")
    assert main([command, str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"epochcast: {str(tmp_path)!r} is a folder without a trace; a trace is a file whose name ends in .csv, .csv.gz, "
        ".parquet, .pq\n"
    )


def test_the_trace_that_cannot_be_searched_is_named(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "short.csv").write_text("time,power\n1700000000,5\n")
    assert main(["detect", str(folder / "run.gpu2.csv"), str(tmp_path / "short.csv")]) == 2
    assert capsys.readouterr().err.startswith(f"epochcast: {str(tmp_path / 'short.csv')!r}: the trace has 1 sample(s)")


# Cycles that are no epochs ------------------------------------------------------------------------------------------------


def test_a_cycle_is_called_one_and_costs_what_is_waited(
    found: Callable[..., Path], run: Run, shown: Callable[..., str]
) -> None:
    trace = found(cycles=(STEP, CHECKPOINT))
    catalog = load_catalog()
    t4 = usd_per_hour(["T4"], load_instances(None, catalog)[0])
    assert t4 is not None
    waits = f"25 % of the time goes to what looks like checkpoints (3.00 s in 12.0 s, ${t4 / 4:.2f}/h)"
    text = shown("detect", trace).splitlines()
    assert text[0].startswith("14 cycles, period 12.") and text[0].endswith(" samples per cycle)")
    assert text[1].startswith("step: 500") and text[2].startswith("checkpoint: 12.0") and text[3] == waits
    answer = run("predict", trace, "--target", "A10G")
    assert answer["unit"] == "cycle" and answer["cycle"]["kind"] == "checkpoint"
    assert waits in answer["idle_at_boundaries"]
    text = "\n".join(shown("predict", trace, "--target", "A10G", "--epochs", "9").splitlines())
    assert "s per cycle (checkpoint), " in text and "left out: the first cycle" in text and "job: 9 cycles, " in text
    ranked = run("recommend", trace)
    assert ranked["unit"] == "cycle" and ranked["cycle"]["kind"] == "checkpoint" and waits in ranked["idle_at_boundaries"]
    assert "one cycle (checkpoint) of a job" in shown("recommend", trace)
    assert "9 cycles (checkpoint) of a job" in shown("recommend", trace, "--epochs", "9")


def test_waiting_on_a_gpu_without_a_price_has_none(found: Callable[..., Path], shown: Callable[..., str]) -> None:
    trace = found(cycles=(CHECKPOINT,))
    assert "/h)" in shown("detect", trace)
    assert usd_per_hour(["T4", "RTX 3090"], load_instances(None, load_catalog())[0]) is None
    one = usd_per_hour(["T4"], load_instances(None, load_catalog())[0])
    assert usd_per_hour(["T4", "T4"], load_instances(None, load_catalog())[0]) == pytest.approx(2 * (one or 0))


def test_a_corpus_takes_no_cycles_for_epochs(found: Callable[..., Path]) -> None:
    trace = read_trace(found(cycles=(CHECKPOINT,)))
    profile, _ = profile_of(trace, load_catalog())
    assert profile.unit == "cycle"
    unmarked = Workload(
        "net|64", None, has_marks=False, samples=None, batch_size=None, image_size=None, precision=None, marks=None
    )
    with pytest.raises(NoEpochsError, match=r"only cycles of 12\.?\d* s were found in it; give its epoch_starts"):
        profile_beside(trace, Path("run.json"), unmarked, load_catalog())


# Throughput ---------------------------------------------------------------------------------------------------------------


def test_samples_and_tokens_per_second_here_and_elsewhere(
    found: Callable[..., Path], run: Run, shown: Callable[..., str]
) -> None:
    trace, options = found(cycles=(STEP, CHECKPOINT)), ("--samples-per-step", "256", "--tokens-per-step", "1e5")
    answer = run("detect", trace, *options)
    assert (answer["samples_per_s"], answer["tokens_per_s"]) == (512, 2e5)
    assert "512 samples/s, 200,000 tokens/s at 500" in shown("detect", trace, *options)
    for command, key in (("predict", "predictions"), ("recommend", "recommendations")):
        answer = run(command, trace, *options)
        assert (answer["samples_per_s"], answer["tokens_per_s"]) == (512, 2e5)
        for row in answer[key]:
            assert row["samples_per_s"] * row["ratio"] == pytest.approx(512)
            assert row["tokens_per_s"] * row["ratio"] == pytest.approx(2e5)
        assert len({row["ratio"] for row in answer[key]}) > 3
        text = shown(command, trace, *options[:2])
        (header,) = [line for line in text.splitlines() if "90 % interval" in line and "gpu" in line]
        assert "samples/s" in header and "tokens/s" not in header
    assert "throughput here: 512 samples/s at 500" in shown("predict", trace, *options[:2])


@pytest.mark.parametrize("command", ["detect", "predict", "recommend"])
def test_without_a_step_no_throughput_is_known(
    found: Callable[..., Path], command: str, run: Run, shown: Callable[..., str]
) -> None:
    trace = found(cycles=(CHECKPOINT,))
    assert NO_STEP in shown(command, trace, "--samples-per-step", "256")
    assert NO_STEP not in shown(command, trace)
    answer = run(command, trace, "--samples-per-step", "256")
    assert answer["samples_per_s"] is None and answer["tokens_per_s"] is None


def test_the_throughput_of_a_profile_is_known_where_it_is_of_steps(
    found: Callable[..., Path], tmp_path: Path, run: Run
) -> None:
    profile, _ = profile_of(read_trace(found(cycles=(STEP, CHECKPOINT))), load_catalog())
    steps = replace(profile, unit="step", epoch_s=0.25, epoch_s_low=None, epoch_s_high=None)
    for unit, each, rate in (("cycle", profile, None), ("step", steps, 1024)):
        path = tmp_path / f"{unit}.json"
        path.write_text(json.dumps(each.to_json()))
        answer = run("predict", path, "--samples-per-step", "256")
        assert (answer["unit"], answer["cycle"], answer["samples_per_s"]) == (unit, None, rate)
        assert (NO_STEP in answer["notes"]) == (rate is None)


@pytest.mark.parametrize("command", ["detect", "predict", "recommend"])
@pytest.mark.parametrize(("value", "seen"), [("0", "0"), ("-3", "-3"), ("nan", "nan"), ("inf", "inf")])
def test_a_step_has_more_than_nothing_in_it(command: str, value: str, seen: str, capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("samples", "tokens"):
        assert main([command, "run.csv", f"--{what}-per-step", value]) == 2
        assert capsys.readouterr().err == (
            f"epochcast: --{what}-per-step is {seen}; give the number of {what} in a step of the whole job, above 0\n"
        )


# Two jobs on one GPU ------------------------------------------------------------------------------------------------------


def test_epochs_that_are_too_unsure_are_not_called_none(found: Callable[..., Path], shown: Callable[..., str]) -> None:
    trace = found(confidence=0.76)
    assert "confidence below 0.8: too unsure for predict and recommend to give seconds" in shown("detect", trace)
    for command in ("predict", "recommend"):
        text = shown(command, trace)
        assert "epochs found with confidence 0.76 only" in text and "no epochs found" not in text
    assert main(["predict", str(trace), "--epochs", "9"]) == 2


def test_a_second_job_is_named_by_every_command(found: Callable[..., Path], shown: Callable[..., str]) -> None:
    sentence = "two jobs share the GPU: besides 12.0 s it shows a cycle of 31.0 s"
    jobs = (Job(12.0, (), 0.9), Job(31.0, (), 0.9))
    for command in ("detect", "predict", "recommend"):
        assert sentence not in shown(command, found(jobs=jobs[:1]))
        assert shown(command, found(jobs=jobs)).count(sentence) == 1


def test_jobs_that_share_one_gpu_of_several_are_named_with_it(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = job_traces.detect_job
    jobs = (Job(12.0, (), 0.9), Job(31.0, (), 0.9))

    def shared(traces: Any, **options: Any) -> Any:
        found = searched(traces, **options)
        return replace(found, gpus=(*found.gpus[:2], replace(found.gpus[2], jobs=jobs)))

    monkeypatch.setattr(job_traces, "detect_job", shared)
    for command in ("detect", "predict"):
        (note,) = [note for note in run(command, folder)["notes"] if "two jobs share" in note]
        assert note.startswith("run.gpu2" if command == "detect" else str(folder / "run.gpu2.csv"))


# A real job ---------------------------------------------------------------------------------------------------------------


def test_eight_real_gpus_wait_for_a_checkpoint(shared_data: Path, run: Run) -> None:
    files = sorted((shared_data / "real_traces").glob("h100_ckpt1_gpu*.csv.gz"))
    answer = run("detect", *files)
    assert answer["job"]["unit"] == "cycle" and answer["job"]["period_s"] == pytest.approx(17.4, rel=0.05)
    assert [cycle["kind"] for cycle in answer["job"]["cycles"]] == ["checkpoint"]
    assert [one["odd"] for one in answer["gpus"]] == [None] * 8
    predicted = run("predict", *files, "--target", "H100 PCIe")
    assert predicted["unit"] == "cycle" and predicted["cycle"]["kind"] == "checkpoint" and len(predicted["gpus"]) == 8
    assert any(
        "of the time goes to what looks like checkpoints" in note and "/h)" in note for note in predicted["idle_at_boundaries"]
    )


def test_what_other_methods_find_is_of_epochs() -> None:
    assert Detection("epochs", 5.0, None, (), 0.9, "paper", "wall").unit == "epoch"
