import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from epochcast.regressor import Catalog, InputError, Profile
from epochcast.regressor.pairs import make_pairs
from epochcast.regressor.profile import METRICS
from epochcast.regressor.profile_json import profile_json, read_profiles
from lab.corpora import load_corpus
from lab.corpora.cloud_hw_trainpred import _METRICS, _STATISTICS


@pytest.fixture
def table() -> pd.DataFrame:
    """A table of the public file's shape, made up, two workloads on two GPUs."""
    row: dict[str, object] = {"Instances": "g4dn", "model": "Net", "batchsize": 16, "datasize": 32}
    row |= {"one_epoch_average_second": 12.5}
    for stem, _ in _METRICS.values():
        row |= {f"{stem}_{name}": 50.0 for name in _STATISTICS.values()}
    return pd.DataFrame([row | {"Instances": gpu, "batchsize": batch} for gpu in ("g4dn", "p3") for batch in (16, 32)])


def test_units_become_base_units_and_names_ours(tmp_path: Path, table: pd.DataFrame) -> None:
    table.to_csv(tmp_path / "data.csv")
    profiles = load_corpus(tmp_path / "data.csv")
    first = profiles[0]
    assert [profile.gpu for profile in profiles] == ["T4", "T4", "V100 SXM2 16GB", "V100 SXM2 16GB"]
    assert first.epoch_s == 12.5 and first.workload == "Net|16|32" and first.group == "Net"
    assert not first.first_epoch_excluded and first.feature_set == "nvml"
    assert first.metrics["gpu_utilization"]["mean"] == 0.5
    assert first.metrics["sm_clock"]["p75"] == 50e6
    assert first.metrics["memory_used"]["max"] == 50 * 2**20
    assert set(first.metrics) <= METRICS


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("power_drawW_mean", "[N/A]", r"row 3: power_drawW_mean is '\[N/A\]'"),
        ("utilization_gpu_max", float("inf"), "row 3: utilization_gpu_max is .*inf"),
        ("utilization_gpu_max", 120.0, "'gpu_utilization' ranges"),
        ("one_epoch_average_second", 0.0, "row 3: one_epoch_average_second is .*0"),
        ("model", None, "row 3: model is nan; fill it"),
    ],
)
def test_bad_value(tmp_path: Path, table: pd.DataFrame, column: str, value: object, message: str) -> None:
    table[column] = table[column].astype(object)
    table.loc[1, column] = value
    table.to_csv(tmp_path / "data.csv")
    with pytest.raises(InputError, match=message):
        load_corpus(tmp_path / "data.csv")


def test_bad_files(tmp_path: Path, table: pd.DataFrame) -> None:
    table.drop(columns=["utilization_gpu_mean", "model"]).to_csv(tmp_path / "short.csv")
    with pytest.raises(InputError, match=r"lacks 2 columns \(model, utilization_gpu_mean"):
        load_corpus(tmp_path / "short.csv")
    table.iloc[:0].to_csv(tmp_path / "empty.csv")
    with pytest.raises(InputError, match="has no rows"):
        load_corpus(tmp_path / "empty.csv")
    (tmp_path / "blank.csv").write_text("")
    with pytest.raises(InputError, match="cannot read"):
        load_corpus(tmp_path / "blank.csv")
    packed = gzip.compress(table.to_csv().encode())
    damaged = packed[:60] + bytes(8) + packed[68:]
    for name, content in (("cut.csv.gz", packed[: len(packed) // 2]), ("damaged.csv.gz", damaged)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="cannot read"):
            load_corpus(tmp_path / name)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="cannot read"):
        load_corpus(tmp_path / "binary.csv")


def test_own_profiles_as_file_folder_and_lines(tmp_path: Path, make_profile: Callable[..., Profile]) -> None:
    profiles = [make_profile("T4", workload="a"), make_profile("A10G", workload="a")]
    for number, profile in enumerate(profiles):
        (tmp_path / f"{number}.json").write_text(json.dumps(profile_json(profile)))
    lines = tmp_path / "all.jsonl"
    lines.write_text("\n\n".join(json.dumps(profile_json(profile)) for profile in profiles))
    assert read_profiles(tmp_path) == read_profiles(lines) == profiles
    assert read_profiles(tmp_path / "0.json") == profiles[:1]


RATES = """source,group,precision,gpu,batch,rate,unit,work,power_mean
gavel,cnn,single,K80,,0.5,iterations/s,a,
gavel,cnn,single,P100 PCIe 16GB,,1.5,iterations/s,a,
lambda,bert,mixed,A40,32,20,items/s,b,250
zeus,bert,single,A40,32,0.001,epochs/s,c,
"""


def test_rates_of_equal_work(tmp_path: Path) -> None:
    (tmp_path / "rates.csv").write_text(RATES)
    k80, _, a40, epochs = load_corpus(tmp_path / "rates.csv")
    assert (k80.epoch_s, k80.unit, k80.workload, k80.group, k80.origin) == (2.0, "step", "a", "cnn", "gavel")
    assert (k80.precision, k80.batch, k80.metrics, k80.feature_set) == ("fp32", None, {}, "none")
    assert (a40.precision, a40.batch, a40.unit, a40.epoch_s) == ("mixed", 32, "cycle", 0.05)
    assert a40.metrics["power"]["mean"] == a40.metrics["power"]["p75"] == 250 and a40.metrics["power"]["std"] == 0
    assert (epochs.precision, epochs.unit) == ("tf32", "epoch")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("rate", "rates"), "is not a CSV of a known corpus|lacks 1 columns .rate"),
        (("0.5", "-1"), "row 2: rate is .*-1.*; give a finite number above 0"),
        (("mixed", "int8"), "row 4: precision is 'int8'"),
        (("bert,mixed", ",mixed"), "row 4: group is nan; fill it"),
    ],
)
def test_bad_rates(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    (tmp_path / "rates.csv").write_text(RATES.replace(*change))
    with pytest.raises(InputError, match=message):
        load_corpus(tmp_path / "rates.csv")


def test_public_rates_make_the_pairs_that_their_readme_says(rates: list[Profile], catalog: Catalog) -> None:
    assert len(rates) == 1384 and len(make_pairs(rates, catalog)) == 7012


def test_bad_own_profiles(tmp_path: Path, make_profile: Callable[..., Profile]) -> None:
    with pytest.raises(InputError, match=r"holds no profile: a folder holds \*\.json"):
        read_profiles(tmp_path)
    (tmp_path / "table.csv").write_text("work,rate\na,1\n")
    for name in ("none.json", "table.csv"):
        with pytest.raises(InputError, match=rf"no training data at .*{name}'; give profiles \(\*\.json, \*\.jsonl\)"):
            read_profiles(tmp_path / name)
    for text in ("{", "[" * 100_000):  # nested too deep
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(InputError, match=r"a\.json is not a profile"):
            read_profiles(tmp_path)
    (tmp_path / "a.jsonl").write_text(json.dumps(profile_json(make_profile())) + "\n{}")
    with pytest.raises(InputError, match=r"line 2 of .* is not a profile: the profile's schema is None"):
        read_profiles(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_text("\n")
    with pytest.raises(InputError, match="holds no profile"):
        read_profiles(tmp_path / "b.jsonl")


def test_seconds_of_steps_and_of_epochs_make_no_pair(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    runs = [make_profile("T4", workload="w"), make_profile("A10G", workload="w", unit="step")]
    with pytest.raises(InputError, match="workload 'w' has seconds per epoch and per step"):
        make_pairs(runs, catalog)
