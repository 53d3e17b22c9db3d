"""Epochs, profiles, jobs and predictions of eight replayed GPUs, against the truth and across all that tells of them."""

from typing import Any

import numpy as np
import pytest

AGREE = 0.01


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
    assert best["gpu_count"] * best["instances"] >= 4
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
