"""One GPU: the agent's metrics, with the ends of epochs marked, and what the detector makes of them."""

from typing import Any

from frame import DATA_SOURCE, finished, frame, variable
from panels import GREEN, RED, YELLOW, number, over_time, row, words
from queries import STATES, mean_of, period, state_of

GPU = 'uuid="$gpu"'
RATE = "$__rate_interval"

THROTTLED = {
    "power cap": "power_cap",
    "heat": "thermal",
    "heat, by the hardware": "hardware_thermal",
    "power supply": "power_brake",
}
ERRORS = {
    "memory": "ecc_uncorrectable_errors",
    "NVLink replays": "nvlink_replay_errors",
    "PCIe replays": "pcie_replays",
}

# The typed library knows no annotation of Prometheus; this is one as Grafana 11 saves it. Its value is the mark's time [ms].
EPOCH_ENDS = {
    "name": "Ends of epochs",
    "datasource": DATA_SOURCE.to_json(),
    "enable": True,
    "iconColor": "yellow",
    "expr": f"1000 * max by (uuid) (epochcast_gpu_last_epoch_end_timestamp_seconds{{{GPU}}})",
    "step": "5s",
    "tagKeys": "",
    "titleFormat": "End of an epoch",
    "textFormat": "",
    "useValueForTime": True,
}


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    board = frame("epochcast-gpu", "One GPU's activity, sampled ten times a second, and its epochs.", since="now-1h")
    board.with_variable(
        variable("node", "Node", "The machine.", "label_values(epochcast_gpu_detector_state, node)", several=True)
    ).with_variable(
        variable(
            "gpu",
            "GPU",
            "Node, place and model; its value is the UUID.",
            # One label that reads well, made of three: the only way to show another text than the value.
            'query_result(label_join(max by (node, gpu, name, uuid) (epochcast_gpu_detector_state{node=~"$node"}),'
            ' "text", " ", "node", "gpu", "name"))',
            regex='/text="(?<text>[^"]+)",uuid="(?<value>[^"]+)"/',
        )
    )
    for panel in _figures():
        board.with_panel(panel)
    for heading, panels in (("Epochs", _epochs()), ("Activity", _activity()), ("Data and energy", _resources())):
        board.with_row(row(heading))
        for panel in panels:
            board.with_panel(panel)
    board.with_row(row("Quality of the readings"))
    for panel in _quality():
        board.with_panel(panel)
    built = finished(board)
    built["annotations"] = {"list": [EPOCH_ENDS]}
    return built


def _figures() -> list[Any]:
    return [
        number(
            "Detector",
            "Idle: no work. Searching: busy, period not yet known. Answered: epochs or steps are followed.",
            "short",
            state_of("uuid", GPU),
            mappings=words(STATES),
        ),
        number(
            "Epoch, step or cycle",
            "Typical length of an epoch of the current job; or, if no epochs were found, of a step, a cycle between "
            "checkpoints or a cycle of unknown kind.",
            "s",
            period("gpu", "uuid", GPU),
        ),
        number(
            "Confidence",
            "Probability that this length is right, as the detector estimates it.",
            "percentunit",
            f"max by (uuid) (epochcast_gpu_epoch_confidence_ratio{{{GPU}}})",
            steps=[(None, RED), (0.5, YELLOW), (0.8, GREEN)],
        ),
        number(
            "Epochs seen",
            "Epochs that ended while this GPU was watched, over all its jobs.",
            "short",
            f"max by (uuid) (epochcast_gpu_epochs_total{{{GPU}}})",
            decimals=0,
        ),
        number(
            "Since the last epoch",
            "Time since the newest epoch ended. More than a few epoch lengths: the job ended, changed its rhythm, or stalls.",
            "s",
            f"time() - max by (uuid) (epochcast_gpu_last_epoch_end_timestamp_seconds{{{GPU}}})",
            decimals=0,
        ),
        number(
            "Job",
            "The job that the GPU runs, or ran last; click to open it.",
            "short",
            f"max by (training_job) (epochcast_gpu_training_job_info{{{GPU}}} == 1)",
            label="training_job",
            url="/d/epochcast-job?var-datasource=${datasource}&var-training_job=${__field.labels.training_job}&${__url_time_range}",
        ),
    ]


def _epochs() -> list[Any]:
    return [
        over_time(
            "Length of epochs",
            "The newest completed epoch, and the typical length for the current job (or for its steps or cycles).",
            "s",
            {
                "newest epoch": f"max by (uuid) (epochcast_gpu_last_epoch_seconds{{{GPU}}})",
                "typical epoch": f"max by (uuid) (epochcast_gpu_epoch_seconds{{{GPU}}})",
                "typical step": f"max by (uuid) (epochcast_gpu_step_seconds{{{GPU}}})",
                "typical cycle": f"max by (uuid) (epochcast_gpu_cycle_seconds{{{GPU}}})",
            },
            stairs=True,
        ),
        over_time(
            "Held but idle",
            "Share of time in which memory was held but nothing ran.",
            "percentunit",
            {"held but idle": mean_of("held_idle", "uuid", GPU)},
            least=0,
            most=1,
        ),
    ]


