from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.regressor import Catalog, InputError, Profile, load_corpus
from epochcast.regressor.pairs import make_pairs


@pytest.fixture
def table() -> pd.DataFrame:
    """A table of the public file's shape, made up: two workloads on two GPUs, three repeats each."""
    rows = [
        {
            "exp_name": f"exp0{repeat}",
            "instance_name": instance,
            "dataset": "32dataset",
            "model": "Net",
            "optimizer": "SGD",
            "batchsize": batch,
            "epoch_latency": seconds * (1.0, 1.1, 9.0)[repeat],
            "batch_latency": seconds / 100,
        }
        for repeat in range(3)
        for instance, seconds in (("g3s.xlarge", 8.0), ("p3.2xlarge", 2.0))
        for batch in (16, 32)
    ]
    return pd.DataFrame(rows)


def test_repeats_become_one_profile_at_their_median(tmp_path: Path, table: pd.DataFrame, catalog: Catalog) -> None:
    table.to_csv(tmp_path / "latencies.csv.gz", index=False)
    profiles = load_corpus(tmp_path / "latencies.csv.gz")
    assert [(profile.gpu, profile.workload) for profile in profiles] == [
        ("M60", "Net|SGD|32dataset|16"),
        ("M60", "Net|SGD|32dataset|32"),
        ("V100 SXM2 16GB", "Net|SGD|32dataset|16"),
        ("V100 SXM2 16GB", "Net|SGD|32dataset|32"),
    ]
    first = profiles[0]
    assert first.epoch_s == pytest.approx(8.8) and first.step_s == pytest.approx(0.08) and first.epochs == 3
    assert not first.metrics and first.feature_set == "none" and first.group == "Net" and first.first_epoch_excluded
    assert len(make_pairs(profiles, catalog)) == 4


def test_another_instance_is_a_gpu_of_its_name(tmp_path: Path, table: pd.DataFrame) -> None:
    table.replace("g3s.xlarge", "L4").to_csv(tmp_path / "own.csv", index=False)
    assert {profile.gpu for profile in load_corpus(tmp_path / "own.csv")} == {"L4", "V100 SXM2 16GB"}


def test_bad_files(tmp_path: Path, table: pd.DataFrame) -> None:
    table.drop(columns=["dataset", "batch_latency"]).to_csv(tmp_path / "short.csv")
    with pytest.raises(InputError, match=r"short\.csv lacks dataset, batch_latency; a table of PROFET"):
        load_corpus(tmp_path / "short.csv")
    table.iloc[:0].to_csv(tmp_path / "empty.csv")
    with pytest.raises(InputError, match="has no rows"):
        load_corpus(tmp_path / "empty.csv")
    for column, value, message in (("batch_latency", 0.0, "is 0.0; it must be above 0"), ("instance_name", None, "is empty")):
        wrong = table.copy()
        wrong.loc[1, column] = value
        wrong.to_csv(tmp_path / "wrong.csv")
        with pytest.raises(InputError, match=f"row 3: {column} {message}"):
            load_corpus(tmp_path / "wrong.csv")
    pd.DataFrame({"time": [0.0], "power": [1.0]}).to_csv(tmp_path / "trace.csv")
    with pytest.raises(InputError, match=r"a known corpus: cloud_hw_trainpred .* profet .* cross_gpu"):
        load_corpus(tmp_path / "trace.csv")


def test_public_file(profet_profiles: list[Profile]) -> None:
    assert len(profet_profiles) == 1304
    assert {profile.epochs for profile in profet_profiles} == {9}
    assert {profile.gpu for profile in profet_profiles} == {"M60", "T4", "K80", "V100 SXM2 16GB"}
    on = pd.Series([profile.workload for profile in profet_profiles]).value_counts()
    assert on.value_counts().to_dict() == {4: 307, 3: 18, 2: 11}
    # An epoch is its steps and a validation: had the two columns other units, their ratio would not count batches.
    steps = np.array([profile.epoch_s / profile.step_s for profile in profet_profiles if profile.epoch_s and profile.step_s])
    assert steps.min() > 6 and steps.max() < 4500
