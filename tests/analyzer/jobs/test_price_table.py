"""Price files: what is read, what is refused in one sentence, and that what is written reads back equal."""

import math
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices import STALE_DAYS, Instance, load_instances, stale_note, write_instances
from epochcast.regressor import load_catalog

from ...price_day import PRICE_DAY

CATALOG = load_catalog()
HEADER = "cloud,instance,gpu,count,region,usd_per_hour,source,date\n"
SPOT_HEADER = "cloud,instance,gpu,count,region,usd_per_hour,spot_usd_per_hour,vcpus,memory_gib,source,date\n"


def test_every_shipped_row_names_a_known_gpu_a_source_and_a_past_date() -> None:
    instances, notes = load_instances(None, CATALOG)
    assert not notes
    assert 30 <= len(instances) <= 60
    assert all(one.source.count("@") == 1 for one in instances), "repository:path@commit"
    assert all(one.date <= date.today() for one in instances)
    paper = {"T4", "A10G", "A10", "V100 SXM2 16GB", "P100 PCIe 16GB", "A100 SXM4 40GB", "K80", "M60"}
    assert paper <= {one.gpu for one in instances}
    assert sum(one.spot_usd_per_hour is not None for one in instances) >= 20


def test_the_users_file_replaces_ours_and_unknown_gpus_are_skipped_counted_and_named(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    others = "".join(f"mine,pod{number},TPU v5e,1,attic,1,my bill,2026-11-01\n" for number in range(500))
    path.write_text(
        f"{HEADER}mine,box,T4,1,attic,0.05,my bill,2026-11-01\n{others}mine,one,A100,1,attic,1,my bill,2026-11-01\n"
    )
    instances, notes = load_instances(path, CATALOG)
    assert [one.name for one in instances] == ["box"]
    (note,) = notes
    assert note.startswith("501 rows of ") and "TPU v5e (500), A100 (1)" in note and "--gpus FILE" in note


def test_spot_host_and_either_price_alone(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(
        f"{SPOT_HEADER}aws,a,T4,1,r,0.5,0.2,4,16,page,2026-01-01\n"
        "aws,b,g4dn,1,r,,0.2,,,page,2026-01-01\n"
        "aws,c,T4,1,r,0.5,,1.5,0.5,page,2026-01-01\n"
    )
    (a, b, c), notes = load_instances(path, CATALOG)
    assert not notes
    assert (a.usd_per_hour, a.spot_usd_per_hour, a.vcpus, a.memory) == (0.5, 0.2, 4, 16 * 2**30)
    assert (b.gpu, b.usd_per_hour, b.spot_usd_per_hour, b.vcpus, b.memory) == ("T4", None, 0.2, None, None)
    assert (c.price("on-demand"), c.price("spot"), c.vcpus, c.memory) == (0.5, None, 1.5, 2**29)


def test_one_instance_may_take_several_gpus_but_not_twice_the_same(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    row = "gcp,n1-standard-8,T4,1,us-central1,0.7,page,2026-01-01\n"
    path.write_text(HEADER + row + row.replace("T4", "P4"))
    assert len(load_instances(path, CATALOG)[0]) == 2
    path.write_text(HEADER + row + row.replace("T4", "P4") + row.replace("T4", "g4dn"))
    with pytest.raises(
        InputError, match=r"rows 1 and 3 of .* are both n1-standard-8 of gcp in us-central1 with 1 T4; keep one"
    ):
        load_instances(path, CATALOG)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n", "lacks the columns cloud, instance, gpu"),
        (HEADER.replace("usd_per_hour,", ""), "lacks the columns usd_per_hour; it needs cloud"),
        (HEADER + "aws,x,T4,1,r,0,page,2026-01-01\n", "row 1 of {path}: usd_per_hour is '0'; give 1e-06 or more"),
        (HEADER + "aws,x,T4,1,r,€2,page,2026-01-01\n", "usd_per_hour is '€2'; give a number"),
        (HEADER + "aws,x,T4,1,r,2 EUR,page,2026-01-01\n", "'2 EUR'"),
        (HEADER + "aws,x,T4,1,r,1_5,page,2026-01-01\n", "usd_per_hour is '1_5': write a plain number"),
        (HEADER + "aws,x,,1,r,1,page,2026-01-01\n", "row 1 of {path} has no gpu; name its GPU"),
        (HEADER + "aws,x,T4,1,r,1,page,1751328000\n", "date is '1751328000': write it as YYYY-MM-DD"),
        (
            HEADER + "aws,x\x1b[2K,T4,1,r,1,page,2026-01-01\n",
            "instance of row 1 of '{path}' has a line break or",
        ),
        (HEADER + "aws,x,T4,1,r,,page,2026-01-01\n", "row 1 of {path} has no price; fill in usd_per_hour or spot_usd_per_hour"),
        (SPOT_HEADER + "aws,x,T4,1,r,1,-1,,,page,2026-01-01\n", "spot_usd_per_hour is '-1'"),
        (SPOT_HEADER + "aws,x,T4,1,r,1,,four,,page,2026-01-01\n", "vcpus is 'four'; give a number"),
        (SPOT_HEADER + "aws,x,T4,1,r,1,,,0,page,2026-01-01\n", "memory in bytes is 0; give 1048576 or more"),
        (HEADER + "aws,x,T4,none,r,1,page,2026-01-01\n", "count is 'none'; give a whole number"),
        (HEADER + "aws,x,T4,0.5,r,1,page,2026-01-01\n", "count is '0.5'; give a whole number"),
        (HEADER + "aws,x,T4,1,r,1,page,2026-01-01,more\n", "more cells than its header"),
        (HEADER + "aws,x,T4,1,r,1,page\n", "row 1 of {path}: date is missing; give it"),
        (HEADER + "aws,x,T4,1,r,1, ,2026-01-01\n", "row 1 of {path}: source is missing; give it"),
        (HEADER + "aws,x,T4,1,,1,page,2026-01-01\n", "row 1 of {path}: region is missing; give it"),
        (HEADER + "aws,x,T4,1,r,1,page,last week\n", "date is 'last week': write it as YYYY-MM-DD"),
        (HEADER + f"aws,x,T4,1,r,1,page,{date.today() + timedelta(days=9)}\n", "after today"),
        (HEADER + "aws,x,TPU,1,r,1,page,2026-01-01\n", "has no row with a GPU of the catalogue: 1 row of {path} is skipped"),
        (HEADER, "has no row with a GPU of the catalogue"),
        ("InstanceType,AcceleratorName,Price\n", "price list of SkyPilot, which has its own format"),
        ("", "is empty"),
    ],
)
def test_bad_price_files_are_refused_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_instances(path, CATALOG)
    assert says.format(path=path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_price_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such price file"):
        load_instances(tmp_path / "none.csv", CATALOG)


@pytest.mark.parametrize("suffix", ["gz", "zip", "xz", "tar", "zst"])
def test_an_archive_is_no_price_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"prices.csv.{suffix}"
    path.write_bytes(b"\x1f\x8b\x08\x00\xff")
    with pytest.raises(InputError, match="is not a readable CSV file"):
        load_instances(path, CATALOG)


def test_a_byte_order_mark_of_a_spreadsheet_is_no_part_of_the_header(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(HEADER + "aws,x,T4,1,r,1,page,2026-01-01\n", encoding="utf-8-sig")
    assert len(load_instances(path, CATALOG)[0]) == 1


def test_prices_older_than_a_year_are_stale_and_a_sentence_says_so() -> None:
    def priced(day: date) -> Instance:
        return Instance("aws", "x", "T4", 1, "r", 1.0, "page", day)

    fresh, old, older = (priced(PRICE_DAY - timedelta(days=days)) for days in (STALE_DAYS, STALE_DAYS + 1, 1000))
    assert [one.is_stale for one in (fresh, old, older)] == [False, True, True]
    assert stale_note([fresh]) == stale_note([]) == []
    (sentence,) = stale_note([old, fresh, older])
    assert sentence.startswith("2 of 3 prices are older than a year (the oldest of 2024-03-01), and ranked after all newer")
    assert "epochcast prices update" in sentence
    assert "and none is newer" in stale_note([old])[0]


_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12)
_PRICES = st.floats(1e-6, 1e5)
_INSTANCES = st.builds(
    Instance,
    cloud=_TEXTS,
    name=_TEXTS,
    gpu=st.sampled_from(sorted(CATALOG)),
    count=st.integers(1, 99_999),
    region=_TEXTS,
    usd_per_hour=_PRICES,
    source=_TEXTS,
    date=st.dates(date(2000, 1, 1), date(2026, 1, 1)),
    spot_usd_per_hour=st.none() | _PRICES,
    vcpus=st.none() | st.floats(0.1, 9e4),
    memory=st.none() | st.floats(1, 1e5).map(lambda gib: gib * 2**30),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(_INSTANCES, min_size=1, max_size=6, unique_by=lambda one: (one.cloud, one.name, one.region, one.gpu, one.count))
)
def test_written_tables_read_back_equal(tmp_path: Path, instances: list[Instance]) -> None:
    path = write_instances(tmp_path / "prices.csv", instances)
    assert load_instances(path, CATALOG)[0] == instances


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats() | st.integers().map(float))
def test_no_price_that_is_a_typing_error_is_ever_read(tmp_path: Path, usd: float) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(f"{HEADER}aws,x,T4,1,r,{usd!r},page,2026-01-01\n")
    try:
        (one,), _ = load_instances(path, CATALOG)
    except InputError:
        assert math.isnan(usd) or not 1e-6 <= usd < 1e6
    else:
        assert one.usd_per_hour == usd and 1e-6 <= usd < 1e6
