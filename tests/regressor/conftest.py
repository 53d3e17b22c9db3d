"""Profiles to test with: made up by a known law, and the public ones where they are at hand."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config

from epochcast.regressor import Catalog, LatencyPredictor, Profile, load_catalog
from epochcast.regressor.pairs import Pair, make_pairs
from epochcast.regressor.recipes import DefaultRecipe
from lab.corpora import load_corpus
from lab.rivals.latency.prior import prior_log_ratio


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="session")
def shipped() -> LatencyPredictor:
    return LatencyPredictor.load()


@pytest.fixture(scope="session")
def public_profiles(shared_data: Path) -> list[Profile]:
    return load_corpus(shared_data / "black_box" / "cloud_hw_trainpred.csv")


@pytest.fixture(scope="session")
def rates(shared_data: Path) -> list[Profile]:
    """Rates of equal work on 28 GPUs."""
    return load_corpus(shared_data / "cross_gpu" / "rates.csv.gz")


def statistics(mean: float, spread: float = 0.0, top: float = np.inf) -> dict[str, float]:
    low, high = max(mean - spread, 0.0), min(mean + spread, top)
    return {"mean": mean, "std": spread / 2, "min": low, "p25": mean, "p50": mean, "p75": mean, "max": high}


@pytest.fixture(scope="session")
def make_profile() -> Callable[..., Profile]:
    def make(gpu: str = "T4", busy: float = 0.8, epoch_s: float | None = 10.0, **changes: object) -> Profile:
        values: dict[str, object] = {
            "gpu": gpu,
            "epoch_s": epoch_s,
            "unit": None if epoch_s is None else "epoch",
            "epochs": 0 if epoch_s is None else 5,
            "metrics": {
                "gpu_utilization": statistics(busy, 0.1, 1.0),
                "memory_utilization": statistics(busy / 2, 0.1, 1.0),
                "power": statistics(60.0, 5.0),
                "sm_clock": statistics(1.5e9, 1e7),
            },
            "feature_set": "nvml",
            "first_epoch_excluded": True,
        }
        return Profile(**(values | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def make_up(catalog: Catalog, make_profile: Callable[..., Profile]) -> Callable[..., list[Profile]]:
    """Workloads of 4 models on 3 GPUs whose ratio is the prior's, times a constant per GPU and 2 % noise."""

    def make(workloads: int, seed: int) -> list[Profile]:
        rng = np.random.default_rng(seed)
        profiles = []
        for number in range(workloads):
            busy, seconds = rng.uniform(0.3, 0.95), float(np.exp(rng.uniform(0, 4)))
            source = make_profile("T4", busy)
            for gpu, factor in {"T4": 1.0, "A10G": 1.15, "V100 SXM2 16GB": 0.9}.items():
                ratio = np.exp(prior_log_ratio([Pair(source, catalog["T4"], catalog[gpu])])[0]) * factor
                profiles.append(
                    make_profile(
                        gpu,
                        busy * rng.uniform(0.95, 1.0),
                        seconds * float(ratio * np.exp(rng.normal(0, 0.02))),
                        workload=f"{seed}.{number}",
                        group=f"m{number % 4}",
                    )
                )
        return profiles

    return make


@pytest.fixture(scope="session")
def made_up_profiles(make_up: Callable[..., list[Profile]]) -> list[Profile]:
    return make_up(24, seed=0)


@pytest.fixture(scope="session")
def pairs(made_up_profiles: list[Profile], catalog: Catalog) -> list[Pair]:
    return make_pairs(made_up_profiles, catalog)


@pytest.fixture(scope="session")
def predictor(made_up_profiles: list[Profile], catalog: Catalog) -> LatencyPredictor:
    """Fitted on the made-up profiles, with few trees."""
    return LatencyPredictor.fit(made_up_profiles, catalog, DefaultRecipe(iterations=20))


@pytest.fixture
def in_threads() -> Iterator[None]:
    """The paper's stack would start a process per core."""
    with parallel_config("threading"):
        yield
