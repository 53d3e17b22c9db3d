"""The fleet: how busy it is, which jobs run, what could be saved, what needs attention."""

from typing import Any

from frame import finished, frame, variable
from panels import GREEN, RED, YELLOW, Column, bars, number, over_time, row, rows, states, words
from queries import ACTIVE, STATES, TO_GPU, TO_JOB, mean_of, of_jobs, period, state_of, with_node

NODES = 'node=~"$node"'
JOB_TITLES = "max by (training_job, title, source_gpu, instance_type) (epochcast_job_info)"


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    board = frame("epochcast-fleet", "All GPUs and jobs that Epochcast watches, and what could be saved.", since="now-6h")
    board.with_variable(
        variable(
            "node",
            "Node",
            "Machines whose GPUs are shown.",
            "label_values(epochcast_gpu_detector_state, node)",
            several=True,
        )
    )
    for panel in (*_figures(), *_sums(), *_gpus()):
        board.with_panel(panel)
    board.with_row(row("Jobs"))
    for panel in _jobs():
        board.with_panel(panel)
    board.with_row(row("What needs attention"))
    for panel in _outstanding():
        board.with_panel(panel)
    return finished(board)


def _figures() -> list[Any]:
    gpus = f"max by (uuid) (epochcast_gpu_detector_state{{{NODES}}})"
    working = f'max by (uuid) (epochcast_gpu_detector_state{{{NODES},state!="idle"}}) == 1'
    length = period("job", "training_job")
    hourly = f"max by (training_job) (epochcast_job_current_usd) / ({length}) * 3600"
    saved = 'clamp_min(max by (training_job) (epochcast_job_savings_ratio{objective="cost"}), 0)'
    active = "max by (training_job) (epochcast_job_active)"
    return [
        number("GPUs watched", "GPUs whose epochs a detector follows.", "short", f"count({gpus})"),
        number(
            "GPUs at work", "GPUs with work now, whether or not its period is known.", "short", f"count({working}) or vector(0)"
        ),
        number(
            "Utilisation",
            "Mean over the GPUs of the share of time in which a kernel was resident (exact over the interval, from integrals).",
            "percentunit",
            f"avg({with_node(mean_of('gpu_utilization', 'uuid', ''))})",
            steps=[(None, RED), (0.3, YELLOW), (0.6, GREEN)],
            decimals=1,
        ),
        number("Active jobs", "Training jobs of which a GPU works now.", "short", f"sum({of_jobs(active)})"),
        number(
            "Epochs in the last hour",
            "Epochs of all jobs that ended within an hour; a job of several GPUs counts once.",
            "short",
            f"sum({of_jobs('max by (training_job) (increase(epochcast_job_epochs_total[1h]))')})",
            decimals=0,
        ),
        number(
            "Could be saved per hour",
            "What an hour's work of the active jobs costs now, less what it would cost where it is recommended. "
            "Jobs that should stay count 0; jobs without epochs or prices are not included.",
            "currencyUSD",
            f"sum({of_jobs(f'{hourly} * {saved} * ({active} == 1)')})",
            decimals=2,
        ),
    ]


def _sums() -> list[Any]:
    return [
        number(
            "Held but idle",
            "How many GPUs have memory in use while nothing runs, on average over the interval: paid for and not used.",
            "short",
            f"sum({with_node(mean_of('held_idle', 'uuid', ''))})",
            width=6,
            decimals=1,
        ),
        number(
            "Active jobs on all nodes",
            "Training jobs with a busy GPU on any node, including jobs without their own metrics.",
            "short",
            "sum(max by (instance) (epochcast_analyzer_active_jobs))",
            width=6,
        ),
        number(
            "Could be saved per hour on all nodes",
            "As above, for all active jobs on any node.",
            "currencyUSD",
            "sum(max by (instance) (epochcast_analyzer_possible_savings_usd_per_hour))",
            width=6,
            decimals=2,
        ),
        number(
            "Jobs without metrics",
            "A scrape of the service is limited in size. Beyond the limit the smallest jobs are missing here and below; the "
            "service's page and API have them all.",
            "short",
            'sum(max by (instance) (epochcast_analyzer_left_out_jobs{part="job"}))',
            width=6,
            steps=[(None, GREEN), (1, YELLOW)],
        ),
    ]


