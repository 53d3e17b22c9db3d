"""Text on a terminal is as wide as it; in a file or a pipe lines stay whole."""

import pytest

from epochcast.analyzer import tables
from epochcast.analyzer.cli import terminal

HEADER = ("instance", "cloud", "region", "time", "90 % interval", "USD")
ROW = ("g4dn.xlarge", "aws", "us-east-1", "6 s", "5.44 s to 6.62 s", "0.000877")


def _wide(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    for module in (tables, terminal):
        monkeypatch.setattr(module, "width", lambda _: columns)


def test_a_table_that_fits_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = tables.table(HEADER, [ROW])
    assert piped.splitlines()[0] == "instance     cloud  region     time  90 % interval     USD"
    _wide(monkeypatch, 120)
    assert tables.table(HEADER, [ROW]) == piped


def test_no_line_of_a_table_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in range(20, 80):
        _wide(monkeypatch, columns)
        assert max(map(len, tables.table(HEADER, [ROW]).splitlines())) <= columns


def test_columns_are_left_out_in_order_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _wide(monkeypatch, 40)
    assert tables.table(HEADER, [ROW]) == (
        "instance     time  USD\ng4dn.xlarge  6 s   0.000877\n(no room for: cloud, region, 90 %\ninterval)"
    )


def test_prose_is_wrapped_in_its_column(monkeypatch: pytest.MonkeyPatch) -> None:
    _wide(monkeypatch, 34)
    assert tables.table(("plan", "about"), [("grid", "fourteen networks, five batch sizes"), ("one", "")], prose=True) == (
        "plan  about\ngrid  fourteen networks, five\n      batch sizes\none"
    )


def test_sentences_are_wrapped_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "the prices are old; write new ones to /a/path/that/is-copied/and-must-stay/whole/prices.csv"
    terminal.note(sentence)
    assert capsys.readouterr().err == f"epochcast: {sentence}\n"
    _wide(monkeypatch, 30)
    terminal.note(sentence)
    assert capsys.readouterr().err == (
        "epochcast: the prices are old;\n  write new ones to\n  /a/path/that/is-copied/and-must-stay/whole/prices.csv\n"
    )
    terminal.say('{"a": "text that is longer than the terminal"}', as_is=True)
    terminal.say("  a list's line goes on, farther in")
    assert capsys.readouterr().out == (
        '{"a": "text that is longer than the terminal"}\n  a list\'s line goes on,\n    farther in\n'
    )


def test_no_line_ends_between_a_number_and_its_unit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _wide(monkeypatch, 21)
    terminal.say("the epoch may take 12 % more, or 40 s less")
    assert capsys.readouterr().out == "the epoch may take\n  12 % more, or 40 s\n  less\n"
