"""``epochcast prices``: the list with its ages, and imports that make one table of several clouds."""

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.jobs.prices import load_instances
from epochcast.regressor import load_catalog

VMS = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,AvailabilityZone
g4dn.xlarge,T4,1,4,16,0.5,0.2,us-east-1,use1-az1
g4dn.xlarge,T4,1,4,16,0.6,0.3,eu-west-1,euw1-az1
g5g.xlarge,T4g,1,4,8,0.4,0.2,us-east-1,use1-az1
"""
LAMBDA = "InstanceType,AcceleratorName,AcceleratorCount,Price,Region\ngpu_1x_a10,A10,1,0.8,us-east-1\n"


def _import(folder: Path, content: str, cloud: str, *more: str) -> list[str]:
    """The command that imports a list with this content."""
    (folder / "vms.csv").write_text(content)
    arguments = [
        "--from",
        str(folder / "vms.csv"),
        "--cloud",
        cloud,
        "--date",
        "2026-05-01",
        "--out",
        str(folder / "prices.csv"),
    ]
    return ["prices", "update", *arguments, *more]


def test_list_shows_prices_and_their_age(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "list", "--gpu", "g4dn"]) == 0
    out, err = capsys.readouterr()
    header, *rows = out.splitlines()
    assert header.split("  ")[0] == "instance" and header.endswith("priced")
    assert rows and all("T4" in row for row in rows)
    stale = [row for row in rows if row.endswith(", stale")]
    assert 0 < len(stale) < len(rows), "of the shipped table an Azure price is"
    assert (
        f"{len(stale)} of {len(rows)} prices" in err and "older than a year (the oldest of 20" in err and err.count("\n") == 1
    )


def test_list_as_json_has_instances_as_answers_do(tmp_path: Path, answer: Callable[..., Any]) -> None:
    header = "cloud,instance,gpu,count,region,usd_per_hour,memory_gib,source,date"
    (tmp_path / "prices.csv").write_text(f"{header}\nmine,box,T4,2,attic,0.05,16,my bill,2026-11-01\n")
    (row,) = answer("prices", "list", "--prices", tmp_path / "prices.csv")["prices"]
    assert (row["name"], row["count"], row["date"], row["memory"]) == ("box", 2, "2026-11-01", 16 * 2**30)


def test_a_gpu_that_nobody_rents_out_is_no_answer(text: Callable[..., str]) -> None:
    assert "no instance of the price table has the TITAN Xp" in text("prices", "list", "--gpu", "TITAN Xp", status=1)


def test_imports_make_one_table_in_which_each_cloud_is_replaced(tmp_path: Path, text: Callable[..., str]) -> None:
    printed = text(*_import(tmp_path, VMS, "aws"))
    assert "2 prices of aws (2 added, 0 removed, 0 changed)" in printed and "T4g (1)" in printed
    printed = text(*_import(tmp_path, LAMBDA, "lambda"))
    assert "1 price of lambda, plus 2 of other clouds (1 added" in printed
    dearer = VMS[: VMS.index("\n", VMS.index("us-east-1")) + 1].replace("0.5", "0.55")
    assert "1 price of aws, plus 1 of other clouds (0 added, 1 removed, 1 changed)" in text(*_import(tmp_path, dearer, "aws"))
    instances, notes = load_instances(tmp_path / "prices.csv", load_catalog())
    assert not notes
    assert [(one.cloud, one.name, one.source) for one in instances] == [
        ("lambda", "gpu_1x_a10", "skypilot-org/skypilot-catalog:lambda/vms.csv"),
        ("aws", "g4dn.xlarge", "skypilot-org/skypilot-catalog:aws/vms.csv"),
    ]
    assert {one.date for one in instances} == {date(2026, 5, 1)}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--date", "May"], "'May' does not match"),
        (["--date", str(date.today() + timedelta(days=2))], "after today"),
    ],
)
def test_bad_imports_are_one_sentence_and_write_nothing(
    tmp_path: Path, refusal: Callable[..., str], more: list[str], says: str
) -> None:
    assert says in refusal(*_import(tmp_path, VMS, "aws", *more))
    assert not (tmp_path / "prices.csv").exists()


def test_an_import_never_loses_rows_of_gpus_that_are_not_known(tmp_path: Path, refusal: Callable[..., str]) -> None:
    table = tmp_path / "prices.csv"
    table.write_text(
        "cloud,instance,gpu,count,region,usd_per_hour,source,date\n"
        "mine,one,T4,1,attic,1,my bill,2026-01-01\nmine,two,Voodoo 2,1,attic,1,my bill,2026-01-01\n"
    )
    before = table.read_bytes()
    said = refusal(*_import(tmp_path, VMS, "aws"))
    assert "(Voodoo 2 (1)), and would lose them; name these GPUs by --gpus FILE" in said
    assert table.read_bytes() == before


def test_a_list_of_no_cloud_is_refused(tmp_path: Path, refusal: Callable[..., str]) -> None:
    assert "--cloud is 'nocloud'; name whose list it is" in refusal(*_import(tmp_path, VMS, "nocloud"))


def test_a_list_given_where_a_table_belongs_is_refused_with_the_import(tmp_path: Path, refusal: Callable[..., str]) -> None:
    (tmp_path / "vms.csv").write_text(VMS)
    said = refusal("prices", "list", "--prices", tmp_path / "vms.csv")
    assert "make a price table from it first: epochcast prices update" in said
