from epochcast.agent.catalog import catalog
from epochcast.agent.compat import FIELDS
from epochcast.analyzer.telemetry.series_names import AGENT_NAMES, DCGM_EXPORTER_NAMES, SCRAPED, WRITTEN, Meaning


def test_every_metric_of_the_agent_is_known_by_its_name_in_a_database() -> None:
    """The analyzer may not load the agent, so it has the names in a table of its own."""
    names = {metric.prometheus + "_total" * (metric.kind == "counter"): metric.name for metric in catalog().values()}
    assert names == AGENT_NAMES


def test_dcgm_exporters_names_and_units_are_those_that_the_agent_speaks() -> None:
    columns = {metric.dcgm: metric.name for metric in catalog().values()}
    spoken = {field.name: (columns[number], 1 / field.factor) for number, field in FIELDS.items()}
    # An exporter's power is the only one that it has, so it is taken for the column that the catalogue calls power.
    spoken["DCGM_FI_DEV_POWER_USAGE"] = ("power", 1.0)
    assert spoken.keys() == DCGM_EXPORTER_NAMES.keys()
    for name, (column, factor) in DCGM_EXPORTER_NAMES.items():
        assert column == spoken[name][0]
        assert abs(factor / spoken[name][1] - 1) < 1e-9


def test_what_is_on_the_agents_page_beside_the_newest_value() -> None:
    assert WRITTEN["epochcast_gpu_dram_active_ratio"] == Meaning("dram_active", "last")
    assert SCRAPED["epochcast_gpu_dram_active_ratio_avg"] == Meaning("dram_active", "window")
    assert SCRAPED["epochcast_gpu_dram_active_seconds_total"] == Meaning("dram_active", "integral")
    assert SCRAPED["epochcast_gpu_power_watts_avg"] == Meaning("power", "window")
    assert "epochcast_gpu_energy_joules_total_avg" not in SCRAPED
    assert SCRAPED["epochcast_gpu_energy_joules_total"] == Meaning("energy", "last")
