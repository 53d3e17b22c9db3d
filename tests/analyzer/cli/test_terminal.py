"""Text on a terminal is as wide as it; in a file or a pipe lines stay whole."""

import pytest

from epochcast.analyzer import tables
from epochcast.analyzer.cli import terminal

HEADER = ("instance", "cloud", "region", "time", "90 % interval", "USD")
ROW = ("g4dn.xlarge", "aws", "us-east-1", "6 s", "5.44 s to 6.62 s", "0.000877")


def _wide(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    for module in (tables, terminal):
        monkeypatch.setattr(module, "width", lambda _: columns)


def test_no_line_of_a_table_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in range(20, 80):
        _wide(monkeypatch, columns)
        assert max(map(len, tables.table(HEADER, [ROW]).splitlines())) <= columns


def test_columns_are_left_out_in_order_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _wide(monkeypatch, 50)
    assert tables.table(HEADER, [ROW]) == (
        "instance     time  90 % interval     USD\ng4dn.xlarge  6 s   5.44 s to 6.62 s  0.000877\n(no room for: cloud, region)"
    )


def test_what_has_no_room_goes_on_below_and_no_text_is_read_as_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    _wide(monkeypatch, 34)
    assert tables.table(("plan", "about"), [("[b]", "fourteen networks, five batch sizes"), ("one", "")]) == (
        "plan  about\n[b]   fourteen networks, five\n      batch sizes\none"
    )


def test_sentences_are_wrapped_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "the prices [old] are of 2024; write new ones to /a/path/prices.csv"
    terminal.note(sentence)
    assert capsys.readouterr().err == f"epochcast: {sentence}\n"
    _wide(monkeypatch, 30)
    terminal.note(sentence)
    lines = [line.rstrip() for line in capsys.readouterr().err.splitlines()]
    assert lines == ["epochcast: the prices [old]", "are of 2024; write new ones to", "/a/path/prices.csv"]
