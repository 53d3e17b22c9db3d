"""The dashboards' files: what Grafana needs of them, and that they are what the definitions give."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KINDS = {"stat", "timeseries", "table", "bargauge", "barchart", "state-timeline"}


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def test_the_files_are_what_the_definitions_give(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="the extra dev is not installed")
    done = subprocess.run(
        [sys.executable, str(root / "dashboards" / "definitions"), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    committed = {path.name: path.read_text() for path in (root / "dashboards" / "grafana").iterdir()}
    given = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert given == committed, "run: python dashboards/definitions"


def test_grafana_11_can_import_them(boards: dict[str, Any]) -> None:
    assert set(boards) == {"epochcast-fleet", "epochcast-gpu", "epochcast-job", "epochcast-agents"}
    for board in boards.values():
        assert board["schemaVersion"] >= 39
        assert "id" not in board or board["id"] is None
        assert board["__inputs"] == []  # nothing to fill in: the data source is a variable
        needs = {(one["type"], one["id"]): one["version"] for one in board["__requires"]}
        assert needs["grafana", "grafana"] == "11.0.0"
        kinds = {panel["type"] for panel in panels(board)}
        assert kinds <= KINDS
        assert kinds == {name for kind, name in needs if kind == "panel"}
        assert board["tags"] == ["epochcast"]


def test_panels_fill_the_grid_without_overlap(boards: dict[str, Any]) -> None:
    for board in boards.values():
        taken: dict[tuple[int, int], str] = {}
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        for panel in board["panels"]:
            at = panel["gridPos"]
            assert at["x"] + at["w"] <= 24, panel["title"]
            for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
                assert taken.setdefault(cell, panel["title"]) == panel["title"], (taken[cell], panel["title"])


def test_variables_are_declared_and_used(boards: dict[str, Any]) -> None:
    names = {
        "epochcast-fleet": {"datasource", "node"},
        "epochcast-gpu": {"datasource", "node", "gpu"},
        "epochcast-job": {"datasource", "training_job"},
        "epochcast-agents": {"datasource", "instance"},
    }
    for uid, board in boards.items():
        variables = board["templating"]["list"]
        assert {variable["name"] for variable in variables} == names[uid]
        assert variables[0]["type"] == "datasource"
        assert all(variable["description"] for variable in variables)
        text = str(panels(board)) + str(variables)
        assert all(f"${name}" in text or f"${{{name}}}" in text for name in names[uid])
        used = set(re.findall(r"\$(\w+)", " ".join(target["expr"] for panel in panels(board) for target in panel["targets"])))
        assert used <= names[uid] | {"__rate_interval"}


def test_links_lead_to_dashboards_that_are_there_with_variables_that_they_have(boards: dict[str, Any]) -> None:
    crossings = set()
    for uid, board in boards.items():
        others = {link["url"] for link in board["links"]}
        assert others == {f"/d/{other}" for other in boards if other != uid}
        assert all(link["includeVars"] and link["keepTime"] for link in board["links"])
        for target, query in re.findall(r"'url': '/d/([\w-]+)\?([^']+)'", str(board["panels"])):
            variables = {variable["name"] for variable in boards[target]["templating"]["list"]}
            assert set(re.findall(r"var-(\w+)=", query)) <= variables, query
            assert "var-datasource=${datasource}" in query
            assert "${__url_time_range}" in query
            crossings.add((uid, target))
    assert crossings >= {
        ("epochcast-fleet", "epochcast-gpu"),
        ("epochcast-fleet", "epochcast-job"),
        ("epochcast-job", "epochcast-gpu"),
        ("epochcast-gpu", "epochcast-job"),
    }


def test_links_in_tables_take_columns_that_the_table_has(boards: dict[str, Any]) -> None:
    seen = 0
    for board in boards.values():
        for panel in panels(board):
            grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", str(panel["targets"])))))
            for column in re.findall(r"__data\.fields\.(\w+)", str(panel["fieldConfig"])):
                assert column in grouped, (panel["title"], column)
                renamed = [t["options"]["renameByName"] for t in panel["transformations"] if t["id"] == "organize"]
                assert column not in renamed[0], f"{panel['title']} renames {column}, which a link takes by its name"
                seen += 1
    assert seen >= 4
