"""From a trace to a profile: what the detector found, how sure it is, and GPUs that only the trace knows."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.detected_profile import LEAST_CONFIDENCE, profile_of_detection, widened
from epochcast.analyzer.jobs.sources import device_of, profile_of, source_of
from epochcast.analyzer.traces.static_gpu import gpu_of
from epochcast.analyzer.traces.trace import Trace
from epochcast.detector import Detection
from epochcast.regressor import Catalog, Profile
from epochcast.regressor import InputError as RegressorInputError
from lab.simulator import SimulatedTrace, simulate, simulate_class

STATIC = {
    "compute_capability": {"value": "8.9", "source": "nvml"},
    "sm_count": {"value": 58, "source": "cuda"},
    "cuda_cores": {"value": 7424, "source": "nvml"},
    "boost_clock": {"value": 2.04e9, "source": "nvml"},
    "memory_total": {"value": 24152899584, "source": "nvml"},
    "memory_bandwidth": {"value": 3.0e11, "source": "table"},
    "power_limit": {"value": 72.0, "source": "nvml"},
}


def _trace(made: SimulatedTrace) -> Trace:
    return Trace(pd.DataFrame({"time": made.time, **made.metrics}), gpu=made.gpu, source="replay", simulated=True)


@pytest.fixture(scope="module")
def paper(catalog: Catalog) -> tuple[SimulatedTrace, Profile, Detection]:
    """A job as the paper draws one, its profile, and what the detector found in it."""
    made = simulate_class("paper", 77)
    return made, *profile_of(_trace(made), catalog)


def _epoch(low: float | None = None, high: float | None = None) -> Profile:
    return Profile("T4", 10.0, "epoch", 5, {}, "none", True, epoch_s_low=low, epoch_s_high=high)


def test_true_epochs_lie_in_the_interval(catalog: Catalog, paper: tuple[SimulatedTrace, Profile, Detection]) -> None:
    inside = []
    others = [simulate_class(cls, 77) for cls in ("validation", "slow_first")]
    for made, profile, found in (paper, *((made, *profile_of(_trace(made), catalog)) for made in others)):
        if found.verdict == "epochs":
            assert profile.epoch_s_low is not None and profile.epoch_s_high is not None
            assert profile.first_epoch_excluded and profile.first_epoch_s == found.epochs[0].end - found.epochs[0].start
            inside.append(profile.epoch_s_low <= np.median(np.diff(made.epoch_starts)) <= profile.epoch_s_high)
    assert inside == [True] * 3


def test_a_stall_of_the_trace_is_found_and_left_out(catalog: Catalog) -> None:
    made = simulate(seed=3, epochs=14, epoch_s=12.0)
    at = made.epoch_starts[7] + 6.0
    later = np.where(made.time > at, made.time + 15.0, made.time)
    frame = pd.DataFrame({"time": later, **made.metrics})
    # What a stalled job shows: nothing on the GPU, read as often as ever.
    pause = pd.DataFrame({"time": np.arange(at + 0.1, at + 15.0, 0.1)}).assign(**dict.fromkeys(made.metrics, 0.0))
    pause = pause.assign(power=27.0, sm_clock=1.59e9, memory_clock=5e9, temperature=50.0)[frame.columns]
    whole = pd.concat([frame, pause]).sort_values("time", ignore_index=True)
    profile, found = profile_of(Trace(whole, gpu="Tesla T4", simulated=True), catalog)
    assert found.verdict == "epochs"
    assert profile.stalls == 1 and profile.stall_s == pytest.approx(15.0, abs=1.5)
    assert profile.epoch_s == pytest.approx(np.median(np.diff(made.epoch_starts)), rel=0.02)


def test_steps_have_seconds_but_no_epochs(catalog: Catalog) -> None:
    profile, found = profile_of(_trace(simulate_class("llm_steps", 3)), catalog)
    assert found.verdict == "steps"
    assert (profile.unit, profile.epoch_s, profile.first_epoch_s) == ("cycle", found.step_s, None)
    assert profile.epoch_s_low is not None and profile.epoch_s is not None and profile.epoch_s_low < profile.epoch_s


def test_without_epochs_the_profile_spans_the_work_and_none_of_the_rest_around_it() -> None:
    utilization = np.repeat([0.0, 0.9, 0.0], [50, 200, 50])
    profile = profile_of_detection("T4", np.arange(300.0), {"gpu_utilization": utilization}, None, simulated=True)
    assert profile.metrics["gpu_utilization"]["min"] == profile.metrics["gpu_utilization"]["max"] == pytest.approx(0.9)


@given(st.floats(0.6, 1.0), st.floats(1e-4, 0.5))
def test_less_sure_is_never_narrower(confidence: float, half: float) -> None:
    profile = _epoch(10 * math.exp(-half), 10 * math.exp(half))
    one, other = widened(profile, confidence), widened(profile, max(confidence - 0.05, 0.0))
    assert one.epoch_s_high is not None and other.epoch_s_high is not None and profile.epoch_s_high is not None
    assert profile.epoch_s_high * (1 - 1e-9) <= one.epoch_s_high <= other.epoch_s_high * (1 + 1e-9)


def test_a_certain_detector_adds_nothing_and_an_unsure_one_a_factor() -> None:
    profile = _epoch(9.9, 10.1)
    certain, unsure = widened(profile, 1.0), widened(profile, 0.7)
    assert (certain.epoch_s_low, certain.epoch_s_high) == pytest.approx((9.9, 10.1))
    # 30 % wrong by about a factor of two: a sixth of those on either side make the 5 %.
    assert unsure.epoch_s_high == pytest.approx(10 * 2**0.967, rel=0.01)
    assert widened(_epoch(), 1.0).epoch_s_high == pytest.approx(10 * math.exp(0.05))
    nothing = replace(_epoch(), epoch_s=None, unit=None)
    assert widened(nothing, 0.1) == nothing


def test_a_gpu_that_only_the_trace_knows(catalog: Catalog) -> None:
    gpu = gpu_of("NVIDIA Unheard-of 5", STATIC, catalog)
    assert (gpu.name, gpu.sm_count, gpu.tdp, gpu.memory) == ("NVIDIA Unheard-of 5", 58, 72.0, 24152899584)
    assert gpu.unverified == ("tdp",) and gpu.compute_capability == 8.9
    assert gpu_of("Tesla T4", STATIC, catalog) is catalog["T4"]
    seen = Trace(pd.DataFrame({"time": [0.0, 1.0]}), gpu=gpu.name, static=STATIC)
    assert device_of(seen, catalog, gpu.name) == device_of(seen, catalog) == gpu
    with pytest.raises(InputError, match="recorded on NVIDIA Unheard-of 5, but the GPU that is given is T4"):
        device_of(seen, catalog, "T4")
    for name in ("NVIDIA GeForce RTX 4080 Laptop GPU", "V100"):  # a part of one, and any of several, are the user's to name
        assert device_of(replace(seen, gpu=name), catalog, "RTX 3090") is catalog["RTX 3090"]


def test_a_gpu_that_neither_knows(catalog: Catalog) -> None:
    few = {name: STATIC[name] for name in ("compute_capability", "cuda_cores")} | {"sm_count": {"value": "many"}}
    with pytest.raises(InputError, match="lack sm_count, boost_clock, memory_total, memory_bandwidth, power_limit; describe"):
        gpu_of("NVIDIA Unheard-of 5", few, catalog)
    with pytest.raises(RegressorInputError, match="unknown GPU"):
        gpu_of("NVIDIA Unheard-of 5", {}, catalog)
    with pytest.raises(RegressorInputError, match="ambiguous"):
        gpu_of("V100", STATIC, catalog)
    for name, value, says in (("memory_total", 1e20, "memory is 1"), ("sm_count", 2, "an SM has")):  # that no GPU has
        with pytest.raises(RegressorInputError, match=f"'NVIDIA Unheard-of 5' by the trace's static attributes: .*{says}"):
            gpu_of("NVIDIA Unheard-of 5", {**STATIC, name: value}, catalog)


def test_epochs_that_are_too_unsure_give_no_seconds(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, paper: tuple[SimulatedTrace, Profile, Detection]
) -> None:
    made, sure, found = paper
    trace = _trace(made)
    monkeypatch.setattr(
        "epochcast.analyzer.jobs.detected_profile.detect",
        lambda time, metrics: replace(found, confidence=LEAST_CONFIDENCE - 0.01),
    )
    unsure, _ = profile_of(trace, catalog)
    assert sure.epoch_s is not None and (unsure.epoch_s, unsure.unit, unsure.epoch_s_low) == (None, None, None)
    assert unsure.metrics == sure.metrics and unsure.epochs == sure.epochs
    monkeypatch.setattr(
        "epochcast.analyzer.jobs.detected_profile.detect", lambda time, metrics: replace(found, confidence=LEAST_CONFIDENCE)
    )
    assert profile_of(trace, catalog)[0].epoch_s == sure.epoch_s


def test_a_prediction_without_epochs_notes_why(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, paper: tuple[SimulatedTrace, Profile, Detection]
) -> None:
    silent = Detection("none", None, None, (), 0.4, "track", "wall", reason="no_cycle")
    monkeypatch.setattr("epochcast.analyzer.jobs.detected_profile.detect", lambda time, metrics: silent)
    assert source_of(_trace(paper[0]), "run", catalog).notes == ("no epochs found: no cycle stands out.",)


def test_waiting_before_and_after_a_job_is_no_part_of_its_profile(catalog: Catalog) -> None:
    drawn = simulate_class("serving", 3)
    five_minutes = {name: values[:3000] for name, values in drawn.metrics.items()}
    made = replace(drawn, time=drawn.time[:3000], metrics=five_minutes)
    alone, found = profile_of(_trace(made), catalog)
    assert found.verdict == "none"
    idle = 600
    time = np.concatenate(
        [made.time[0] - 0.1 * np.arange(idle, 0, -1), made.time, made.time[-1] + 0.1 * np.arange(1, idle + 1)]
    )
    still = {
        name: np.full(idle, 0.0 if name in ("gr_engine_active", "gpu_utilization") else values[0])
        for name, values in made.metrics.items()
    }
    metrics = {name: np.concatenate([still[name], values, still[name]]) for name, values in made.metrics.items()}
    padded = Trace(pd.DataFrame({"time": time, **metrics}), gpu=made.gpu, source="replay", simulated=True)
    after, found = profile_of(padded, catalog)
    assert found.verdict == "none"
    for name in ("gr_engine_active", "gpu_utilization"):
        assert after.metrics[name]["mean"] == pytest.approx(alone.metrics[name]["mean"], rel=0.01)
