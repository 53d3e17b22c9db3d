"""One job: its epochs, how long they would take on every other GPU, what is recommended, and which GPU holds it up."""

from typing import Any

from frame import finished, frame, variable
from panels import GREEN, RED, YELLOW, Column, bars, intervals, number, over_time, row, rows, words
from queries import ACTIVE, TO_GPU, mean_of, period, with_node

JOB = 'training_job="$training_job"'
# The GPUs of the job; group_left is not needed, for only their being there counts.
ITS_GPUS = f"on (uuid) max by (uuid) (epochcast_gpu_training_job_info{{{JOB}}} == 1)"

# How well a GPU is used: the agent's ratio -> title of its column.
USE = {"ofu": "OFU", "held_idle": "held but idle", "throttled_power_cap": "power cap"}


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    board = frame("epochcast-job", "A training job: epochs, predictions on every other GPU, recommendation.", since="now-3h")
    board.with_variable(
        variable(
            "training_job",
            "Job",
            "Title; its value is the id.",
            "query_result(max by (title, training_job) (epochcast_job_info))",
            regex='/title="(?<text>[^"]+)",training_job="(?<value>[^"]+)"/',
        )
    )
    for panel in _figures():
        board.with_panel(panel)
    for heading, panels in (
        ("Epochs", _epochs()),
        ("On other GPUs", _predictions()),
        ("What to rent", _recommendation()),
        ("GPUs of the job", _gpus()),
    ):
        board.with_row(row(heading))
        for panel in panels:
            board.with_panel(panel)
    return finished(board)


def _of_job(name: str, selector: str = JOB) -> str:
    return f"max by (training_job) (epochcast_job_{name}{{{selector}}})"


def _figures() -> list[Any]:
    return [
        number(
            "Active",
            "Whether a GPU of the job is busy now.",
            "short",
            _of_job("active"),
            mappings=words(ACTIVE),
        ),
        number("GPUs", "GPUs that train together.", "short", _of_job("gpus")),
        number(
            "Epoch, step or cycle",
            "Length of an epoch on the job's slowest GPU; or, if no epochs were found, of a step, a cycle between checkpoints "
            "or a cycle of unknown kind.",
            "s",
            period("job", "training_job", JOB),
        ),
        number(
            "Confidence",
            "The lowest of its GPUs' confidences in that length. Below 80 % only ratios are shown.",
            "percentunit",
            _of_job("epoch_confidence_ratio"),
            steps=[(None, RED), (0.5, YELLOW), (0.8, GREEN)],
        ),
        number(
            "Epochs so far", "Epochs of this job that ended while it was watched.", "short", _of_job("epochs_total"), decimals=0
        ),
        number(
            "Could be saved",
            "Share of the present cost that the recommendation saves; 0 if the job should stay.",
            "percentunit",
            _of_job("savings_ratio", f'{JOB},objective="cost"'),
            steps=[(None, GREEN), (0.1, YELLOW), (0.3, RED)],
            decimals=1,
        ),
    ]


def _epochs() -> list[Any]:
    return [
        over_time(
            "Epochs by GPU",
            "Length of the newest completed epoch on each GPU of the job.",
            "s",
            {"{{node}} GPU {{gpu}}": f"max by (uuid, node, gpu) (epochcast_gpu_last_epoch_seconds) and {ITS_GPUS}"},
            stairs=True,
            width=8,
        ),
        over_time(
            "Typical length",
            "Typical length on the job's slowest GPU, with the median of the last six hours.",
            "s",
            {
                "epoch": _of_job("epoch_seconds"),
                "step": _of_job("step_seconds"),
                "cycle": _of_job("cycle_seconds"),
                "median of 6 h": f"max by (training_job) (quantile_over_time(0.5, epochcast_job_epoch_seconds{{{JOB}}}[6h]))",
            },
            stairs=True,
            width=8,
        ),
        over_time(
            "Share of the time in which the GPU waits",
            "Over whole cycles of each kind, on the job's slowest GPU. For checkpoints, this is the cost of saving.",
            "percentunit",
            {"{{cycle}}": f"max by (cycle) (epochcast_job_cycle_idle_ratio{{{JOB}}})"},
            least=0,
            most=1,
            stairs=True,
            width=8,
        ),
    ]


