"""What a hundred scrapers do to the sampler: page times and tick lateness of a real agent on the stub libnvidia-ml.

    python -m lab.speed.agent.scrapers [--seconds 20] [--scrapers 100] [--write]

Eight GPUs, every metric fast, the page compressed as Prometheus asks for it. Nobody, one scraper a second, all scrapers once a
second, and all as fast as they are answered (which takes a whole core: more than any number of Prometheus servers will ask).
All share this machine with the agent.
"""

import asyncio
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import numpy as np

from lab.speed.agent.stubbed import EVERYTHING_FAST, running_agent, spread, stubbed_driver
from lab.speed.page import MEASUREMENTS, markdown_table, options, publish
from lab.speed.processes import Server

REQUEST = (
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nConnection: close\r\n"
    b"Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n\r\n"
)
WARM_UP_S = 11.0  # two windows of /metrics
HEADER = (
    "scrapers",
    "pages/s",
    "failed",
    "page, median (p99)",
    "ticks/s",
    "missed ticks",
    "tick, mean",
    "lateness, mean (p99)",
)


async def scraper(url: str, delay: float, interval: float, until: float) -> list[float]:
    """Scrape every ``interval`` seconds (0: as soon as answered), first after ``delay``; seconds of each, NaN if it failed."""
    took, due, address = [], time.monotonic() + delay, urlsplit(url)
    while due < until:
        await asyncio.sleep(due - time.monotonic())
        began = time.monotonic()
        try:
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(REQUEST)
            whole = (await reader.read()).partition(b"\r\n")[0].endswith(b" 200 OK")
            writer.close()
        except OSError:
            whole = False
        took.append(time.monotonic() - began if whole else float("nan"))
        due = max(due + interval, time.monotonic())
    return took


async def scrape(url: str, count: int, interval: float, seconds: float) -> np.ndarray:
    """Let so many scrape, their beginnings spread over an interval; seconds of each page."""
    until = time.monotonic() + seconds
    answers = await asyncio.gather(*(scraper(url, interval * n / count, interval, until) for n in range(count)))
    await asyncio.sleep(until - time.monotonic())
    return np.concatenate([[], *answers])


def case(agent: Server, seconds: float, name: str, count: int, interval: float) -> tuple[str, ...]:
    """What the scrapers saw and how the sampler fared, as a row."""
    before, began = agent.figures(), time.monotonic()
    took = asyncio.run(scrape(agent.url, count, interval, seconds))
    after, elapsed = agent.figures(), time.monotonic() - began
    ticks, missed = (
        after[key] - before[key] for key in ("epochcast_agent_tick_seconds_count", "epochcast_agent_missed_ticks_total")
    )
    tick, _ = spread(before, after, "epochcast_agent_tick_seconds")
    late, most = spread(before, after, "epochcast_agent_tick_lateness_seconds")
    median, slowest = 1e3 * np.nanpercentile(took, (50, 99)) if count else (0.0, 0.0)
    pages = (f"{took.size / elapsed:.1f}", f"{np.isnan(took).sum()}", f"{median:.1f} ms ({slowest:.1f})")
    return name, *pages, f"{ticks / elapsed:.2f}", f"{missed:.0f}", f"{tick:.2f} ms", f"{late:.2f} ms (< {most:g})"


def measured(seconds: float, many: int) -> Iterator[str]:
    """Yield the table."""
    cases = (("none", 0, 0.0), ("1, once a second", 1, 1.0), (f"{many}, once a second each", many, 1.0))
    with stubbed_driver() as driver, running_agent(driver, EVERYTHING_FAST) as agent:
        time.sleep(WARM_UP_S)
        page = agent.text("/metrics")
        rows = [case(agent, seconds, *each) for each in (*cases, (f"{many}, without a pause", many, 0.0))]
    yield from markdown_table(HEADER, rows)
    yield ""
    yield f"The page of 8 GPUs: {page.count(chr(10))} lines, {len(page) / 1e3:.0f} kB."


def main() -> None:
    """Measure; print or write the table."""
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each measurement (default 20)")
    parser.add_argument("--scrapers", type=int, default=100, help="how many scrape at once (default 100)")
    arguments = parser.parse_args()
    publish(MEASUREMENTS, "agent_scrapers", measured(arguments.seconds, arguments.scrapers), write=arguments.write)


if __name__ == "__main__":
    main()
