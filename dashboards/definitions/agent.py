"""The health of Epochcast itself: agents, node analyzers, and the service."""

from typing import Any

from frame import finished, frame, variable
from panels import GREEN, RED, YELLOW, Column, number, over_time, row, rows, words
from queries import UP

AT = 'instance=~"$instance"'
RATE = "$__rate_interval"


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    board = frame("epochcast-agents", "Health and cost of agents, node analyzers and the service.", since="now-3h")
    board.with_variable(
        variable(
            "instance",
            "Instance",
            "Address of an agent, node analyzer or service.",
            'label_values(up{job=~"epochcast-.+"}, instance)',
            several=True,
        )
    )
    for panel in _figures():
        board.with_panel(panel)
    for heading, panels in (
        ("Agents", _agents()),
        ("Detection: node analyzers and the service's watcher", _detection()),
        ("The service", _service()),
        ("What it costs", _cost()),
    ):
        board.with_row(row(heading))
        for panel in panels:
            board.with_panel(panel)
    return finished(board)


def _figures() -> list[Any]:
    def up(job: str) -> str:
        return f'count(up{{job="{job}",{AT}}} == 1) or vector(0)'

    return [
        number("Agents up", "Agents whose last scrape succeeded.", "short", up("epochcast-agent")),
        number("Node analyzers up", "Node analyzers whose last scrape succeeded.", "short", up("epochcast-node")),
        number("Services up", "Services whose last scrape succeeded.", "short", up("epochcast-analyzer")),
        number(
            "Watchers",
            "The service's process that reads telemetry and detects epochs.",
            "short",
            f"min(epochcast_analyzer_watcher_up{{{AT}}})",
            mappings=words(UP),
        ),
        number(
            "Sources down",
            "Telemetry sources whose last poll failed.",
            "short",
            f'sum(epochcast_analyzer_sources{{{AT},state="down"}}) or vector(0)',
            steps=[(None, GREEN), (1, RED)],
        ),
        number(
            "Age of the oldest price",
            "A price older than a year ranks after all newer prices; renew the table with `epochcast prices update`.",
            "s",
            f"time() - min(epochcast_analyzer_oldest_price_timestamp_seconds{{{AT}}})",
            steps=[(None, GREEN), (365 * 86400, YELLOW)],
            decimals=0,
        ),
    ]


def _per_second(name: str, by: str) -> str:
    return f"sum by ({by}) (rate({name}{{{AT}}}[{RATE}]))"


def _slowest(name: str, by: str) -> str:
    return f"histogram_quantile(0.99, sum by ({by}, le) (rate({name}_bucket{{{AT}}}[{RATE}])))"


def _agents() -> list[Any]:
    return [
        over_time(
            "Readings per second",
            "The rate of each source, and the rate that the governor allows. 10 is normal; less means missed or costly ticks.",
            "hertz",
            {
                "{{instance}} {{source}}": f"max by (instance, source) (epochcast_agent_effective_hertz{{{AT}}})",
                "{{instance}} {{source}} allowed": f"max by (instance, source) (epochcast_agent_target_hertz{{{AT}}})",
            },
            least=0,
        ),
        over_time(
            "Ticks: duration and delay, 99th percentile",
            "Time that a tick's readings take; from when it was due to its start (up to 0.05 s is GPM's rest).",
            "s",
            {
                "{{instance}} takes": _slowest("epochcast_agent_tick_seconds", "instance"),
                "{{instance}} late": _slowest("epochcast_agent_tick_lateness_seconds", "instance"),
            },
            least=0,
        ),
        over_time(
            "What is missing, per second",
            "Missed: skipped because too late. Governed: skipped because ticks took too much CPU time. Blank: a reading "
            "without a value. Errors: a whole source failed.",
            "cps",
            {
                "{{instance}} missed": _per_second("epochcast_agent_missed_ticks_total", "instance"),
                "{{instance}} governed": _per_second("epochcast_agent_governed_ticks_total", "instance"),
                "{{instance}} blank": _per_second("epochcast_agent_blanks_total", "instance"),
                "{{instance}} errors": _per_second("epochcast_agent_read_errors_total", "instance"),
            },
            least=0,
            width=8,
        ),
        over_time(
            "Age of the newest sample",
            "By source. A replay has the times of its recording.",
            "s",
            {
                "{{instance}} {{source}}": "time() - max by (instance, source)"
                f' (epochcast_agent_last_sample_timestamp_seconds{{{AT},source!="replay"}})'
            },
            steps=[(None, GREEN), (10, RED)],
            width=8,
        ),
        over_time(
            "GPUs",
            "GPUs that the machine should have, and those that give samples.",
            "short",
            {
                "{{instance}} expected": f"max by (instance) (epochcast_gpus_expected{{{AT}}})",
                "{{instance}} present": f"max by (instance) (epochcast_gpus_present{{{AT}}})",
            },
            least=0,
            width=8,
        ),
    ]


