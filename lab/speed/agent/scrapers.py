"""What a hundred scrapers do to the sampler: page times and tick lateness of a real agent on the stub libnvidia-ml.

    python -m lab.speed.agent.scrapers [--seconds 20] [--scrapers 100] [--write]

Eight GPUs, every metric fast, the page compressed as Prometheus asks for it. Nobody, one scraper a second, all scrapers once a
second, and all as fast as they are answered (which takes a whole core: more than any number of Prometheus servers will ask).
Then one scraper, and one of health, next to 500 connections that say nothing and 500 that drip a header, of eight other
addresses and of the scraper's own; who is cut off comes back. All share this machine with the agent.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from urllib.parse import urlsplit

import numpy as np

from lab.speed.agent.stubbed import EVERYTHING_FAST, running_agent, spread, stubbed_driver
from lab.speed.page import MEASUREMENTS, markdown_table, options, publish
from lab.speed.processes import Server

REQUEST = (
    b"GET %s HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nConnection: close\r\n"
    b"Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n\r\n"
)
WARM_UP_S = 11.0  # two windows of /metrics
STRANGERS = 1000
DRIP_S = 0.5
OTHERS = [f"127.0.0.{number}" for number in range(2, 10)]
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


async def stranger(url: str, address: str, drips: bool, until: float) -> None:
    """Connect from an address and say nothing, or drip a header; come back when cut off."""
    place = urlsplit(url)
    while time.monotonic() < until:
        try:
            reader, writer = await asyncio.open_connection(place.hostname, place.port, local_addr=(address, 0))
            if drips:
                writer.write(b"GET /metrics HTTP/1.1\r\n")
            while time.monotonic() < until and not reader.at_eof():
                await asyncio.sleep(DRIP_S)
                if drips:
                    writer.write(b"X-Drip: 1\r\n")
            writer.close()
        except OSError:
            await asyncio.sleep(DRIP_S)


async def scraper(url: str, path: str, delay: float, interval: float, until: float) -> list[float]:
    """Scrape every ``interval`` seconds (0: as soon as answered), first after ``delay``; seconds of each, NaN if it failed."""
    took, due, address = [], time.monotonic() + delay, urlsplit(url)
    while due < until:
        await asyncio.sleep(due - time.monotonic())
        began = time.monotonic()
        try:
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(REQUEST % path.encode())
            whole = (await reader.read()).partition(b"\r\n")[0].endswith(b" 200 OK")
            writer.close()
        except OSError:
            whole = False
        took.append(time.monotonic() - began if whole else float("nan"))
        due = max(due + interval, time.monotonic())
    return took


async def scrape(url: str, path: str, count: int, interval: float, seconds: float, beside: Sequence[str]) -> np.ndarray:
    """Let so many scrape, their beginnings spread over an interval, next to strangers; seconds of each page."""
    until = time.monotonic() + seconds
    addresses = list(islice(cycle(beside), STRANGERS))
    strangers = [asyncio.create_task(stranger(url, address, n % 2 == 0, until)) for n, address in enumerate(addresses)]
    answers = await asyncio.gather(*(scraper(url, path, interval * n / count, interval, until) for n in range(count)))
    await asyncio.sleep(until - time.monotonic())
    await asyncio.gather(*strangers)
    return np.concatenate([[], *answers])


def case(
    agent: Server,
    seconds: float,
    name: str,
    count: int,
    interval: float,
    path: str = "/metrics",
    beside: Sequence[str] = (),
) -> tuple[str, ...]:
    """What the scrapers saw and how the sampler fared, as a row."""
    before, began = agent.figures(), time.monotonic()
    took = asyncio.run(scrape(agent.url, path, count, interval, seconds, beside))
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
        for whose, addresses in (("other addresses", OTHERS), ("its own address", ["127.0.0.1"])):
            crowd = f"with {STRANGERS} connections from {whose}"
            rows.append(case(agent, seconds, f"1, once a second, {crowd}", 1, 1.0, "/metrics", addresses))
            rows.append(case(agent, seconds, f"health, ten times a second, {crowd}", 1, 0.1, "/healthz", addresses))
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
