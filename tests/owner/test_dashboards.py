"""The whole product in real processes: what was replayed is what the service, Prometheus and the dashboards' queries tell.

`chain.py` shows which processes; it takes most of the time.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from .chain import chain, make_chain
from .panels import EMPTY, GPU, RATE_S, Panels, Playing

__all__ = ["chain", "make_chain"]

AGREE = 0.01
DETECTORS = 'epochcast_gpu_detector_state{node="node-a"}'


def test_service_prometheus_and_dashboards_tell_what_was_replayed(chain: Any, root: Path) -> None:
    _epochs_and_jobs(chain)
    _predictions(chain)
    panels, playing = _panels(chain, root), Playing(chain)
    _queries(panels, playing)
    _measured(chain, panels, playing)


def _epochs_and_jobs(chain: Any) -> None:
    """Every epoch of eight GPUs is found once, with its profile; GPUs that train together are one job."""
    for gpu in chain.gpus:
        chain.assert_epochs(gpu)
        chain.assert_profiles(gpu)
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


def _predictions(chain: Any) -> None:
    """They and the recommendation are the same over HTTP and in Prometheus."""
    job = chain.jobs()["four"]["id"]

    def agree() -> bool:
        answer = chain.service.json(f"/api/v1/jobs/{job}/recommendation")
        predicted = {row["gpu"]: row for row in answer["predictions"]}
        assert len(predicted) > 20
        for metric, key in (("predicted_ratio", "ratio"), ("predicted_low_ratio", "ratio_low")):
            rows = chain.query(f'epochcast_job_{metric}{{training_job="{job}"}}')
            exported = {row["metric"]["target_gpu"]: float(row["value"][1]) for row in rows}
            if len(exported) != 7:
                return False
            if any(value != pytest.approx(predicted[gpu][key], rel=1e-6) for gpu, value in exported.items()):
                return False
        return True

    chain.wait(agree)
    answer = chain.service.json(f"/api/v1/jobs/{job}/recommendation")["recommendation"]
    current, best = answer["current"], answer["verdict"]["best"]
    # What the node's configuration says is rented; where it should run may be another.
    assert (current["instance"]["name"], current["instances"], answer["on"]["assumed"]) == ("g4dn.8xlarge", 4, False)
    assert best["gpus"] == best["instance"]["count"] * best["instances"]
    (row,) = chain.query(f'epochcast_job_recommended_instance_info{{training_job="{job}",objective="cost"}}')
    names = [row["metric"][name] for name in ("instance_type", "cloud", "target_gpu", "instances")]
    assert names == [*(best["instance"][name] for name in ("name", "cloud", "gpu")), str(best["instances"])]
    (row,) = chain.query(f'epochcast_job_savings_ratio{{training_job="{job}",objective="cost"}}')
    assert float(row["value"][1]) == pytest.approx(answer["savings"]["cost_ratio"], abs=1e-9)
    assert answer["savings"]["cost_ratio"] >= 0


def _panels(chain: Any, root: Path) -> Panels:
    chain.wait(lambda: len(chain.query("epochcast_gpu_epoch_seconds")) == len(chain.gpus))
    chain.wait(lambda: len(chain.query('epochcast_job_savings_ratio{objective="cost"}')) == len(chain.jobs()) == 4)
    # Prometheus has scraped what the service tells since its last round.
    settled = [job["epochs_seen"] for job in chain.jobs().values()]
    chain.wait(lambda: sorted(float(row["value"][1]) for row in chain.query("epochcast_job_epochs_total")) == sorted(settled))
    return Panels(chain, root / "dashboards" / "grafana")


def _queries(panels: Panels, playing: Playing) -> None:
    """None is refused, and each has data while the jobs run or at their end, but for what they have none of."""
    empty = {key for key in panels.queries if not _some(panels, key, None) and not _some(panels, key, playing.moment)}
    assert empty <= EMPTY


def _some(panels: Panels, key: tuple[str, str, str], moment: float | None) -> bool:
    expression = panels.queries[key]
    labels = " ".join(dict.fromkeys(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", expression)))))
    return bool(panels.ask(key[0].removeprefix("epochcast-"), *key[1:], by=labels, at=moment))


def _measured(chain: Any, panels: Panels, playing: Playing) -> None:
    """What agents measured comes back by the panels' queries."""
    (gpu,) = (gpu for gpu in chain.gpus if gpu.uuid == GPU)
    activity = ("sm_active", "sm_occupancy", "tensor_active", "fp32_active", "fp16_active", "dram_active")
    # rate() is per second of the wall, of which there are fewer than of the recording.
    faster = (playing.scrapes[-1] - playing.scrapes[0]) / RATE_S
    assert faster == pytest.approx(chain.speed, rel=0.2)
    for panel, columns in (
        ("Activity on the chip", activity),
        ("Utilisation as the driver reports it", ("gpu_utilization", "memory_utilization")),
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
