"""``epochcast prices``: the list with its ages, and imports that make one table of several clouds."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.instances import load_instances
from epochcast.regressor import load_catalog

VMS = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,AvailabilityZone
g4dn.xlarge,T4,1,4,16,0.5,0.2,us-east-1,use1-az1
g4dn.xlarge,T4,1,4,16,0.6,0.3,eu-west-1,euw1-az1
g5g.xlarge,T4g,1,4,8,0.4,0.2,us-east-1,use1-az1
"""
LAMBDA = "InstanceType,AcceleratorName,AcceleratorCount,Price,Region\ngpu_1x_a10,A10,1,0.8,us-east-1\n"


def _import(folder: Path, text: str, cloud: str, *more: str) -> int:
    (folder / "vms.csv").write_text(text)
    arguments = [str(folder / "vms.csv"), "--cloud", cloud, "--date", "2026-05-01", "--out", str(folder / "prices.csv")]
    return main(["prices", "import", *arguments, *more])


def test_list_shows_prices_and_their_age(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "list", "--gpu", "g4dn"]) == 0
    out, err = capsys.readouterr()
    header, *rows = out.splitlines()
    assert header.split("  ")[0] == "instance" and header.endswith("days old")
    assert rows and all("T4" in row for row in rows)
    assert "prices are older than 90 days, the oldest of 20" in err and err.count("\n") == 1


def test_list_as_json_has_base_units_and_the_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    day = date.today() - timedelta(days=3)
    path = tmp_path / "prices.csv"
    header = "cloud,instance,gpu,count,region,usd_per_hour,memory_gib,source,date"
    path.write_text(f"{header}\nmine,box,T4,2,attic,0.05,16,my bill,{day}\n")
    assert main(["prices", "list", "--prices", str(path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == {
        "prices": [
            {
                "instance": "box",
                "cloud": "mine",
                "region": "attic",
                "gpu": "T4",
                "gpu_count": 2,
                "usd_per_hour": 0.05,
                "spot_usd_per_hour": None,
                "vcpus": None,
                "host_memory_bytes": 16 * 2**30,
                "price_source": "my bill",
                "price_date": day.isoformat(),
                "age_days": 3,
            }
        ]
    }


def test_a_gpu_that_nobody_rents_out_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "list", "--gpu", "TITAN Xp"]) == 1
    assert "no instance of the price table has the TITAN Xp" in capsys.readouterr().err


def test_imports_make_one_table_in_which_each_cloud_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _import(tmp_path, VMS, "aws") == 0
    out, err = capsys.readouterr()
    assert "2 prices of aws in 2 regions; T4" in out
    assert "T4g (1)" in err
    assert _import(tmp_path, LAMBDA, "lambda", "--source", "v9@2c3d7ea") == 0
    assert "1 price of lambda in us-east-1, beside 2 of other clouds; A10" in capsys.readouterr().out
    assert _import(tmp_path, VMS, "aws", "--region", "us-east-1", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["instances"], answer["regions"], answer["gpus"], answer["kept"]) == (1, ["us-east-1"], ["T4"], 1)
    instances, notes = load_instances(tmp_path / "prices.csv", load_catalog())
    assert not notes
    assert [(one.cloud, one.name, one.source) for one in instances] == [
        ("lambda", "gpu_1x_a10", "skypilot-org/skypilot-catalog:lambda/vms.csv (v9@2c3d7ea)"),
        ("aws", "g4dn.xlarge", "skypilot-org/skypilot-catalog:aws/vms.csv"),
    ]
    assert {one.date for one in instances} == {date(2026, 5, 1)}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--date", "May"], "--date is 'May'; write it as YYYY-MM-DD"),
        (["--date", str(date.today() + timedelta(days=2))], "after today"),
        (["--region", "mars-1"], "has no region 'mars-1'"),
    ],
)
def test_bad_imports_are_one_sentence_and_write_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], says: str
) -> None:
    assert _import(tmp_path, VMS, "aws", *more) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1
    assert not (tmp_path / "prices.csv").exists()


def test_an_import_never_loses_rows_of_gpus_that_are_not_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "prices.csv"
    table.write_text(
        "cloud,instance,gpu,count,region,usd_per_hour,source,date\n"
        "mine,one,T4,1,attic,1,my bill,2026-01-01\nmine,two,Voodoo 2,1,attic,1,my bill,2026-01-01\n"
    )
    before = table.read_bytes()
    assert _import(tmp_path, VMS, "aws") == 2
    err = capsys.readouterr().err
    assert "(Voodoo 2 (1)), and would lose them; name these GPUs by --gpus FILE" in err and err.count("\n") == 1
    assert table.read_bytes() == before


@pytest.mark.parametrize("cloud", [" ", "nocloud"])
def test_a_list_of_no_cloud_is_refused(cloud: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _import(tmp_path, VMS, cloud) == 2
    assert f"--cloud is {cloud.strip()!r}; name whose list it is" in capsys.readouterr().err


def test_a_list_given_where_a_table_belongs_is_refused_with_the_import(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vms.csv").write_text(VMS)
    assert main(["prices", "list", "--prices", str(tmp_path / "vms.csv")]) == 2
    assert "import it first: epochcast prices import" in capsys.readouterr().err
