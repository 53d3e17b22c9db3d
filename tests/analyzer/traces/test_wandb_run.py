"""Runs of wandb: a trace of each GPU, epochs by the history or the printed lines, and a corpus of them."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.known_epochs import known_epochs
from epochcast.analyzer.traces.labels import read_labels
from epochcast.analyzer.traces.logs import wandb_run
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs
from epochcast.analyzer.traces.logs.wandb_log import read_records
from epochcast.analyzer.traces.trace import read_trace, read_traces
from epochcast.detector import Detection, JobDetection

from . import wandb_logs as logs

GIB = 2**30
OF_TYPE = "its type, llm, is from its configuration (llama); state the type to correct it"


@pytest.fixture
def wandb() -> Any:
    return pytest.importorskip("wandb", reason="the extra wandb is not installed")


def _run(folder: Path, *records: dict[str, Any]) -> Path:
    logs.write(folder / "run-ab12cd34.wandb", records)
    return folder


def _two_gpus(folder: Path, *others: dict[str, Any], busy_gpus: tuple[int, ...] = (0, 1), gpu: str = "NVIDIA A10G") -> Path:
    return _run(folder, logs.environment(gpu), *logs.stats(busy_gpus=busy_gpus), *others)


@pytest.mark.parametrize("spelling", logs.SPELLINGS)
@pytest.mark.usefixtures("wandb")
def test_each_gpu_is_a_trace_in_base_units_however_its_keys_are_spelled(spelling: str, tmp_path: Path) -> None:
    run = _run(tmp_path, logs.environment(), *logs.stats(spelling))
    first, second = read_traces(run)
    assert (first.label, first.gpu, first.uuid, first.source) == ("GPU 0", "NVIDIA A10G", "GPU-0a-0b", "wandb")
    assert first.static == {"memory_total": 24 * GIB, "cuda_cores": 9216}
    assert second.label == "GPU 1"
    assert first.time[:2].tolist() == [logs.BEGIN, logs.BEGIN + 15]
    values = second.metrics()
    expected = {
        "gpu_utilization": logs.busy(0, 1) / 100,
        "memory_utilization": logs.busy(0, 1) / 200,
        "memory_used": 0.26 * 24 * GIB,
        "temperature": 61.0,
        "power_average": 100 + logs.busy(0, 1),
    }
    if spelling != "old":
        expected |= {"sm_active": 0.009 * logs.busy(0, 1), "sm_clock": 1.41e9, "power_limit": 300.0}
        expected |= {"pcieTxBytes": 10 * logs.busy(0, 1), "fanSpeed": 0.0}
    assert {name: column[0] for name, column in values.items()} == pytest.approx(expected)


@pytest.mark.usefixtures("wandb")
def test_activity_that_a_dcgm_exporter_says_as_a_ratio_is_one(tmp_path: Path) -> None:
    records = [
        {"stats": {"timestamp": logs.BEGIN + tick, "item": {"gpu.0.smActive/l:a": 0.5, "gpu.0.smActive/l:b": 0.25}}}
        for tick in range(3)
    ]
    traces = read_traces(_run(tmp_path, *records))
    assert [trace.label for trace in traces] == ["a GPU 0", "b GPU 0"]
    assert traces[1].metrics()["sm_active"].tolist() == [0.25] * 3


@pytest.mark.usefixtures("wandb")
def test_older_versions_say_the_gpu_in_a_file_beside_the_log(tmp_path: Path) -> None:
    run = _run(tmp_path, *logs.stats("old"))
    (tmp_path / "files").mkdir()
    metadata = {"gpu": "Tesla T4", "gpu_count": 2, "gpu_devices": [{"name": "Tesla T4", "memory_total": 16 * GIB}] * 2}
    (tmp_path / "files" / "wandb-metadata.json").write_text(json.dumps(metadata))
    first, _ = read_traces(run)
    assert first.gpu == "Tesla T4"
    assert first.metrics()["memory_used"][0] == 4 * GIB
    (tmp_path / "files" / "wandb-metadata.json").write_text("{")
    first, _ = read_traces(run)
    assert first.gpu is None
    assert first.metrics()["memoryAllocated"][0] == 25


@pytest.mark.usefixtures("wandb")
def test_a_gpu_that_idled_throughout_is_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = _two_gpus(tmp_path, busy_gpus=(1,))
    assert main(["detect", str(run)]) == 0
    out, err = capsys.readouterr()
    assert out.partition(", ")[0] in ("12 epochs", "12 cycles")
    assert "GPU 0 idled throughout" in err
    assert len(read_traces(_two_gpus(tmp_path, busy_gpus=()))) == 2, "all idle: all are kept"


@pytest.mark.usefixtures("wandb")
def test_every_command_that_takes_a_trace_takes_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = logs.run_record(model_name_or_path="meta-llama/Llama-3.1-8B", batch_size=64)
    run = _two_gpus(tmp_path / "run-20261118_110640-ab12cd34", config)
    assert main(["predict", str(run), "--target", "T4", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    profiles = [gpu["profile"] for gpu in answer["gpus"]]
    assert [profile["gpu"] for profile in profiles] == ["A10G"] * 2
    assert max(profile["epoch_s"] for profile in profiles) == pytest.approx(150, rel=0.05)
    assert {"its batch, 64, is from its configuration", OF_TYPE} <= set(answer["notes"])
    assert main(["recommend", str(run), "--epochs", "3", "--all"]) == 0
    assert OF_TYPE in "".join(capsys.readouterr())


@pytest.mark.usefixtures("wandb")
def test_a_runs_own_history_is_its_epochs_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = _two_gpus(tmp_path, logs.run_record(), *logs.per_epoch(), busy_gpus=(0,))
    assert main(["detect", str(run), "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["method"], found["unit"], found["period_s"]) == ("known", "epoch", 150)
    assert "are known from its history; telemetry agrees within" in err


@pytest.mark.usefixtures("wandb")
def test_epochs_of_visible_labels_are_exact(shared_data: Path, tmp_path: Path) -> None:
    tried = 0
    for path in sorted((shared_data / "real_traces").glob("*.json")):
        starts = read_labels(path).epoch_starts
        if len(starts) > 2:
            rows = logs.history((start - logs.BEGIN, {"train/epoch": epoch}) for epoch, start in enumerate(starts))
            logs.write(tmp_path / f"{path.stem}.wandb", [logs.run_record(), *rows])
            known = known_epochs(file=str(tmp_path / f"{path.stem}.wandb"))
            assert known is not None and [start for start, _ in known.spans] == pytest.approx(starts[:-1], abs=1e-5)
            tried += 1
    assert tried > 10


def _epochs(folder: Path, *records: dict[str, Any]) -> KnownEpochs | None:
    path = logs.write(folder / "run-x.wandb", [*logs.stats(ticks=2), *records])
    return wandb_run.read_epochs(path)


@pytest.mark.usefixtures("wandb")
class TestEpochs:
    def test_one_history_row_an_epoch(self, tmp_path: Path) -> None:
        found = _epochs(tmp_path, *logs.per_epoch(4))
        assert found is not None and found.origin == "its history"
        assert np.subtract([start for start, _ in found.spans], logs.BEGIN).tolist() == [150, 300, 450]
        assert np.subtract([end for _, end in found.spans], logs.BEGIN).tolist() == [300, 450, 600]

    def test_many_rows_an_epoch_and_a_second_fold(self, tmp_path: Path) -> None:
        rows = [(10.0 * step, {"train/epoch": step // 5}) for step in range(20)]
        rows += [(200 + 10.0 * step, {"train/epoch": step // 5}) for step in range(40)]
        found = _epochs(tmp_path, *logs.history(rows))
        assert found is not None
        assert np.subtract([start for start, _ in found.spans], logs.BEGIN).tolist() == [0, 50, 100]

    def test_fractions_of_epochs_are_crossed_between_their_rows(self, tmp_path: Path) -> None:
        rows = [(after, {"train/epoch": round(after / 80, 3)}) for after in range(30, 400, 30)]
        found = _epochs(tmp_path, *logs.history(rows))
        assert found is not None
        assert np.subtract([start for start, _ in found.spans], logs.BEGIN) == pytest.approx([80, 160, 240], abs=0.2)

    def test_every_fifth_epoch_says_no_epoch(self, tmp_path: Path) -> None:
        assert _epochs(tmp_path, *logs.history((100.0 * epoch, {"epoch": 5 * epoch}) for epoch in range(6))) is None

    def test_steps_where_somebody_says_how_many_an_epoch_has(self, tmp_path: Path) -> None:
        rows = logs.history((step * 0.5, {"trainer/global_step": step, "loss": 1.0}) for step in range(0, 1000, 50))
        assert _epochs(tmp_path, *rows) is None
        found = _epochs(tmp_path, logs.run_record(steps_per_epoch=200), *rows)
        assert found is not None and found.origin == "its steps"
        assert np.diff([start for start, _ in found.spans]) == pytest.approx([100, 100, 100])

    def test_printed_lines_in_pieces_and_progress_bars(self, tmp_path: Path) -> None:
        pieces = [(0, "steps per epoch: 400\nEpoch"), (1, " 1/3"), (2, "\rEpoch 1/3: 50%"), (60, "\nEPOCH [2/3]\n")]
        pieces += [(121, "Epoch: 3 "), (122, "of 3\nbest epoch 3\n")]
        lines = [{"output_raw": {"timestamp": logs.BEGIN + after, "line": text}} for after, text in pieces]
        found = _epochs(tmp_path, *lines)
        assert found is not None and found.origin == "its output"
        assert np.subtract([start for start, _ in found.spans], logs.BEGIN).tolist() == [2, 60]
        assert np.subtract([end for _, end in found.spans], logs.BEGIN).tolist() == [60, 122]

    def test_values_that_are_none(self, tmp_path: Path) -> None:
        rows = logs.history([(1, {"epoch": None}), (2, {"epoch": "two"}), (3, {"epoch": True}), (4, {"epoch": float("nan")})])
        assert _epochs(tmp_path, *rows, {"history": {"item": {"epoch": 1}}}) is None


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("wandb", reason="the extra wandb is not installed")
    return logs.offline_run(tmp_path_factory.mktemp("offline"))


def test_a_real_offline_run_is_read(offline: Path) -> None:
    (log,) = offline.glob("*.wandb")
    assert read_records(log)[1] == 0
    trace = read_trace(offline)
    assert read_trace(log).metadata() == trace.metadata() == read_trace(offline.parent).metadata()
    assert trace.source == "host"
    values = trace.metrics()
    assert {"process_cpu_utilization", "process_rss", "process_threads", "network.sent"} <= set(values)
    assert len(trace.time) > 10
    assert 2**24 < np.nanmedian(values["process_rss"]) < 2**31


def test_without_the_package_one_sentence_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run-a.wandb").write_bytes(b":W&B")
    for name in [name for name in sys.modules if name.partition(".")[0] == "wandb"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(["detect", str(tmp_path)]) == 2
    assert "pip install '.[wandb]'" in capsys.readouterr().err


@pytest.mark.usefixtures("wandb")
class TestLog:
    def test_messages_longer_than_a_block(self, tmp_path: Path) -> None:
        texts = ["a" * length for length in (10, 32740, 5, 100_000, 32768, 1, 32754, 3)]
        path = logs.write(tmp_path / "run-a.wandb", [{"output_raw": {"line": text}} for text in texts])
        records, lost = read_records(path)
        assert [record.output_raw.line for record in records] == texts
        assert lost == 0

    def test_a_flipped_byte_costs_its_record_alone(self, tmp_path: Path) -> None:
        path = logs.write(tmp_path / "run-a.wandb", logs.stats())
        content = bytearray(path.read_bytes())
        content[20_000] ^= 1
        path.write_bytes(content)
        assert len(read_records(path)[0]) == len(logs.stats()) - 1
        trace = read_traces(path)[0]
        assert len(trace.time) == len(logs.stats()) - 1
        assert "damaged or cut off" in trace.notes[0]

    def test_a_file_of_something_else_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "run-a.wandb"
        for content in (b"", b":W&B", b"time,power\n1,2\n", logs.log_of([])[:-1] + b"\x01"):
            path.write_bytes(content)
            with pytest.raises(InputError, match="does not begin like a wandb run"):
                read_traces(path)
        with pytest.raises(InputError, match="No such file"):
            read_traces(tmp_path / "run-b.wandb")

    def test_damaged_files_are_read_or_refused_in_one_sentence(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        nothing = Detection("none", None, None, (), 0.1, "track", "wall")
        monkeypatch.setattr("epochcast.analyzer.cli.detect.find_epochs", lambda *_, **__: nothing)
        of_job = JobDetection(nothing, (nothing, nothing), {})
        monkeypatch.setattr("epochcast.analyzer.cli.detect.detect_together", lambda *_, **__: of_job)
        whole = _two_gpus(tmp_path, logs.run_record(lr=0.1), *logs.per_epoch()) / "run-ab12cd34.wandb"
        content, dice, statuses = whole.read_bytes(), random.Random(24), []
        for _ in range(60):
            broken = bytearray(content)
            for _ in range(dice.choice((1, 3, 100, 3000))):
                broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
            if dice.random() < 0.5:
                del broken[dice.randrange(len(broken)) :]
            if dice.random() < 0.2:
                start = dice.randrange(len(broken) + 1)
                del broken[start : start + dice.randrange(5000)]
            whole.write_bytes(broken)
            statuses.append(main(["detect", str(whole)]))
            err = capsys.readouterr().err
            assert statuses[-1] in (0, 1, 2)
            assert err.count("\n") <= 2 and "Traceback" not in err
        assert 0 < statuses.count(2) < 60

    def test_messages_that_decode_to_nonsense(self, tmp_path: Path) -> None:
        dice = random.Random(5)
        good = [
            logs.message_of(record)
            for record in [logs.run_record(a=1), logs.environment(), *logs.stats(ticks=20), *logs.per_epoch()]
        ]
        read = 0
        for number in range(60):
            messages = []
            for message in good:
                spoiled = bytearray(message)
                for _ in range(dice.choice((0, 0, 1, 5))):
                    spoiled[dice.randrange(len(spoiled))] = dice.randrange(256)
                messages.append(bytes(spoiled))
            path = tmp_path / f"run-{number}.wandb"
            path.write_bytes(logs.log_of(messages))
            try:
                read_traces(path)
                wandb_run.read_epochs(path)
                read += 1
            except InputError:
                pass
        assert read > 0
