"""Remote write to a Prometheus that is stopped for a minute: what arrives, what is dropped, what is counted.

    python -m lab.speed.agent.outage [--down 60] [--write]

A real agent on eight GPUs of the stub, a real Prometheus. Twice: with the default queue, which outlasts the outage, and with
one that does not. Every sample that the agent kept must be in Prometheus, or in a count.
"""

import math
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from lab.speed.agent.stubbed import running_agent, stubbed_driver
from lab.speed.page import MEASUREMENTS, markdown_table, options, publish
from lab.speed.processes import Prometheus, Server, free_port, prometheus

QUEUES = {"2 000 000 samples (default)": 2_000_000, "50 000 samples": 50_000}
STEADY_S = 10.0
CATCH_UP_S = 90.0
HEADER = ("queue", "sampled", "stored", "missing", "counted as dropped", "rejected", "caught up in", "missed ticks")


def stored(database: Prometheus, start: float, stop: float) -> int:
    """How many samples of GPUs Prometheus holds with times in [start, stop) [unix s]."""
    series = database.query(f'{{__name__=~"epochcast_gpu_.*"}}[{int(stop - start) + 60}s]', stop + 30)
    return sum(start <= time < stop for one in series for time, _ in one["values"])


def sampled(agent: Server, start: float, stop: float) -> int:
    """How many values the agent has sampled with times in [start, stop) [unix s]."""
    gpus = agent.json(f"/api/v1/samples?from={start}&to={stop}")["gpus"]
    return sum(value is not None for gpu in gpus for column in gpu["metrics"].values() for value in column)


def outage(down: float, name: str, queue: int) -> tuple[str, ...]:
    """Stop Prometheus for ``down`` seconds with a queue of so many samples; where each sample went, as a row."""
    port = free_port()
    settings = f'[push]\nurl = "http://127.0.0.1:{port}/api/v1/write"\ninterval = 1.0\nqueue = {queue}\n'
    with tempfile.TemporaryDirectory() as folder, stubbed_driver() as driver, running_agent(driver, settings) as agent:
        database = partial(prometheus, Path(folder), "--web.enable-remote-write-receiver", port=port)
        with database():
            start = math.ceil(time.time()) + 1.0
            time.sleep(STEADY_S)
        time.sleep(down)
        with database() as running:
            back = time.monotonic()
            while agent.figures()["epochcast_agent_push_queue_samples"] > 10_000 and time.monotonic() - back < CATCH_UP_S:
                time.sleep(0.2)
            caught_up = time.monotonic() - back
            time.sleep(STEADY_S)
            stop = math.floor(time.time()) - 4.0  # what is newer may be on its way
            agents, stores, figures = sampled(agent, start, stop), stored(running, start, stop), agent.figures()
    dropped, rejected = (figures[f"epochcast_agent_push_{what}_samples_total"] for what in ("dropped", "rejected"))
    counts = (agents, stores, agents - stores, dropped, rejected)
    return (
        name,
        *(f"{count:.0f}" for count in counts),
        f"{caught_up:.1f} s",
        f"{figures['epochcast_agent_missed_ticks_total']:.0f}",
    )


def measured(down: float) -> Iterator[str]:
    """Yield the table."""
    yield from markdown_table(HEADER, [outage(down, name, queue) for name, queue in QUEUES.items()])


def main() -> None:
    """Measure; print or write the table."""
    parser = options(__doc__)
    parser.add_argument("--down", type=float, default=60.0, help="seconds without Prometheus (default 60)")
    arguments = parser.parse_args()
    publish(MEASUREMENTS, "agent_outage", measured(arguments.down), write=arguments.write)


if __name__ == "__main__":
    main()
