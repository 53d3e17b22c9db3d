"""What a hundred scrapers do to the sampler: page times and tick lateness of a real agent on the stub libnvidia-ml.

    python -m benchmarks.agent.scrapers [--seconds 20] [--scrapers 100]

Eight GPUs, every metric fast, the page compressed as Prometheus asks for it. Nobody, one scraper a second, all scrapers once a
second, and all as fast as they are answered (which takes a whole core: more than any number of Prometheus servers will ask).
The scrapers share this machine with the agent. Prints JSON.
"""

import argparse
import asyncio
import statistics
import time
from typing import Any
from urllib.parse import urlsplit

from .cost import EVERYTHING_FAST, spread
from .stubbed import Agent, running_agent, show, stubbed_driver

REQUEST = (
    b"GET /metrics HTTP/1.1\r\nHost: agent\r\nAccept-Encoding: gzip\r\nConnection: close\r\n"
    b"Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n\r\n"
)
WARM_UP_S = 7.0


class Scraper:
    """Asks for the page again and again; keeps how long each answer took (s) and how many were none."""

    def __init__(self, url: str, interval: float) -> None:
        self.took: list[float] = []
        self.failed = 0
        self._host, self._port = urlsplit(url).hostname, urlsplit(url).port
        self._interval = interval

    async def run(self, delay: float, until: float) -> None:
        """Scrape every ``interval`` seconds (0: as soon as answered), first after ``delay``."""
        due = time.monotonic() + delay
        while due < until:
            await asyncio.sleep(due - time.monotonic())
            began = time.monotonic()
            try:
                reader, writer = await asyncio.open_connection(self._host, self._port)
                writer.write(REQUEST)
                whole = (await reader.read()).startswith(b"HTTP/1.0 200")
                writer.close()
            except OSError:
                whole = False
            self.took.append(time.monotonic() - began)
            self.failed += not whole
            due = max(due + self._interval, time.monotonic())


async def scrape(scrapers: list[Scraper], interval: float, seconds: float) -> None:
    """Let them scrape, their beginnings spread over an interval."""
    until = time.monotonic() + seconds
    await asyncio.gather(*(scraper.run(interval * n / len(scrapers), until) for n, scraper in enumerate(scrapers)))


def case(agent: Agent, count: int, interval: float, seconds: float) -> dict[str, Any]:
    """Return what the scrapers saw and how the sampler fared."""
    scrapers = [Scraper(agent.url, interval) for _ in range(count)]
    before, began = agent.figures(), time.monotonic()
    if scrapers:
        asyncio.run(scrape(scrapers, interval, seconds))
    else:
        time.sleep(seconds)
    after, elapsed = agent.figures(), time.monotonic() - began
    took = sorted(1e3 * seconds for scraper in scrapers for seconds in scraper.took)
    ticks = "epochcast_agent_tick_seconds_count"
    figures: dict[str, Any] = {
        "pages_per_s": round(len(took) / elapsed, 1),
        "failed": sum(scraper.failed for scraper in scrapers),
        "cpu_percent": round(100 * (after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]) / elapsed, 1),
        "ticks_per_s": round((after[ticks] - before[ticks]) / elapsed, 2),
        "missed_ticks": after["epochcast_agent_missed_ticks_total"] - before["epochcast_agent_missed_ticks_total"],
        "lateness": spread(before, after, "epochcast_agent_tick_lateness_seconds"),
        "tick": spread(before, after, "epochcast_agent_tick_seconds"),
    }
    if took:
        figures["page_ms"] = {"median": round(statistics.median(took), 1), "p99": round(took[int(0.99 * len(took))], 1)}
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each measurement (default 20)")
    parser.add_argument("--scrapers", type=int, default=100, help="how many scrape at once (default 100)")
    options = parser.parse_args()
    with (
        stubbed_driver() as environment,
        running_agent(["--source", "gpm"], environment, EVERYTHING_FAST) as agent,
    ):
        time.sleep(WARM_UP_S)
        page = agent.text("/metrics")
        results: dict[str, Any] = {"page": {"lines": page.count("\n"), "bytes": len(page)}}
        for name, count, interval in (
            ("nobody", 0, 0.0),
            ("one, once a second", 1, 1.0),
            (f"{options.scrapers}, once a second each", options.scrapers, 1.0),
            (f"{options.scrapers}, without a pause", options.scrapers, 0.0),
        ):
            results[name] = case(agent, count, interval, options.seconds)
    show(results)


if __name__ == "__main__":
    main()
