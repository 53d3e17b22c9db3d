"""A disk that is full in the middle leaves no tables of two runs."""

import resource
from pathlib import Path

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.tables import SCHEMAS, writing
from epochcast.analyzer.jobs.advisor import Advisor

from .made_findings import fleet


def test_tables_are_those_of_one_run(tmp_path: Path, advisor: Advisor) -> None:
    def write_tables(nodes: int, out: Path) -> None:
        with writing(out, advisor) as tables:
            for one in fleet(nodes):
                tables.add_finding(one)
            tables.finish(out)

    write_tables(12, tmp_path)
    sizes = {name: (tmp_path / f"{name}.parquet").stat().st_size for name in SCHEMAS}
    write_tables(1, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sizes["gpus"] < sizes["spans"]
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (sizes["spans"] - 1, usual[1]))  # there is room for one of them, not for the next
    try:
        with pytest.raises(InputError, match="cannot write the tables into"):
            write_tables(12, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
