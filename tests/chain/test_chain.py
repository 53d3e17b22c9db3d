"""Epochs, profiles, jobs and predictions of eight replayed GPUs, against the truth and across all that tells of them.

The service's API, Prometheus, and the queries of the dashboards' panels, of one chain: it takes most of the time.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.agent.config import Config

from .panels import EMPTY, GPU, RATE_S, Panels, Playing

AGREE = 0.01
DETECTORS = 'epochcast_gpu_detector_state{node="node-a"}'


def by_target(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {row["metric"]["target_gpu"]: float(row["value"][1]) for row in rows}


def test_each_epoch_is_found_once_and_none_that_is_not(chain: Any) -> None:
    for gpu in chain.gpus:
        chain.assert_epochs(gpu)


def test_profiles_are_those_of_the_recordings(chain: Any) -> None:
    for gpu in chain.gpus:
        chain.assert_profiles(gpu)


def test_periods_and_counts_come_back_through_prometheus(chain: Any) -> None:
    chain.wait(lambda: len(chain.query("epochcast_gpu_epoch_seconds")) == len(chain.gpus))
    chain.wait(
        lambda: (
            sum(float(row["value"][1]) for row in chain.query("epochcast_gpu_epochs_total"))
            == sum(len(gpu.epochs) for gpu in chain.gpus)
        )
    )
    for gpu in chain.gpus:
        (row,) = chain.query(f'epochcast_gpu_epoch_seconds{{uuid="{gpu.uuid}"}}')
        assert float(row["value"][1]) == pytest.approx(gpu.period_s, rel=AGREE)
        assert row["metric"]["node"] == f"node-{gpu.node}"
        # Whoever detects tells: the node's analyzer where there is one.
        assert row["metric"]["job"] == ("epochcast-node" if gpu.node == "a" else "epochcast-analyzer")
        (row,) = chain.query(f'epochcast_gpu_epochs_total{{uuid="{gpu.uuid}"}}')
        assert float(row["value"][1]) == len(gpu.epochs)
        (row,) = chain.query(f'epochcast_gpu_last_epoch_end_timestamp_seconds{{uuid="{gpu.uuid}"}}')
        assert float(row["value"][1]) == pytest.approx(gpu.epochs[-1][1], abs=0.3)


def test_gpus_that_train_together_are_one_job(chain: Any) -> None:
    chain.wait(
        lambda: all(
            job["grouped_by"] == ("phase" if name in ("four", "two") else "single") for name, job in chain.jobs().items()
        )
    )
    jobs = chain.jobs()
    assert {name: sorted(job["gpus"]) for name, job in jobs.items()} == {
        name: sorted(gpu.uuid for gpu in chain.gpus if gpu.job == name) for name in ("four", "two", "one", "other")
    }
    for gpu in chain.gpus:
        job = jobs[gpu.job]
        assert (job["verdict"], job["unit"], job["simulated"]) == ("epochs", "epoch", True)
        assert job["epoch_s"] == pytest.approx(gpu.period_s, rel=AGREE)
        assert job["epochs_seen"] == len(gpu.epochs)


@pytest.mark.parametrize("name", ["four", "two", "one", "other"])
def test_predictions_are_the_same_over_http_and_in_prometheus(chain: Any, name: str) -> None:
    job = chain.jobs()[name]["id"]

    def agree() -> bool:
        answer = chain.service.json(f"/api/v1/jobs/{job}/prediction")
        predicted = {row["gpu"]: row for row in answer["predictions"]}
        assert len(predicted) > 20
        for metric, key in (("predicted_seconds", "seconds"), ("predicted_low_seconds", "low"), ("predicted_ratio", "ratio")):
            exported = by_target(chain.query(f'epochcast_job_{metric}{{training_job="{job}"}}'))
            if exported.keys() != predicted.keys():
                return False
            if any(value != pytest.approx(predicted[gpu][key], rel=1e-6) for gpu, value in exported.items()):
                return False
        return True

    chain.wait(agree, seconds=20)


def test_the_recommendation_comes_back_through_prometheus(chain: Any) -> None:
    job = chain.jobs()["four"]["id"]
    answer = chain.service.json(f"/api/v1/jobs/{job}/recommendation")
    current, best = answer["current"], answer["cheapest"]
    # What the node's configuration says is rented; the cheapest with these GPUs is another.
    assert (current["instance"], current["instances"], current["assumed"]) == ("g4dn.8xlarge", 4, False)
    assert best["gpus"] == best["gpu_count"] * best["instances"]
    (row,) = chain.query(f'epochcast_job_recommended_instance_info{{training_job="{job}",objective="cost"}}')
    names = [row["metric"][name] for name in ("instance_type", "cloud", "target_gpu", "instances")]
    assert names == [best["instance"], best["cloud"], best["gpu"], str(best["instances"])]
    (row,) = chain.query(f'epochcast_job_savings_ratio{{training_job="{job}",objective="cost"}}')
    assert float(row["value"][1]) == pytest.approx(answer["savings"]["cost_ratio"], abs=1e-9)
    assert answer["savings"]["cost_ratio"] > 0


def test_what_prometheus_holds_is_what_was_replayed(chain: Any) -> None:
    """Each sample of the node that writes there, with its own time."""
    gpu = next(gpu for gpu in chain.gpus if gpu.node == "b")
    (series,) = chain.query(f'epochcast_gpu_dram_active_ratio{{uuid="{gpu.uuid}",job="pushed"}}[1h]')
    times, values = np.array(series["values"], dtype=float).T
    np.testing.assert_allclose(times, gpu.trace.time, atol=1e-3)
    np.testing.assert_allclose(values, gpu.trace.metrics["dram_active"], rtol=1e-6)


def test_sources_are_up_and_nothing_was_dropped(chain: Any) -> None:
    up = {(row["metric"]["kind"], row["metric"]["job"]): row["value"][1] for row in chain.query("epochcast_analyzer_source_up")}
    assert up == {
        ("agent", "epochcast-node"): "1",
        ("node", "epochcast-analyzer"): "1",
        ("prometheus", "epochcast-analyzer"): "1",
    }
    assert {row["value"][1] for row in chain.query("epochcast_analyzer_backlog_dropped_samples_total")} == {"0"}
    assert {row["value"][1] for row in chain.query("epochcast_analyzer_store_errors_total")} == {"0"}
    assert {row["value"][1] for row in chain.query("epochcast_gpu_detector_dropped_samples_total")} == {"0"}


@pytest.fixture(scope="module")
def panels(chain: Any, root: Path) -> Panels:
    chain.wait(lambda: len(chain.query("epochcast_gpu_epoch_seconds")) == len(chain.gpus))
    chain.wait(lambda: len(chain.query('epochcast_job_savings_ratio{objective="cost"}')) == len(chain.jobs()) == 4)
    # Prometheus has scraped what the service tells since its last round.
    settled = [job["epochs_seen"] for job in chain.jobs().values()]
    chain.wait(lambda: sorted(float(row["value"][1]) for row in chain.query("epochcast_job_epochs_total")) == sorted(settled))
    return Panels(chain, root / "dashboards" / "grafana")


@pytest.fixture(scope="module")
def playing(chain: Any) -> Playing:
    return Playing(chain)


def test_every_query_is_answered(panels: Panels, playing: Playing) -> None:
    """None is refused, and each has data while the jobs run or at their end, but for what they have none of."""
    empty = {key for key in panels.queries if not _some(panels, key, None) and not _some(panels, key, playing.moment)}
    assert empty <= EMPTY


def _some(panels: Panels, key: tuple[str, str, str], moment: float | None) -> bool:
    expression = panels.queries[key]
    labels = " ".join(dict.fromkeys(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", expression)))))
    return bool(panels.ask(key[0].removeprefix("epochcast-"), *key[1:], by=labels, at=moment))


def test_periods_and_epochs_of_gpus(chain: Any, panels: Panels) -> None:
    once_scraped(lambda: _assert_gpus(chain, panels))


def _assert_gpus(chain: Any, panels: Panels) -> None:
    gpus = {gpu.uuid: gpu for gpu in chain.gpus}
    periods = {(uuid,): gpu.period_s for uuid, gpu in gpus.items()}
    told = {row["uuid"]: row for row in chain.service.json("/api/v1/gpus")["gpus"]}
    assert panels.one("fleet", "GPUs watched") == len(gpus)
    assert panels.ask("fleet", "GPUs", "B", by="uuid") == pytest.approx(periods, rel=AGREE)
    assert panels.ask("fleet", "GPUs", "C", by="uuid") == pytest.approx(
        {(uuid,): row["confidence"] for uuid, row in told.items()}, rel=AGREE
    )
    assert panels.ask("fleet", "GPUs", "D", by="uuid") == {(uuid,): len(gpu.epochs) for uuid, gpu in gpus.items()}
    states = {"idle": 0, "searching": 1, "answered": 2}
    assert panels.ask("fleet", "GPUs", "A", by="uuid") == {(uuid,): states[row["state"]] for uuid, row in told.items()}
    for uuid, gpu in gpus.items():
        assert panels.one("gpu", "Epoch, step or cycle", gpu=uuid) == pytest.approx(gpu.period_s, rel=AGREE)
        assert panels.one("gpu", "Epochs seen", gpu=uuid) == len(gpu.epochs)
        start, end = gpu.epochs[-1]
        assert panels.one("gpu", "annotation", gpu=uuid) / 1000 == pytest.approx(end, abs=0.3)
        # Each of its two ends is found to 0.3 s.
        assert panels.one("gpu", "Length of epochs", gpu=uuid) == pytest.approx(end - start, abs=0.6)
        assert panels.one("gpu", "Confidence", gpu=uuid) == pytest.approx(told[uuid]["confidence"], rel=AGREE)
    assert set(panels.ask("fleet", "GPUs", "B", by="node", node="nowhere")) == set()


def once_scraped(check: Callable[[], None]) -> None:
    """Let a check hold within some scrapes: the service tells a new round's answers at once, Prometheus a second later."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def test_jobs_their_predictions_and_what_is_recommended(chain: Any, panels: Panels) -> None:
    once_scraped(lambda: _assert_jobs(chain, panels))


