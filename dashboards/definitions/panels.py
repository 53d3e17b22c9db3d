"""The kinds of panel that the dashboards are made of: each has a title, a description, a unit and queries; a row is 24 wide."""

from typing import Any, NamedTuple

from frame import DATA_SOURCE
from grafana_foundation_sdk.builders import barchart, bargauge, common, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders.dashboard import DashboardLink, Row, ThresholdsConfig
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    LineInterpolation,
    SortOrder,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)

GREEN, YELLOW, RED, BLUE, GREY = "green", "yellow", "red", "blue", "text"
Steps = list[tuple[float | None, str]]
PLAIN: Steps = [(None, GREEN)]


class Column(NamedTuple):
    """A column of a table: its field, what it is called, its unit, what a click on it opens, and words for its values."""

    field: str
    title: str
    unit: str = "short"
    link: str = ""
    decimals: int | None = None
    words: dict[str, tuple[str, str]] | None = None


def row(title: str) -> Row:
    """Return the heading of the panels that follow."""
    return Row(title)


def thresholds(steps: Steps) -> ThresholdsConfig:
    """Return colours from a value on."""
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps([Threshold(value, colour) for value, colour in steps])


def words(texts: dict[str, tuple[str, str]]) -> list[Any]:
    """Return what values are called and how they are coloured: value -> (word, colour)."""
    results = {
        value: ValueMappingResult(text=text, color=colour, index=place)
        for place, (value, (text, colour)) in enumerate(texts.items())
    }
    return [ValueMap(options=results)]


def number(
    title: str,
    description: str,
    unit: str,
    query: str,
    *,
    width: int = 4,
    steps: Steps = PLAIN,
    mappings: list[Any] | None = None,
    label: str = "",
    url: str = "",
    decimals: int | None = None,
) -> stat.Panel:
    """Return one current figure. With ``label`` that label's text is shown instead; ``url`` is what a click opens."""
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(unit)
        .span(width)
        .height(4)
        .thresholds(thresholds(steps))
        .graph_mode(BigValueGraphMode.NONE)
        .color_mode(BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .no_value("none")
        .with_target(
            prometheus.Dataquery().expr(query).instant().ref_id("A").legend_format(f"{{{{{label}}}}}" if label else "__auto")
        )
    )
    if mappings is not None:
        panel.mappings(mappings)
    if label:
        panel.text_mode(BigValueTextMode.NAME)
    if decimals is not None:
        panel.decimals(decimals)
    if url:
        panel.data_links([DashboardLink(title).url(url)])
    return panel