def _predictions() -> list[Any]:
    def predicted(name: str) -> str:
        return f"max by (target_gpu) (epochcast_job_{name}{{{JOB}}})"

    ratios = {
        "low": predicted("predicted_low_ratio"),
        "predicted": predicted("predicted_ratio"),
        "high": predicted("predicted_high_ratio"),
    }
    here = f"max(epochcast_job_predicted_from_seconds{{{JOB}}})"
    seconds = {name: f"{ratio} * on () group_left () {here}" for name, ratio in ratios.items()}
    return [
        intervals(
            "An epoch, step or cycle on other GPUs",
            "Predicted seconds with the ends of the 90 % interval, for the GPUs that are recommended first. Empty while the "
            "job's own length is unknown or uncertain; the ratios in the next panel still hold.",
            "s",
            seconds,
            "target_gpu",
        ),
        intervals(
            "Time there over time here",
            "Ratio with the ends of its 90 % interval; below 1 the other GPU is faster.",
            "short",
            ratios,
            "target_gpu",
        ),
        rows(
            "Predictions",
            "The same figures as a table.",
            seconds | {"ratio": ratios["predicted"]},
            [
                Column("target_gpu", "GPU"),
                Column("low", "low", "s"),
                Column("predicted", "predicted", "s"),
                Column("high", "high", "s"),
                Column("ratio", "ratio", decimals=3),
            ],
            unit="s",
        ),
    ]


def _recommendation() -> list[Any]:
    info = (
        "max by (objective, instance_type, instances, cloud, region, market, target_gpu)"
        f" (epochcast_job_recommended_instance_info{{{JOB}}})"
    )
    return [
        rows(
            "Recommended",
            "Where the job should run, with whole instances priced for all GPUs of the job.",
            {
                "recommendation": info,
                "seconds": f"max by (objective) (epochcast_job_recommended_seconds{{{JOB}}})",
                "usd": f"max by (objective) (epochcast_job_recommended_usd{{{JOB}}})",
                "saved": f"max by (objective) (epochcast_job_savings_ratio{{{JOB}}})",
            },
            [
                Column("objective", "by"),
                Column("instance_type", "instance"),
                Column("instances", "how many"),
                Column("cloud", "cloud"),
                Column("region", "region"),
                Column("market", "market"),
                Column("target_gpu", "GPU"),
                Column("seconds", "epoch, step or cycle", "s"),
                Column("usd", "costs", "currencyUSD", decimals=4),
                Column("saved", "saves", "percentunit", decimals=1),
            ],
            height=6,
        ),
        over_time(
            "Cost of an epoch, step or cycle",
            "Where the job runs now (the cheapest instance with its GPU if the instance is unknown), and as recommended.",
            "currencyUSD",
            {
                "now": _of_job("current_usd"),
                "recommended": f"max by (objective) (epochcast_job_recommended_usd{{{JOB}}})",
            },
            least=0,
        ),
        over_time(
            "Savings",
            "Share of the present cost and of the present time that the recommendation saves.",
            "percentunit",
            {"of {{objective}}": f"max by (objective) (epochcast_job_savings_ratio{{{JOB}}})"},
        ),
    ]


def _gpus() -> list[Any]:
    typical = f"({period('gpu', 'uuid, node, gpu')}) and {ITS_GPUS}"
    return [
        bars(
            "Behind the fastest",
            "How much longer this GPU's epochs, steps or cycles take than on the job's fastest GPU.",
            "percentunit",
            f"({typical}) / on () group_left () min({typical}) - 1",
            "{{node}} GPU {{gpu}}",
            steps=[(None, GREEN), (0.05, YELLOW), (0.1, RED)],
        ),
        rows(
            "Its GPUs",
            "OFU is the share of the tensor cores' peak; held but idle, and a clock that the power limit holds down, are "
            "shares of the time. Click a UUID to open the GPU.",
            {
                "period": typical,
                "confidence": f"max by (uuid, node, gpu) (epochcast_gpu_epoch_confidence_ratio) and {ITS_GPUS}",
                "epochs": f"max by (uuid, node, gpu) (epochcast_gpu_epochs_total) and {ITS_GPUS}",
                **{metric: f"({with_node(mean_of(metric, 'uuid', ''), '')}) and {ITS_GPUS}" for metric in USE},
            },
            [
                Column("node", "node"),
                Column("gpu", "gpu"),
                Column("uuid", "uuid", link=TO_GPU),
                Column("period", "epoch, step or cycle", "s"),
                Column("confidence", "confidence", "percentunit"),
                Column("epochs", "epochs seen"),
                *(Column(metric, title, "percentunit", decimals=0) for metric, title in USE.items()),
            ],
            width=12,
        ),
    ]