def _gpus() -> list[Any]:
    return [
        over_time(
            "Utilisation by GPU",
            "Share of time in which a kernel was resident, exact over each interval. It does not show how busy the GPU was: "
            "the dashboard of one GPU does.",
            "percentunit",
            {"{{node}} GPU {{gpu}}": with_node(mean_of("gpu_utilization", "uuid", ""))},
            least=0,
            most=1,
        ),
        states(
            "Detectors",
            "Idle: no work. Searching: busy, period not yet known, which takes about five epochs. Answered: epochs or "
            "steps are followed.",
            state_of("node, gpu", NODES),
            "{{node}} GPU {{gpu}}",
            words(STATES),
        ),
        rows(
            "GPUs",
            "Each GPU's period, its confidence, and epochs seen; the share of the tensor cores' peak in use now (OFU), and of "
            "the time in which memory is held but nothing runs. Click a UUID to open the GPU.",
            {
                "state": state_of("uuid, node, gpu, name", NODES),
                "period": period("gpu", "uuid, node, gpu, name", NODES),
                "confidence": f"max by (uuid, node, gpu, name) (epochcast_gpu_epoch_confidence_ratio{{{NODES}}})",
                "epochs": f"max by (uuid, node, gpu, name) (epochcast_gpu_epochs_total{{{NODES}}})",
                "ofu": with_node(mean_of("ofu", "uuid", "")),
                "held": with_node(mean_of("held_idle", "uuid", "")),
            },
            [
                Column("node", "node"),
                Column("gpu", "gpu"),
                Column("name", "model"),
                Column("uuid", "uuid", link=TO_GPU),
                Column("state", "state", words=STATES),
                Column("period", "epoch, step or cycle", "s"),
                Column("confidence", "confidence", "percentunit"),
                Column("epochs", "epochs"),
                Column("ofu", "OFU", "percentunit", decimals=0),
                Column("held", "held but idle", "percentunit", decimals=0),
            ],
        ),
    ]


def _jobs() -> list[Any]:
    return [
        rows(
            "Training jobs",
            "Jobs that run, or ran last, on the chosen nodes. Click an id to open the job.",
            {
                "job": of_jobs(JOB_TITLES),
                "active": of_jobs("max by (training_job) (epochcast_job_active)"),
                "gpus": of_jobs("max by (training_job) (epochcast_job_gpus)"),
                "period": of_jobs(period("job", "training_job")),
                "confidence": of_jobs("max by (training_job) (epochcast_job_epoch_confidence_ratio)"),
                "epochs": of_jobs("max by (training_job) (epochcast_job_epochs_total)"),
            },
            [
                Column("training_job", "training_job", link=TO_JOB),
                Column("title", "title"),
                Column("source_gpu", "on GPU"),
                Column("active", "active", words=ACTIVE),
                Column("gpus", "GPUs"),
                Column("period", "epoch, step or cycle", "s"),
                Column("confidence", "confidence", "percentunit"),
                Column("epochs", "epochs"),
            ],
        ),
        rows(
            "Savings",
            "What an epoch, step or cycle costs where the job runs now and where it is recommended, with whole "
            "instances priced for all GPUs of the job. 0: it should stay.",
            {
                "recommendation": of_jobs(
                    "max by (training_job, instance_type, cloud, region, target_gpu, instances)"
                    " (epochcast_job_recommended_instance_info)"
                ),
                "now": of_jobs("max by (training_job) (epochcast_job_current_usd)"),
                "there": of_jobs("max by (training_job) (epochcast_job_recommended_usd)"),
                "saved": of_jobs('max by (training_job) (epochcast_job_savings_ratio{objective="cost"})'),
            },
            [
                Column("training_job", "training_job", link=TO_JOB),
                Column("instance_type", "best"),
                Column("instances", "how many"),
                Column("cloud", "cloud"),
                Column("region", "region"),
                Column("target_gpu", "its GPU"),
                Column("now", "now", "currencyUSD", decimals=4),
                Column("there", "there", "currencyUSD", decimals=4),
                Column("saved", "saved", "percentunit", decimals=1),
            ],
            unit="currencyUSD",
        ),
    ]


def _outstanding() -> list[Any]:
    return [
        bars(
            "Stragglers: spread within jobs",
            "How much longer the slowest GPU's epochs take than the fastest's, by job. GPUs that train together wait for the "
            "slowest one.",
            "percentunit",
            of_jobs("max by (training_job) (epochcast_job_epoch_spread_ratio)"),
            "{{training_job}}",
            width=8,
            steps=[(None, GREEN), (0.05, YELLOW), (0.1, RED)],
        ),
        bars(
            "Confidence of the detectors",
            "The chance that a job's epoch length is right; 0 without one. Below 80 % only ratios are shown.",
            "percentunit",
            of_jobs("max by (training_job) (epochcast_job_epoch_confidence_ratio)"),
            "{{training_job}}",
            width=8,
            steps=[(None, RED), (0.5, YELLOW), (0.8, GREEN)],
        ),
        rows(
            "Firing alerts",
            "Epochcast's alerts, where Prometheus has its rules (dashboards/*.yml of the project).",
            {
                "firing": "max by (alertname, severity, instance, training_job)"
                ' (ALERTS{alertstate="firing",alertname=~"Epochcast.+"})'
            },
            [
                Column("alertname", "alert"),
                Column("severity", "severity"),
                Column("instance", "instance"),
                Column("training_job", "training_job", link=TO_JOB),
            ],
            width=8,
        ),
    ]
