"""Measured operators: read as they were written, and refusals of one sentence."""

from pathlib import Path

import pandas as pd
import pytest

from epochcast.analyzer.backends.distributed.operator_time.table import CORPUS_COLUMNS, read_corpus
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.distributed import neusight

CATALOG = load_catalog()
ROW = ("A CPU of no catalogue", "aten.mm.default", "forward", "linear", 1, 4, 8, 6, 384.0, 416.0, "float32", 1e-3)


def written(folder: Path, **changes: object) -> Path:
    file = folder / "own.csv"
    pd.DataFrame([dict(zip(CORPUS_COLUMNS, ROW, strict=True)) | changes]).to_csv(file, index=False)
    return file


def test_a_gpu_has_its_name_of_the_catalogue_and_any_other_device_its_own(tmp_path: Path) -> None:
    assert tuple(read_corpus(written(tmp_path), CATALOG).iloc[0]) == ROW
    assert read_corpus(written(tmp_path, gpu="Tesla T4"), CATALOG)["gpu"].tolist() == ["T4"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seconds": 0}, "'seconds' of .*own.csv' holds 0 in data row 1; give a number from 1e-09 to 3600"),
        ({"seconds": 1e6}, "'seconds' of .*own.csv' holds 1000000.0 in data row 1; give a number from 1e-09 to 3600"),
        ({"k": 0}, "'k' of .*own.csv' holds 0 in data row 1; give a number of 1 or more"),
        ({"bytes": "many"}, "'bytes' of .*own.csv'"),
        ({"dtype": ""}, "'dtype' of .*own.csv' is empty"),
    ],
)
def test_what_is_no_measurement_is_refused_in_one_sentence(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_corpus(written(tmp_path, gpu="T4", **changes), CATALOG)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("OPName,Latency,Device,B,M,N,K\nbmm,0,Tesla T4,8,64,32,16\n", "measurement 1 has 0 seconds"),
        ("OPName,Latency,Device,B,H\nfft,1,Tesla T4,8,64\n", "unknown operator 'fft'"),
        ("a,b\n1,2\n", "lacks the column 'gpu'; a table of operators has gpu, op"),
        ("", "file.csv"),
    ],
)
def test_another_file_is_refused_by_product_and_lab(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "file.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        neusight.read_corpus(file, CATALOG)
