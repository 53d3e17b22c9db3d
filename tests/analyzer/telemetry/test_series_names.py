from epochcast.agent.catalog import catalog
from epochcast.analyzer.telemetry.series_names import AGENT_NAMES, DCGM_EXPORTER, SCRAPED, WRITTEN, Meaning


def test_every_metric_of_the_agent_is_known_by_its_name_in_a_database() -> None:
    """The analyzer may not load the agent, so it has the names in a table of its own."""
    names = {metric.prometheus + "_total" * (metric.kind == "counter"): metric.name for metric in catalog().values()}
    assert names == AGENT_NAMES


def test_dcgm_exporters_names_are_read_as_what_the_catalogue_calls_them() -> None:
    assert DCGM_EXPORTER["DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL"] == Meaning("energy", "last", 1.0, 1e18)
    assert {meaning.column for meaning in DCGM_EXPORTER.values()} <= set(AGENT_NAMES.values())
    # An exporter's power is the only one that it has, so it is taken for the column that the catalogue calls power.
    power = {name for name, meaning in DCGM_EXPORTER.items() if meaning.column.startswith("power") and "LIMIT" not in name}
    assert power == {"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS"}
    assert {DCGM_EXPORTER[name].column for name in power} == {"power"}


def test_what_is_on_the_agents_page_beside_the_newest_value() -> None:
    assert WRITTEN["epochcast_gpu_dram_active_ratio"] == Meaning("dram_active", "last")
    assert SCRAPED["epochcast_gpu_dram_active_ratio_avg"] == Meaning("dram_active", "window")
    assert SCRAPED["epochcast_gpu_dram_active_seconds_total"] == Meaning("dram_active", "integral")
    assert SCRAPED["epochcast_gpu_power_watts_avg"] == Meaning("power", "window")
    assert "epochcast_gpu_energy_joules_total_avg" not in SCRAPED
    assert SCRAPED["epochcast_gpu_energy_joules_total"] == Meaning("energy", "last")
