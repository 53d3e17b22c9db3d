"""``epochcast prices update``: from a file or an address, what it shows, and that a failure loses nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.jobs.prices import load_instances, price_age
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


def test_a_table_like_ours_shows_what_it_changes_before_it_is_written(
    table: Path, tmp_path: Path, text: Callable[..., str], answer: Callable[..., Any]
) -> None:
    (tmp_path / "newer.csv").write_text(NEWER)
    before, command = table.read_bytes(), ("prices", "update", "--from", tmp_path / "newer.csv", "--out", table)
    shown = text(*command, "--dry-run")
    assert table.read_bytes() == before
    assert shown.splitlines() == [
        "added    cube (mine, attic, L4): $0.400",
        "removed  rack (mine, attic, A10G): $0.500, spot $0.200",
        "changed  box (mine, attic, 2 x T4): $0.050 -> $0.060",
        f"{table}: 2 prices of mine in attic, plus 1 of other clouds; L4, T4 (1 added, 1 removed, 1 changed, 0 unchanged); "
        "nothing was written (--dry-run)",
    ]
    found = answer(*command)
    assert (found["instances"], found["kept"], found["unchanged"], found["written"]) == (2, 1, 0, True)
    assert [one["instance"] for kind in ("added", "removed", "changed") for one in found[kind]] == ["cube", "rack", "box"]
    assert found["changed"][0]["usd_per_hour"] == 0.06 and found["changed"][0]["before"]["usd_per_hour"] == 0.05
    assert [one.name for one in load_instances(table, load_catalog())[0]] == ["x", "box", "cube"]
    again = answer(*command)
    assert (again["unchanged"], again["added"], again["removed"], again["changed"]) == (2, [], [], [])


def test_a_list_of_skypilot_comes_from_an_address_and_is_of_today(
    serve: Serve, tmp_path: Path, answer: Callable[..., Any]
) -> None:
    asked = []

    def reply(request: Any) -> str:
        asked.append((request.path, request.query))
        return VMS

    url = f"{serve(reply)}/catalogs/v9/aws/vms.csv?ref=main"
    out = tmp_path / "prices.csv"
    found = answer("prices", "update", "--from", url, "--cloud", "aws", "--out", out)
    assert asked == [("/catalogs/v9/aws/vms.csv", {"ref": ["main"]})]
    assert (found["instances"], found["regions"], len(found["added"])) == (2, ["eu-west-1", "us-east-1"], 2)
    for one in load_instances(out, load_catalog())[0]:
        assert (one.source, one.date) == (url, price_age.today())


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


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--cloud", "mine"], "--cloud is for a list of SkyPilot; in "),
        (["--date", "2026-11-01"], "each row has its own date"),
        (["--source", "x"], "each row has its own source"),
    ],
)
def test_what_a_table_like_ours_says_itself(tmp_path: Path, refusal: Callable[..., str], more: list[str], says: str) -> None:
    (tmp_path / "newer.csv").write_text(NEWER)
    assert says in refusal("prices", "update", "--from", tmp_path / "newer.csv", "--out", tmp_path / "prices.csv", *more)


def test_a_file_of_skypilot_needs_its_day(tmp_path: Path, refusal: Callable[..., str]) -> None:
    (tmp_path / "vms.csv").write_text(VMS)
    said = refusal("prices", "update", "--from", tmp_path / "vms.csv", "--cloud", "aws", "--out", tmp_path / "prices.csv")
    assert "does not say how old its prices are; give the day it was downloaded: --date YYYY-MM-DD" in said


def test_of_many_changes_the_first_are_shown(tmp_path: Path, text: Callable[..., str]) -> None:
    rows = "".join(f"mine,box{number},T4,1,attic,0.05,,a bill,2026-11-01\n" for number in range(30))
    (tmp_path / "many.csv").write_text(HEADER + rows)
    shown = text("prices", "update", "--from", tmp_path / "many.csv", "--out", tmp_path / "prices.csv")
    assert shown.count("added    box") == 20 and "added    10 more (--json lists all)" in shown
