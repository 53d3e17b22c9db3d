"""``epochcast prices update``: from a file or an address, what it shows, and that a failure loses nothing."""

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.jobs.prices import load_instances
from epochcast.analyzer.telemetry import endpoint
from epochcast.regressor import load_catalog

from .test_prices_command import VMS

Serve = Callable[[Callable[[Any], Any]], str]
HEADER = "cloud,instance,gpu,count,region,usd_per_hour,spot_usd_per_hour,source,date\n"
OURS = f"{HEADER}mine,box,T4,2,attic,0.05,,a bill,2026-11-01\nmine,rack,A10G,1,attic,0.5,0.2,a bill,2026-11-01\n"
NEWER = f"{HEADER}mine,box,T4,2,attic,0.06,,a bill,2026-11-20\nmine,cube,L4,1,attic,0.4,,a bill,2026-11-20\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "prices.csv"
    path.write_text(OURS + "aws,x,T4,1,r,0.5,,a page,2026-01-01\n")
    return path


def test_a_table_like_ours_takes_the_place_of_its_clouds(table: Path, tmp_path: Path, text: Callable[..., str]) -> None:
    (tmp_path / "newer.csv").write_text(NEWER)
    command = ("prices", "update", "--from", tmp_path / "newer.csv", "--out", table)
    assert text(*command) == f"{table}: 2 prices of mine, plus 1 of other clouds (1 added, 1 removed, 1 changed)\n"
    assert [one.name for one in load_instances(table, load_catalog())[0]] == ["x", "box", "cube"]
    assert "(0 added, 0 removed, 0 changed)" in text(*command)


def test_a_list_of_skypilot_comes_from_an_address_and_is_of_today(
    serve: Serve, tmp_path: Path, text: Callable[..., str]
) -> None:
    asked = []

    def reply(request: Any) -> str:
        asked.append((request.path, request.query))
        return VMS

    url = f"{serve(reply)}/catalogs/v9/aws/vms.csv?ref=main"
    out = tmp_path / "prices.csv"
    assert "2 prices of aws (2 added" in text("prices", "update", "--from", url, "--cloud", "aws", "--out", out)
    assert asked == [("/catalogs/v9/aws/vms.csv", {"ref": ["main"]})]
    for one in load_instances(out, load_catalog())[0]:
        assert (one.source, one.date) == (url, date.today())


def _without_end() -> Iterator[bytes]:
    while True:
        yield b"x" * 2**16


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ((404, "no such file"), "/vms.csv answers with status 404: no such file; no price was changed"),
        ((503, "busy"), "/vms.csv answers with status 503: busy; no price was changed"),
        ((302, "", {"Location": "http://127.0.0.1:1/"}), "does not answer: too many redirects; no price was changed"),
        ((200, "x" * 100, {"Content-Length": "1000"}), "/vms.csv ended early"),
        ((200, _without_end()), "answers with more than 100000 bytes; no price was changed"),
        ("<html><body>not a price</body></html>", "lacks the columns cloud, instance"),
        (HEADER, "has no row with a GPU of the catalogue"),
        ("", "is empty"),
    ],
)
def test_an_address_that_fails_is_one_sentence_and_changes_nothing(
    serve: Serve, table: Path, refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch, reply: Any, says: str
) -> None:
    monkeypatch.setattr(endpoint, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(endpoint, "MOST_BYTES", 100_000)
    before = table.read_bytes()
    assert says in refusal("prices", "update", "--from", f"{serve(lambda _: reply)}/vms.csv", "--out", table)
    assert table.read_bytes() == before
    assert [path.name for path in table.parent.iterdir()] == ["prices.csv"], "nothing half written is left"


@pytest.mark.parametrize("url", ["http://example.com/vms.csv", "ftp://127.0.0.1/vms.csv", "https://", "http://[::1/x"])
def test_only_https_leaves_this_machine(url: str, tmp_path: Path, refusal: Callable[..., str]) -> None:
    said = refusal("prices", "update", "--from", url, "--cloud", "aws", "--out", tmp_path / "prices.csv")
    assert "begins with https" in said or "a full address" in said


def test_what_a_table_like_ours_says_itself(tmp_path: Path, refusal: Callable[..., str]) -> None:
    (tmp_path / "newer.csv").write_text(NEWER)
    said = refusal("prices", "update", "--from", tmp_path / "newer.csv", "--out", tmp_path / "prices.csv", "--cloud", "mine")
    assert "--cloud and --date are for a list of SkyPilot; in " in said


def test_a_file_of_skypilot_needs_its_day(tmp_path: Path, refusal: Callable[..., str]) -> None:
    (tmp_path / "vms.csv").write_text(VMS)
    said = refusal("prices", "update", "--from", tmp_path / "vms.csv", "--cloud", "aws", "--out", tmp_path / "prices.csv")
    assert "does not say how old its prices are; give the day it was downloaded: --date YYYY-MM-DD" in said
