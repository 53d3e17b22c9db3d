"""From a trace to other GPUs: the paper's stack, and the default prediction and recommendation."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epochcast.regressor.profile_json import profile_json
from lab.corpora import load_corpus


def test_the_paper_s_stack_is_fitted_with_catboost_and_asked(
    answer: Callable[..., Any], shared_data: Path, tmp_path: Path
) -> None:
    """Section III-C at the libraries' own sizes, on public jobs that were measured on both GPUs."""
    pytest.importorskip("catboost")
    by_workload: dict[str, dict[str, Any]] = {}
    for profile in load_corpus(shared_data / "black_box" / "cloud_hw_trainpred.csv"):
        if profile.group in ("MNIST_CNN", "LeNet5") and profile.gpu in ("P100 PCIe 16GB", "A10G"):
            few = replace(profile, metrics={"gpu_utilization": profile.metrics["gpu_utilization"]})  # more take longer
            by_workload.setdefault(str(profile.workload), {})[profile.gpu] = profile_json(few)
    both = {name: jobs for name, jobs in by_workload.items() if len(jobs) == 2}
    (tmp_path / "data").mkdir()
    for number, jobs in enumerate(both.values()):
        for gpu, job in jobs.items():
            (tmp_path / "data" / f"{number}-{gpu}.json").write_text(json.dumps(job))
    fitted = answer("fit", "regressor", "--pipeline", "paper", "--data", tmp_path / "data", "--out", tmp_path / "model")
    assert fitted["rows"] == 2 * len(both) == 68
    assert fitted["metrics"] == ["gpu_utilization"]
    with np.load(tmp_path / "model" / "arrays.npz") as arrays:
        assert {name.split(".")[1] for name in arrays} == {"forest", "booster", "meta"}  # CatBoost's trees are among them
    errors = []
    for number, jobs in list(enumerate(both.values()))[::12]:
        asked = tmp_path / "data" / f"{number}-P100 PCIe 16GB.json"
        result = answer("predict", asked, "--pipeline", "paper", "--model", tmp_path / "model")
        assert result["pipeline"] == "paper"
        predicted = {one["gpu"]: one for one in result["predictions"]}
        routes = {gpu: predicted[gpu]["route"] for gpu in ("P100 PCIe 16GB", "A10G", "L4")}
        assert routes == {"P100 PCIe 16GB": "measured", "A10G": "stack", "L4": "new-gpu"}
        assert all(one["low"] <= one["seconds"] <= one["high"] for one in predicted.values())
        errors.append(abs(predicted["A10G"]["seconds"] / jobs["A10G"]["epoch_s"] - 1))
    assert np.median(errors) < 0.3, errors  # of jobs that it was fitted on


def test_a_real_trace_gives_a_prediction_and_a_recommendation_by_command_and_by_http(
    answer: Callable[..., Any], service: Any, post: Any, until: Any, shared_data: Path, tmp_path: Path
) -> None:
    """An H100 under DCGM at 10 Hz: optimiser steps of 5.77 s."""
    with gzip.open(shared_data / "real_traces" / "h100_dcgm" / "h100_dcgm_t3_gpu0.csv.gz", "rt") as file:
        note = file.readline()
        table = pd.read_csv(file)[:1800]  # three minutes: more take longer to search
    columns = ["time", "power", "gpu_utilization", "memory_used", "sm_active", "tensor_active", "nvlink_tx"]
    trace = tmp_path / "run.csv"
    trace.write_text(note + table[columns].to_csv(index=False))
    prediction, recommendation = answer("predict", trace), answer("recommend", trace)
    running = service()
    until(lambda: running.answers("/healthz"))
    for path, result in (("predictions", prediction), ("recommendations", recommendation)):
        sent = post(f"{running.url}/api/v1/traces/{path}", trace.read_bytes(), "text/csv")
        for document in (sent, result):
            del document["gpus"][0]["name"]  # a path, and "the trace"
        assert sent == result

    epoch_s = prediction["gpus"][0]["profile"]["epoch_s"]
    assert epoch_s == pytest.approx(5.77, rel=0.02)
    by_gpu = {one["gpu"]: one for one in prediction["predictions"]}
    assert (by_gpu["H100 SXM5"]["ratio"], by_gpu["H100 SXM5"]["route"]) == (1, "measured")
    assert 1.3 < by_gpu["A100 SXM4 80GB"]["ratio"] < 3.3  # by the data sheets, memories are 1.6 times as fast, tensor cores 3.2
    assert all(one["seconds"] == pytest.approx(one["ratio"] * epoch_s) for one in by_gpu.values())
    where = recommendation["recommendation"]
    ranked = where["placements"]
    assert len(ranked) > 5
    seconds = [row["seconds"]["value"] for row in ranked]
    of_log = {one["gpu"]: one["job"]["seconds"]["value"] for one in recommendation["predictions"]}
    assert recommendation["epochs"] > 20 and seconds == pytest.approx([of_log[row["instance"]["gpu"]] for row in ranked])
    usd = [row["usd_per_hour"] * one / 3600 for row, one in zip(ranked, seconds, strict=True)]
    assert [row["usd"]["value"] for row in ranked] == pytest.approx(usd)
    assert where["memory"]["bytes"] > 60 * 2**30 and "T4" not in {row["instance"]["gpu"] for row in ranked}


def test_the_paper_s_pipeline_goes_from_a_recorded_trace_to_a_recommendation(
    answer: Callable[..., Any], service: Any, post: Any, until: Any
) -> None:
    """An H200 that the agent recorded; epochs by the passes, the shipped stack, by command, HTTP and service."""
    trace = Path(__file__).parents[2] / "data" / "h200" / "agent" / "trainings.parquet"
    prediction, recommendation = (answer(each, trace, "--pipeline", "paper") for each in ("predict", "recommend"))
    assert prediction["pipeline"] == recommendation["pipeline"] == "paper"
    (gpu,) = prediction["gpus"]
    assert gpu["profile"]["epoch_s"] == pytest.approx(gpu["detection"]["period_s"])
    assert {one["route"] for one in prediction["predictions"]} == {"measured", "new-gpu"}
    assert recommendation["recommendation"]["verdict"]["text"].startswith(
        "Cannot tell yet"
    )  # trees say nothing of a GPU beyond theirs
    assert any("76 % off" in note for note in recommendation["notes"])
    running = service(f'pipeline = "paper"\n[[files]]\npath = "{trace}"\n')
    until(lambda: running.answers("/healthz"))
    parquet = "application/vnd.apache.parquet"
    for asked, expected in (("", recommendation), ("?pipeline=default", answer("recommend", trace))):
        sent = post(f"{running.url}/api/v1/traces/recommendations{asked}", trace.read_bytes(), parquet)
        assert sent["recommendation"] == expected["recommendation"]
    until(lambda: any(job["epoch_s"] for job in running.json("/api/v1/jobs")["jobs"]))
    (job,) = running.json("/api/v1/jobs")["jobs"]
    ranked = running.json(f"/api/v1/jobs/{job['id']}/recommendation")
    assert (ranked["pipeline"], ranked["gpus"][0]["profile"]["unit"]) == ("paper", "epoch")
    assert ranked["recommendation"]["placements"]