def _detection() -> list[Any]:
    return [
        rows(
            "Telemetry sources",
            "What is read, whether the last poll succeeded, how old the newest sample was, and failed polls in the last hour.",
            {
                "up": f"max by (instance, kind, source) (epochcast_analyzer_source_up{{{AT}}})",
                "lag": f"max by (instance, kind, source) (epochcast_analyzer_source_lag_seconds{{{AT}}})",
                "polls": f"max by (instance, kind, source) (increase(epochcast_analyzer_source_polls_total{{{AT}}}[1h]))",
                "errors": f"max by (instance, kind, source) (increase(epochcast_analyzer_source_errors_total{{{AT}}}[1h]))",
            },
            [
                Column("instance", "instance"),
                Column("kind", "kind"),
                Column("source", "source"),
                Column("up", "up", words=UP),
                Column("lag", "lag", "s"),
                Column("polls", "polls in 1 h", decimals=0),
                Column("errors", "failed in 1 h", decimals=0),
            ],
        ),
        over_time(
            "GPUs watched",
            "GPUs whose detector runs at the instance.",
            "short",
            {"{{instance}}": f"max by (instance) (epochcast_analyzer_watched_gpus{{{AT}}})"},
            least=0,
            width=6,
        ),
        over_time(
            "Backlog",
            "Samples that were read and wait for the detectors.",
            "short",
            {"{{instance}}": f"max by (instance) (epochcast_analyzer_backlog_samples{{{AT}}})"},
            least=0,
            width=6,
        ),
        over_time(
            "CPU of detection",
            "CPU seconds per second that detectors take: 1 is a whole core.",
            "percentunit",
            {"{{instance}}": _per_second("epochcast_analyzer_detection_cpu_seconds_total", "instance")},
            least=0,
            width=6,
        ),
        over_time(
            "Lost and failed, per second",
            "Samples dropped because detectors lag behind, and writes to the state that failed.",
            "cps",
            {
                "{{instance}} dropped samples": _per_second("epochcast_analyzer_backlog_dropped_samples_total", "instance"),
                "{{instance}} failed writes": _per_second("epochcast_analyzer_store_errors_total", "instance"),
            },
            least=0,
            width=6,
        ),
    ]


def _service() -> list[Any]:
    return [
        over_time(
            "Requests per second",
            "Requests answered, by route and status.",
            "reqps",
            {"{{route}} {{status}}": _per_second("epochcast_analyzer_requests_total", "route, status")},
            least=0,
        ),
        over_time(
            "Time to answer, 99th percentile",
            "By route.",
            "s",
            {"{{route}}": _slowest("epochcast_analyzer_request_seconds", "route")},
            least=0,
        ),
        over_time(
            "Rounds of grouping and predicting",
            "Time of one round: the mean, and the 99th percentile.",
            "s",
            {
                "mean": f"{_per_second('epochcast_analyzer_analysis_seconds_sum', 'instance')}"
                f" / {_per_second('epochcast_analyzer_analysis_seconds_count', 'instance')}",
                "99th percentile": _slowest("epochcast_analyzer_analysis_seconds", "instance"),
            },
            least=0,
            width=8,
        ),
        over_time(
            "Refused requests per second",
            "Refused before any work: no token, body too large, too many requests, service too busy.",
            "reqps",
            {"{{reason}}": _per_second("epochcast_analyzer_refused_requests_total", "reason")},
            least=0,
            width=8,
        ),
        over_time(
            "Failures in an hour",
            "Rounds (or jobs in one) that failed, worker processes that died or took too long, watchers that were restarted.",
            "short",
            {
                "rounds": f"sum(increase(epochcast_analyzer_analysis_errors_total{{{AT}}}[1h]))",
                "workers": f"sum(increase(epochcast_analyzer_worker_restarts_total{{{AT}}}[1h]))",
                "watchers": f"sum(increase(epochcast_analyzer_watcher_restarts_total{{{AT}}}[1h]))",
            },
            least=0,
            width=8,
        ),
    ]


def _cost() -> list[Any]:
    processes = f'job=~"epochcast-.+",{AT}'
    return [
        over_time(
            "CPU",
            "CPU seconds per second of each process, without the service's watcher and workers, which are separate processes.",
            "percentunit",
            {"{{job}} {{instance}}": f"max by (job, instance) (rate(process_cpu_seconds_total{{{processes}}}[{RATE}]))"},
            least=0,
        ),
        over_time(
            "Memory",
            "Resident memory of each process.",
            "bytes",
            {"{{job}} {{instance}}": f"max by (job, instance) (process_resident_memory_bytes{{{processes}}})"},
            least=0,
        ),
    ]
