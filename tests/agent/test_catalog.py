import pytest

from epochcast.agent.catalog import Metric, catalog

# DCGM's ids as the black-box paper's own collection script passed them to dcgmi (public metrics that change during a run).
PAPER_IDS = {
    "SMACT": 1002,
    "SMOCC": 1003,
    "TENSO": 1004,
    "DRAMA": 1005,
    "FP32A": 1007,
    "FP16A": 1008,
    "PCIRX": 1010,
    "NVLTX": 1011,
}


def test_paper_metrics_carry_the_ids_the_paper_collected() -> None:
    by_paper_name = {metric.paper: metric.dcgm for metric in catalog().values()}
    assert {name: by_paper_name[name] for name in PAPER_IDS} == PAPER_IDS


def test_no_id_is_used_twice() -> None:
    for field in ("dcgm", "gpm", "prometheus"):
        ids = [value for metric in catalog().values() if (value := getattr(metric, field)) is not None]
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("name", "prometheus"),
    [
        ("power", "epochcast_gpu_power_watts"),
        ("sm_active", "epochcast_gpu_sm_active_ratio"),
        ("pcie_rx", "epochcast_gpu_pcie_rx_bytes_per_second"),
        ("energy", "epochcast_gpu_energy_joules"),
        ("cpu_utilization", "epochcast_host_cpu_utilization_ratio"),
        ("context_switches", "epochcast_host_context_switches_per_second"),
    ],
)
def test_prometheus_names_end_in_base_units(name: str, prometheus: str) -> None:
    assert catalog()[name].prometheus == prometheus


def test_a_unit_without_a_suffix_is_refused() -> None:
    with pytest.raises(ValueError, match="MHz"):
        Metric("clock", unit="MHz", tier="slow", help="")