def _assert_jobs(chain: Any, panels: Panels) -> None:
    for name, job in chain.jobs().items():
        of = {"training_job": job["id"]}
        gpus = [gpu for gpu in chain.gpus if gpu.job == name]
        assert panels.one("job", "GPUs", **of) == len(gpus)
        assert panels.one("job", "Epoch, step or cycle", **of) == pytest.approx(gpus[0].period_s, rel=AGREE)
        assert panels.one("job", "Epochs so far", **of) == len(gpus[0].epochs)
        assert panels.ask("job", "Its GPUs", by="uuid", **of) == pytest.approx(
            {(gpu.uuid,): gpu.period_s for gpu in gpus}, rel=AGREE
        )
        behind = panels.ask("job", "Behind the fastest", by="uuid", **of)
        assert behind == pytest.approx({(gpu.uuid,): 0.0 for gpu in gpus}, abs=AGREE)
        prediction = chain.service.json(f"/api/v1/jobs/{job['id']}/prediction")["predictions"]
        keys = ("low", "seconds", "high", "ratio", "support")
        for ref_id, key in zip("ABCDE", keys, strict=True):
            told = {(row["gpu"],): row[key] for row in prediction}
            assert panels.ask("job", "Predictions", ref_id, by="target_gpu", **of) == pytest.approx(told, rel=AGREE), key
        for ref_id, key in zip("ABC", ("ratio_low", "ratio", "ratio_high"), strict=True):
            told = {(row["gpu"],): row[key] for row in prediction}
            assert panels.ask("job", "Time there over time here", ref_id, by="target_gpu", **of) == pytest.approx(
                told, rel=AGREE
            )
        answer = chain.service.json(f"/api/v1/jobs/{job['id']}/recommendation")
        best = {(key,): answer[which] for key, which in (("cost", "cheapest"), ("time", "fastest"))}
        assert set(panels.ask("job", "Recommended", by="objective instance_type", **of)) == {
            (*key, row["instance"]) for key, row in best.items()
        }
        for ref_id, field in (("B", "seconds"), ("C", "usd")):
            told = {key: row[field] for key, row in best.items()}
            assert panels.ask("job", "Recommended", ref_id, by="objective", **of) == pytest.approx(told, rel=AGREE), field
        assert panels.one("job", "Could be saved", **of) == pytest.approx(answer["savings"]["cost_ratio"], abs=AGREE / 10)


