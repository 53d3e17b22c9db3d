"""Epochs from telemetry: by the paper's recipe, and by the default detector on traces of real GPUs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.signal import find_peaks, savgol_filter


def test_epochs_come_from_repeated_passes_of_luminol_and_savitzky_golay(
    answer: Callable[..., Any], shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Section III-B word by word, with the package luminol itself."""
    monkeypatch.setattr(np, "asscalar", lambda value: value.item(), raising=False)  # which the package wants of an old NumPy
    detectors = pytest.importorskip("luminol.anomaly_detector")
    table = pd.read_csv(shared_data / "real_traces" / "titanx_2025-12-04-01-22-31_gpu0.csv.gz", comment="#")
    table = table[["time", "gpu_utilization"]].dropna()
    table.to_csv(tmp_path / "run.csv", index=False)
    values = table["gpu_utilization"].to_numpy()
    for _ in range(3):
        scores = detectors.AnomalyDetector(dict(enumerate(values)), score_only=True).get_all_scores()
        values = savgol_filter(np.array(list(scores.values)), len(values) // 40 | 1, 2)
    peaks = table["time"].to_numpy()[find_peaks(values)[0]]
    assert len(peaks) > 40
    for implementation in ("exact", "package"):
        found = answer("detect", tmp_path / "run.csv", "--method", "paper", "--luminol", implementation)
        assert found["period_s"] == pytest.approx(np.diff(peaks).mean())
        assert [epoch["start"] for epoch in found["epochs"]] == pytest.approx(peaks[:-1].tolist(), abs=1e-4)
        assert [epoch["end"] for epoch in found["epochs"]] == pytest.approx(peaks[1:].tolist(), abs=1e-4)


@pytest.mark.parametrize(
    ("name", "epochs"),
    [
        ("gtx970_1_keras_100_0", 12),
        ("gtx970_1_pytorch_100_1", 12),
        ("gtx970_4_keras_90_1", 12),
        ("titanx_2025-12-04-01-22-31_gpu0", None),  # cycles of bursts, of which the labels know the period
        ("h100_ckpt1_gpu3", None),
        ("h100_dcgm/h100_dcgm_t3_gpu0", 52),
    ],
)
def test_the_epochs_of_a_real_gpu_are_found(
    answer: Callable[..., Any], shared_data: Path, name: str, epochs: int | None
) -> None:
    trace = shared_data / "real_traces" / f"{name}.csv.gz"
    true = json.loads(trace.with_name(trace.name.replace(".csv.gz", ".json")).read_text())
    period_s = float(np.median(np.diff(true["epoch_starts"])))
    found = answer("detect", trace)
    assert found["verdict"] == "epochs" and found["confidence"] > 0.8
    assert found["period_s"] == pytest.approx(period_s, rel=0.05)
    if epochs is not None:
        assert len(found["epochs"]) == epochs
    if name.startswith("gtx970"):  # idle before and after is no epoch
        assert found["epochs"][0]["start"] == pytest.approx(true["epoch_starts"][0], abs=0.05 * period_s)
        assert found["epochs"][-1]["end"] == pytest.approx(true["epoch_ends"][-1], abs=0.05 * period_s)