def _activity() -> list[Any]:
    def extreme(function: str, suffix: str, metric: str) -> str:
        return f"{function} by (uuid) ({function}_over_time(epochcast_gpu_{metric}_ratio_{suffix}{{{GPU}}}[{RATE}]))"

    return [
        over_time(
            "Activity on the chip",
            "Means over each interval, exact from the agent's integrals. The hardware counts these; they are absent if the "
            "source has no profiling metrics. OFU is the share of the tensor cores' peak: their activity at the highest clock.",
            "percentunit",
            {
                "SM active": mean_of("sm_active", "uuid", GPU),
                "SM occupancy": mean_of("sm_occupancy", "uuid", GPU),
                "tensor pipes": mean_of("tensor_active", "uuid", GPU),
                "FP32 pipe": mean_of("fp32_active", "uuid", GPU),
                "FP16 pipe": mean_of("fp16_active", "uuid", GPU),
                "memory interface": mean_of("dram_active", "uuid", GPU),
                "OFU": mean_of("ofu", "uuid", GPU),
            },
            least=0,
            most=1,
        ),
        over_time(
            "SM activity at 10 Hz: least, mean, most",
            "The extremes are single readings, ten per second; the mean is exact. A scrape every 15 s would miss them.",
            "percentunit",
            {
                "most": extreme("max", "max", "sm_active"),
                "mean": mean_of("sm_active", "uuid", GPU),
                "least": extreme("min", "min", "sm_active"),
            },
            least=0,
            most=1,
        ),
        over_time(
            "Memory interface at 10 Hz: least, mean, most",
            "The share of cycles in which device memory was read or written; most jobs show their epochs here.",
            "percentunit",
            {
                "most": extreme("max", "max", "dram_active"),
                "mean": mean_of("dram_active", "uuid", GPU),
                "least": extreme("min", "min", "dram_active"),
            },
            least=0,
            most=1,
        ),
        over_time(
            "Utilisation as the driver reports it",
            "GPU: a kernel was resident, for which one warp is enough. Memory: device memory was read or written.",
            "percentunit",
            {"GPU": mean_of("gpu_utilization", "uuid", GPU), "memory": mean_of("memory_utilization", "uuid", GPU)},
            least=0,
            most=1,
        ),
    ]


def _resources() -> list[Any]:
    def last(name: str) -> str:
        return f"max by (uuid) (epochcast_gpu_{name}{{{GPU}}})"

    return [
        over_time(
            "Device memory",
            "Memory in use and free, excluding the driver's reserve.",
            "bytes",
            {"used": last("memory_used_bytes"), "free": last("memory_free_bytes")},
            least=0,
            width=8,
        ),
        over_time(
            "PCIe and NVLink",
            "Means of the agent's window of bytes per second in each direction.",
            "Bps",
            {
                "PCIe received": last("pcie_rx_bytes_per_second_avg"),
                "PCIe sent": last("pcie_tx_bytes_per_second_avg"),
                "NVLink received": last("nvlink_rx_bytes_per_second_avg"),
                "NVLink sent": last("nvlink_tx_bytes_per_second_avg"),
            },
            least=0,
            width=8,
        ),
        over_time(
            "Power",
            "From the energy counter, which is more exact than power readings; and the enforced limit.",
            "watt",
            {
                "from energy": f"max by (uuid) (rate(epochcast_gpu_energy_joules_total{{{GPU}}}[{RATE}]))",
                "limit": last("power_limit_watts"),
            },
            least=0,
            width=8,
        ),
        over_time(
            "Clocks",
            "Clocks of the SMs and the memory. The next panel shows why they fall under load.",
            "hertz",
            {"SM": last("sm_clock_hertz"), "memory": last("memory_clock_hertz")},
            least=0,
        ),
        over_time(
            "Reduced clocks",
            "Share of time in which each reason held the clocks down; absent if the driver does not report it.",
            "percentunit",
            {reason: mean_of(f"throttled_{metric}", "uuid", GPU) for reason, metric in THROTTLED.items()},
            least=0,
            most=1,
        ),
        over_time(
            "Temperature",
            "Of the chip and of its memory.",
            "celsius",
            {"GPU": last("temperature_celsius"), "memory": last("memory_temperature_celsius")},
        ),
        over_time(
            "Errors",
            "Xids by code since the agent started; new in each interval: memory errors that ECC could not correct, transfers "
            "repeated on NVLink and PCIe.",
            "short",
            {
                "Xid {{xid}}": f"max by (uuid, xid) (epochcast_gpu_xid_errors_total{{{GPU}}})",
                **{
                    error: f"max by (uuid) (increase(epochcast_gpu_{metric}_total{{{GPU}}}[{RATE}]))"
                    for error, metric in ERRORS.items()
                },
            },
            least=0,
        ),
    ]


def _quality() -> list[Any]:
    return [
        over_time(
            "Missing readings",
            "Ticks without a sample, readings that were due but blank, and values that cannot be true, per second.",
            "cps",
            {
                "missed ticks": f"max by (uuid) (rate(epochcast_gpu_missed_ticks_total{{{GPU}}}[{RATE}]))",
                "blank readings": f"sum by (uuid) (rate(epochcast_agent_blanks_total{{{GPU}}}[{RATE}]))",
                "cannot be true": f"sum by (uuid) (rate(epochcast_agent_implausible_values_total{{{GPU}}}[{RATE}]))",
            },
            least=0,
        ),
        over_time(
            "Samples that the detector receives",
            "Samples per second received, and samples ignored because they were out of order.",
            "cps",
            {
                "taken in": f"max by (uuid) (rate(epochcast_gpu_detector_samples_total{{{GPU}}}[{RATE}]))",
                "out of order": f"max by (uuid) (rate(epochcast_gpu_detector_dropped_samples_total{{{GPU}}}[{RATE}]))",
            },
            least=0,
        ),
    ]