def test_what_agents_measure_is_what_was_replayed(chain: Any, panels: Panels, playing: Playing) -> None:
    (gpu,) = (gpu for gpu in chain.gpus if gpu.uuid == GPU)
    activity = ("sm_active", "sm_occupancy", "tensor_active", "fp32_active", "fp16_active", "dram_active")
    # rate() is per second of the wall, of which there are fewer than of the recording.
    faster = (playing.scrapes[-1] - playing.scrapes[0]) / RATE_S
    assert faster == pytest.approx(chain.speed, rel=0.2)
    for panel, columns in (
        ("What works on the chip", activity),
        ("Utilisation as the driver tells it", ("gpu_utilization", "memory_utilization")),
        ("Power", ("power",)),
    ):
        for ref_id, column in zip("ABCDEF", columns, strict=False):
            rate = panels.one("gpu", panel, ref_id, at=playing.moment)
            assert rate / faster == pytest.approx(playing.mean(gpu, column), rel=AGREE), column
    utilisation = panels.ask("fleet", "Utilisation by GPU", by="uuid", at=playing.moment, node="node-a")
    # The panel takes a GPU's node from what its detector told, and on a busy machine not all have told anything by then.
    told = {row["metric"]["uuid"] for row in chain.prometheus.query(DETECTORS, time=repr(playing.moment))}
    true = {(one.uuid,): playing.mean(one, "gpu_utilization") * faster for one in chain.gpus if one.uuid in told}
    assert true
    assert utilisation == pytest.approx(true, rel=AGREE)