def over_time(
    title: str,
    description: str,
    unit: str,
    queries: dict[str, str],
    *,
    width: int = 12,
    height: int = 8,
    steps: Steps = PLAIN,
    least: float | None = None,
    most: float | None = None,
    stairs: bool = False,
) -> timeseries.Panel:
    """Return lines over time: legend -> query. ``stairs``: values hold until the next; ``least``, ``most``: the axis's ends."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(unit)
        .span(width)
        .height(height)
        .thresholds(thresholds(steps))
        .line_width(1)
        .fill_opacity(8)
        .show_points(VisibilityMode.NEVER)
        .line_interpolation(LineInterpolation.STEP_AFTER if stairs else LineInterpolation.LINEAR)
        .legend(
            common.VizLegendOptions()
            .display_mode(LegendDisplayMode.TABLE)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "mean"])
        )
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    if steps is not PLAIN:
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    if least is not None:
        panel.min(least)
    if most is not None:
        panel.max(most)
    for ref_id, (legend, query) in zip("ABCDEFGH", queries.items(), strict=False):
        panel.with_target(prometheus.Dataquery().expr(query).range().ref_id(ref_id).legend_format(legend))
    return panel


def states(
    title: str, description: str, query: str, legend: str, mappings: list[Any], *, width: int = 12
) -> statetimeline.Panel:
    """Return how something was over time, in words."""
    return (
        statetimeline.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit("short")
        .span(12)
        .height(8)
        .thresholds(thresholds(PLAIN))
        .mappings(mappings)
        .show_value(VisibilityMode.AUTO)
        .merge_values(True)
        .row_height(0.85)
        .legend(
            common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM).show_legend(True)
        )
        .with_target(prometheus.Dataquery().expr(query).range().ref_id("A").legend_format(legend))
    )


def bars(
    title: str, description: str, unit: str, query: str, legend: str, *, width: int = 12, steps: Steps = PLAIN
) -> bargauge.Panel:
    """Return a horizontal bar for each series of now."""
    return (
        bargauge.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(unit)
        .span(width)
        .height(8)
        .min(0)
        .thresholds(thresholds(steps))
        .orientation(VizOrientation.HORIZONTAL)
        .display_mode(BarGaugeDisplayMode.BASIC)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .with_target(prometheus.Dataquery().expr(query).instant().ref_id("A").legend_format(legend))
    )


def intervals(title: str, description: str, unit: str, queries: dict[str, str], x: str, *, width: int = 12) -> barchart.Panel:
    """Return a group of bars for each value of label ``x``, sorted by ``predicted``; a bar for each query: name -> query."""
    panel = (
        barchart.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(unit)
        .span(width)
        .height(10)
        .min(0)
        .thresholds(thresholds(PLAIN))
        .x_field(x)
        .x_tick_label_rotation(-45)
        .orientation(VizOrientation.AUTO)
        .show_value(VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM).show_legend(True)
        )
    )
    _columns_of(panel, queries, [Column(x, x), *(Column(name, name, unit) for name in queries)])
    for name in queries:
        colour = {"mode": "fixed", "fixedColor": BLUE if name == "predicted" else "light-blue"}
        panel.override_by_name(name, [DynamicConfigValue(id_val="color", value=colour)])
    panel.with_transformation(DataTransformerConfig(id_val="sortBy", options={"sort": [{"field": "predicted", "desc": False}]}))
    return panel


def rows(
    title: str,
    description: str,
    queries: dict[str, str],
    columns: list[Column],
    *,
    unit: str = "short",
    width: int = 24,
    height: int = 8,
    steps: Steps = PLAIN,
) -> table.Panel:
    """Return a table: queries by the name of their value's column, ``columns`` in their order; the others are left out."""
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(unit)
        .span(width)
        .height(height)
        .thresholds(thresholds(steps))
        .show_header(True)
        .no_value("–")
    )
    _columns_of(panel, queries, columns)
    for column in columns:
        properties = [DynamicConfigValue(id_val="unit", value=column.unit)]
        if column.decimals is not None:
            properties.append(DynamicConfigValue(id_val="decimals", value=column.decimals))
        if column.words is not None:
            properties.append(DynamicConfigValue(id_val="mappings", value=words(column.words)))
            properties.append(DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}))
        if column.link:
            properties.append(DynamicConfigValue(id_val="links", value=[{"title": f"Open {column.title}", "url": column.link}]))
        panel.override_by_name(column.title, properties)
    return panel


def _columns_of(panel: Any, queries: dict[str, str], columns: list[Column]) -> None:
    """Give a panel its queries, joined into one table by the labels that they share, with named and ordered columns."""
    names = {}
    for ref_id, (name, query) in zip("ABCDEFGH", queries.items(), strict=False):
        panel.with_target(prometheus.Dataquery().expr(query).instant().format("table").ref_id(ref_id))  # type: ignore[arg-type]
        names[name] = f"Value #{ref_id}" if len(queries) > 1 else "Value"
    fields = {names.get(column.field, column.field): column for column in columns}
    hidden = [field for field in ("Time", *names.values()) if field not in fields]
    panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(
        DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": dict.fromkeys(hidden, True),
                "indexByName": {field: place for place, field in enumerate(fields)},
                "renameByName": {field: column.title for field, column in fields.items() if column.title != field},
            },
        )
    )
