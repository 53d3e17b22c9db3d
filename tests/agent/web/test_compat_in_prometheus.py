"""What dcgm-exporter's users have in Grafana, asked of a real Prometheus that scrapes the agent instead."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MIB = 2**20
MEMORY = 150754820096
STUB = """gpus 2
license * 1
value 142 2 *
value 143 3 *
value 145 1 *
value 94 9 *
mig 1 7:1g.18gb 9:2g.35gb
"""
# The default list: name up to 4.8, name since, and what GPU 0 of the stub has in the units of each (None: it grows).
DEFAULTS: dict[str, tuple[str, float | None, float | None]] = {
    "DCGM_FI_DEV_SM_CLOCK": ("DCGM_FI_DEV_SM_CLOCK_HERTZ", 1980, 1.98e9),
    "DCGM_FI_DEV_MEM_CLOCK": ("DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", 3201, 3.201e9),
    "DCGM_FI_DEV_MEMORY_TEMP": ("DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", 60, 60),
    "DCGM_FI_DEV_GPU_TEMP": ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 55, 55),
    "DCGM_FI_DEV_POWER_USAGE": ("DCGM_FI_DEV_BOARD_POWER_WATTS", 650, 650),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", None, None),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("DCGM_FI_DEV_PCIE_REPLAY_TOTAL", 9, 9),
    "DCGM_FI_DEV_GPU_UTIL": ("DCGM_FI_DEV_GPU_UTIL_RATIO", 90, 0.9),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("DCGM_FI_DEV_MEMORY_UTIL_RATIO", 40, 0.4),
    "DCGM_FI_DEV_ENC_UTIL": ("DCGM_FI_DEV_ENC_UTIL_RATIO", 20, 0.2),
    "DCGM_FI_DEV_DEC_UTIL": ("DCGM_FI_DEV_DEC_UTIL_RATIO", 30, 0.3),
    "DCGM_FI_DEV_XID_ERRORS": ("DCGM_FI_DEV_XID_ERROR", 0, 0),
    "DCGM_FI_DEV_FB_FREE": ("DCGM_FI_DEV_FB_FREE_BYTES", (MEMORY * 3 / 4 - MIB) / MIB, MEMORY * 3 / 4 - MIB),
    "DCGM_FI_DEV_FB_USED": ("DCGM_FI_DEV_FB_USED_BYTES", MEMORY / 4 / MIB, MEMORY / 4),
    "DCGM_FI_DEV_FB_RESERVED": ("DCGM_FI_DEV_FB_RESERVED_BYTES", 1, MIB),
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": (
        "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND",
        7000 * MIB / 1024 / 1000,
        7000 * MIB,
    ),
    "DCGM_FI_DEV_VGPU_LICENSE_STATUS": ("DCGM_FI_DEV_VGPU_LICENSE_STATUS", 1, 1),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", 3, 3),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", 2, 2),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("DCGM_FI_DEV_ROW_REMAP_FAILED", 1, 1),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 0.95, 0.95),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", 0.6, 0.6),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("DCGM_FI_PROF_DRAM_UTIL_RATIO", 0.4, 0.4),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("DCGM_FI_PROF_PCIE_TX_BYTES", 1000 * MIB, 1000 * MIB),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("DCGM_FI_PROF_PCIE_RX_BYTES", 2000 * MIB, 2000 * MIB),
}
# The panels of dashboard 12239 (NVIDIA/dcgm-exporter, grafana/dcgm-exporter-dashboard.json): what is shown, of which field, by
# which labels. `{}` is the series of the hosts and GPUs that are chosen above it.
BY_DEVICE = ("Hostname", "gpu", "GPU_I_ID", "GPU_I_PROFILE")
PANELS = (
    ("max({})", "DCGM_FI_DEV_GPU_TEMP", ("Hostname", "gpu", "uuid")),
    ("avg({})", "DCGM_FI_DEV_GPU_TEMP", ()),
    ("max({})", "DCGM_FI_DEV_POWER_USAGE", ("Hostname", "gpu", "uuid")),
    ("sum(max({}) by (gpu))", "DCGM_FI_DEV_POWER_USAGE", ()),
    ("max({} * 1000000)", "DCGM_FI_DEV_SM_CLOCK", ("Hostname", "UUID", "gpu")),
    ("max({})", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", BY_DEVICE),
    ("max({})", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", BY_DEVICE),
    ("max({})", "DCGM_FI_DEV_FB_USED", BY_DEVICE),
)


@pytest.fixture
def asked(
    start_agent: Callable[..., Any],
    database: Any,
    until: Any,
    nvml_scenario: Any,
    nvml_environment: dict[str, str],
    tmp_path: Path,
) -> Callable[..., Any]:
    """What a Prometheus answers that scrapes an agent with these names, once it answers all; and the Prometheus."""

    def ask(generation: str, wanted: list[str]) -> tuple[dict[str, list[dict[str, Any]]], Any]:
        nvml_scenario(STUB)
        (tmp_path / "agent.toml").write_text(f'source = "gpm"\ncompat = "dcgm-exporter={generation}"\n')
        agent = start_agent("--config", tmp_path / "agent.toml", env=nvml_environment)
        server = database("prometheus", agent.port)
        answers: dict[str, list[dict[str, Any]]] = {}
        until(lambda: answers.update({each: server.query(each) for each in wanted}) or all(answers.values()))
        return answers, server

    return ask


def named(old: str, generation: str) -> str:
    return old if generation == "4.8" else DEFAULTS[old][0]


def panel_query(generation: str, form: str, field: str, by: tuple[str, ...]) -> str:
    host = "Hostname" if generation == "4.8" else "hostname"
    series = f'{named(field, generation)}{{{host}=~".+", gpu=~".+"}}'
    labels = ", ".join(host if label == "Hostname" else label for label in by)
    return form.format(series) + (f" by ({labels})" if by else "")


@pytest.mark.parametrize("generation", ["4.8", "4.9"])
def test_every_default_counter_and_every_panel_has_data(asked: Callable[..., Any], generation: str) -> None:
    assert len(DEFAULTS) == 25
    whole = {old: f'{named(old, generation)}{{gpu="0"}}' for old in DEFAULTS}
    panels = [panel_query(generation, *panel) for panel in PANELS]
    parent = '{__name__=~"DCGM_FI_.+", gpu="1", GPU_I_ID=""}'
    slices = f'{named("DCGM_FI_DEV_POWER_USAGE", generation)}{{gpu="1"}}'
    got, prometheus = asked(generation, [*whole.values(), *panels, slices])

    values = {old: [float(series["value"][1]) for series in got[query]] for old, query in whole.items()}
    assert {len(found) for found in values.values()} == {1}
    for old, (_, before, since) in DEFAULTS.items():
        expected = before if generation == "4.8" else since
        assert values[old][0] == pytest.approx(expected, rel=1e-6) if expected is not None else values[old][0] > 0, old
    assert prometheus.query(parent) == []
    assert sorted(series["metric"]["GPU_I_ID"] for series in got[slices]) == ["7", "9"]
