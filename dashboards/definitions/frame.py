"""What all dashboards share: their ids, their links to one another, the data source variable, and how they become a file."""

import json
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard, DashboardLink, DatasourceVariable, QueryVariable
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    VariableRefresh,
    VariableSort,
)

TITLES = {
    "epochcast-fleet": "Epochcast: fleet",
    "epochcast-gpu": "Epochcast: one GPU",
    "epochcast-job": "Epochcast: one job",
    "epochcast-agents": "Epochcast: agents and analyzers",
}
DATA_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
SCHEMA_VERSION = 39
"""The version that Grafana 11.0 writes; later releases upgrade it when they load it."""


def frame(uid: str, description: str, since: str) -> Dashboard:
    """Return an empty dashboard of the time ``since`` a moment (``now-6h``), with links to the others that keep its choices."""
    board = (
        Dashboard(TITLES[uid])
        .uid(uid)
        .description(description)
        .tags(["epochcast"])
        .editable()
        .time(since, "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(
            DatasourceVariable("datasource")
            .type("prometheus")
            .label("Data source")
            .description("The Prometheus (or VictoriaMetrics, Mimir) that scrapes agents and analyzers.")
        )
    )
    for other, title in TITLES.items():
        if other != uid:
            board.link(
                DashboardLink(title.removeprefix("Epochcast: "))
                .type(DashboardLinkType.LINK)
                .url(f"/d/{other}")
                .tooltip(title)
                .include_vars(True)
                .keep_time(True)
                .icon("dashboard")
            )
    return board


def variable(name: str, label: str, description: str, query: str, *, regex: str = "", several: bool = False) -> QueryVariable:
    """Return a variable that the data source fills; ``several``: more than one may be chosen, and all are to begin with."""
    built = (
        QueryVariable(name)
        .label(label)
        .description(description)
        .datasource(DATA_SOURCE)
        .query({"query": query, "refId": f"{name}-values"})
        .regex(regex)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(several)
        .include_all(several)
    )
    if several:
        built.all_value(".+").current({"text": ["All"], "value": ["$__all"]})  # type: ignore[arg-type]
    return built


def write(built: dict[str, Any], path: Path) -> None:
    """Write a dashboard such that the same dashboard gives the same bytes."""
    path.write_text(json.dumps(built, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def finished(board: Dashboard) -> dict[str, Any]:
    """Return the dashboard as JSON values, as Grafana exports one: what it needs, panels numbered, importable by hand."""
    built: dict[str, Any] = json.loads(JSONEncoder().encode(board.build()))
    kinds = sorted({panel["type"] for panel in built["panels"] if panel["type"] != "row"})
    for number, panel in enumerate(built["panels"], start=1):
        panel["id"] = number
    requires = [{"type": "grafana", "id": "grafana", "name": "Grafana", "version": "11.0.0"}]
    requires += [{"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"}]
    requires += [{"type": "panel", "id": kind, "name": kind, "version": ""} for kind in kinds]
    return {"__inputs": [], "__requires": requires, **built, "schemaVersion": SCHEMA_VERSION, "version": 1}