@pytest.mark.parametrize(
    ("panel", "ref_id", "column"),
    [
        ("Device memory", "A", "memory_used"),
        ("Device memory", "B", "memory_free"),
        ("Clocks", "A", "sm_clock"),
        ("Clocks", "B", "memory_clock"),
        ("Temperature", "A", "temperature"),
    ],
)
def test_newest_values_are_those_of_the_recording(
    chain: Any, panels: Panels, playing: Playing, panel: str, ref_id: str, column: str
) -> None:
    (gpu,) = (gpu for gpu in chain.gpus if gpu.uuid == GPU)
    recorded = playing.scrapes[-1]
    # Read once a second; the page and its newest time are a few milliseconds of the wall apart.
    near = playing.rows(gpu, column, recorded - 2.0, recorded + 1.0)
    shown = panels.one("gpu", panel, ref_id, at=playing.moment)
    assert np.abs(near / shown - 1).min() <= AGREE


@pytest.mark.parametrize(
    ("panel", "ref_id", "column", "statistic"),
    [
        ("SM activity at 10 Hz: least, mean, most", "A", "sm_active", np.max),
        ("SM activity at 10 Hz: least, mean, most", "C", "sm_active", np.min),
        ("Memory interface at 10 Hz: least, mean, most", "A", "dram_active", np.max),
        ("Memory interface at 10 Hz: least, mean, most", "C", "dram_active", np.min),
        ("PCIe and NVLink", "A", "pcie_rx", np.mean),
        ("PCIe and NVLink", "B", "pcie_tx", np.mean),
    ],
)
def test_windows_are_those_of_the_recording(
    chain: Any, panels: Panels, playing: Playing, panel: str, ref_id: str, column: str, statistic: Callable[..., Any]
) -> None:
    """Statistics of the agent's last whole windows at the scrapes; the last one alone for a mean."""
    (gpu,) = (gpu for gpu in chain.gpus if gpu.uuid == GPU)
    length = Config.window
    shown = panels.one("gpu", panel, ref_id, at=playing.moment)
    candidates = []
    for slip in (-0.3, 0.0, 0.3):
        ends = (playing.scrapes + slip) // length * length
        chosen = ends[-1:] if statistic is np.mean else ends
        # A window holds the readings from its beginning on, and not that of its end.
        of_windows = [statistic(playing.rows(gpu, column, end - length - 0.05, end - 0.05)) for end in chosen]
        candidates.append(float(statistic(of_windows)))
    assert np.abs(np.array(candidates) - shown).min() <= AGREE * max(shown, 1e-3), (shown, candidates)
