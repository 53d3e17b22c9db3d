"""How the service answers next to strangers: half-sent heads, slow bodies, and more clients than it can serve.

    python -m lab.speed.service.strangers [--seconds 20] [--write]

A real ``epochcast serve`` with 64 GPUs in its state. The strangers run in a process of their own and come from 127.0.0.2 and
on; one that is cut off comes back a second later. Half-sent heads: 1,500 connections that never end their head, from 8
addresses. Slow bodies: 200 uploads that send a byte a second, from 200 addresses. Clients: 200 that request predictions, each
again as soon as it has its answer, also where that is a refusal, from 200 addresses. Meanwhile 127.0.0.1 reads /healthz ten
times a second and the page twice a second, and uploads a trace of 10 minutes (CSV) every two seconds. Each request has a
connection of its own. All of it shares this machine.
"""

import asyncio
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from epochcast.analyzer.live.state_store import GpuChange, StateStore
from lab.speed.page import ANALYZER, markdown_table, options, publish
from lab.speed.processes import listening, machine
from lab.speed.service.page_sizes import reports
from lab.speed.service.predictions_per_second import questions

GPUS = 64
HEADS, BODIES, CLIENTS = 1500, 200, 200
BACK_S = 1.0
SETTLE_S = 3.0
WARM_UP_S = 15.0  # the state is analysed, a worker started, the page rendered

Answer = tuple[float, int]
"""Seconds, and the status: 0 where there was none."""
Stranger = Callable[[str, int, str, list[Answer]], Coroutine[None, None, None]]


def request(method: str, path: str, body: bytes = b"", kind: str = "application/json", length: int | None = None) -> bytes:
    """A whole request, or, with a longer ``length``, one whose body goes on."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body


async def status_of(reader: asyncio.StreamReader) -> int:
    """Read an answer; its status, 0 where the connection ended instead."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
        await reader.readexactly(length)
    except (OSError, asyncio.IncompleteReadError):
        return 0
    return int(head.split(b" ", 2)[1])


async def half_head(host: str, port: int, address: str, answers: list[Answer]) -> None:
    """Send half a head and wait to be cut off."""
    reader, writer = await asyncio.open_connection(host, port, local_addr=(address, 0))
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    await status_of(reader)
    writer.close()


async def slow_body(host: str, port: int, address: str, answers: list[Answer]) -> None:
    """Begin an upload and send a byte a second until the end."""
    reader, writer = await asyncio.open_connection(host, port, local_addr=(address, 0))
    writer.write(request("POST", "/api/v1/traces/detections", b"time,", "text/csv", 1_000_000))
    end = asyncio.create_task(status_of(reader))
    while not end.done():
        writer.write(b"x")
        await asyncio.wait([end], timeout=1.0)
    writer.close()


async def client(host: str, port: int, address: str, answers: list[Answer]) -> None:
    """Request predictions, each as soon as the one before is answered."""
    reader, writer = await asyncio.open_connection(host, port, local_addr=(address, 0))
    (body,), status = questions(1, int(address.rpartition(".")[2])), 1
    while status:
        began = time.perf_counter()
        writer.write(request("POST", "/api/v1/predictions", body))
        status = await status_of(reader)
        answers.append((time.perf_counter() - began, status))
    writer.close()


def come(url: str, kinds: list[tuple[Stranger, int, int]], pipe: Connection) -> None:
    """A process of strangers, until something comes through the pipe, which then gets what they were answered."""
    place, answers = urlsplit(url), list[Answer]()

    async def again(kind: Stranger, address: str) -> None:
        while True:
            with suppress(OSError):
                await kind(str(place.hostname), int(place.port or 0), address, answers)
            await asyncio.sleep(BACK_S)

    async def all_of_them() -> None:
        tasks = [
            asyncio.create_task(again(kind, f"127.0.0.{2 + n % addresses}"))
            for kind, count, addresses in kinds
            for n in range(count)
        ]
        while not pipe.poll():
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()

    asyncio.run(all_of_them())
    pipe.send(answers)


@contextmanager
def strangers(url: str, kinds: list[tuple[Stranger, int, int]]) -> Iterator[list[Answer]]:
    """Have them come until the block ends; what they were answered is filled in then."""
    answers = list[Answer]()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=come, args=(url, kinds, theirs))
    process.start()
    time.sleep(SETTLE_S)
    try:
        yield answers
    finally:
        ours.send(None)
        answers += ours.recv()
        process.join()


async def probe(url: str, sent: bytes, every_s: float, until: float) -> list[Answer]:
    """Send a request every so many seconds, each over a connection of its own, whether or not those before are answered."""
    place = urlsplit(url)

    async def answered() -> Answer:
        began = time.perf_counter()
        try:
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
        except OSError:
            return time.perf_counter() - began, 0
        writer.write(sent)
        status = await status_of(reader)
        writer.close()
        return time.perf_counter() - began, status

    tasks = []
    while time.monotonic() < until:
        tasks.append(asyncio.create_task(answered()))
        await asyncio.sleep(every_s)
    return await asyncio.gather(*tasks)


async def probes(url: str, upload: bytes, seconds: float) -> list[list[Answer]]:
    """Answers to health, page and uploads."""
    until = time.monotonic() + seconds
    sent = ((request("GET", "/healthz"), 0.1), (request("GET", "/"), 0.5), (upload, 2.0))
    return await asyncio.gather(*(probe(url, each, every_s, until) for each, every_s in sent))


def shown(answers: list[Answer], expected: int = 200) -> str:
    """Percentiles of the seconds of answers of a status [ms], and how many had another."""
    took = 1e3 * np.array([seconds for seconds, status in answers if status == expected])
    others = Counter(status or "no answer" for _, status in answers if status != expected)
    if not took.size:
        return f"none ({', '.join(f'{count} x {status}' for status, count in others.items())})" if answers else "-"
    median, p99 = np.percentile(took, (50, 99))
    failed = "".join(f"; {count} x {status}" for status, count in others.items()) if expected == 200 else ""
    return f"{median:.0f} / {p99:.0f} ms (n = {took.size}{failed})"


def trace() -> bytes:
    """Ten minutes of a training with epochs of 30 s, at 10 Hz."""
    begin, lines = 1.7e9, ["time,gpu_utilization,power"]
    for tick in range(6000):
        works = tick % 300 >= 20
        lines.append(f"{begin + tick / 10:.1f},{0.95 if works else 0.02},{180 if works else 40}")
    return "\n".join(lines).encode()


def fill(path: Path) -> None:
    """Write the state of a fleet."""
    store = StateStore(path)
    store.write_gpus([GpuChange(report) for report in reports(GPUS, 4, time.time())])
    store.close()


def measured(seconds: float) -> Iterator[str]:
    """Yield the table."""
    heads, bodies, clients = (half_head, HEADS, 8), (slow_body, BODIES, BODIES), (client, CLIENTS, CLIENTS)
    cases: list[tuple[str, list[tuple[Stranger, int, int]]]] = [
        ("none", []),
        (f"{HEADS} half-sent heads", [heads]),
        (f"{BODIES} slow bodies", [bodies]),
        (f"{CLIENTS} clients", [clients]),
        ("all three", [heads, bodies, clients]),
    ]
    header = ("strangers", "health, median / p99", "page", "upload", "clients answered", "clients refused (503)")
    rows = []
    upload = request("POST", "/api/v1/traces/detections", trace(), "text/csv")
    with tempfile.TemporaryDirectory() as name:
        state = Path(name) / "state.db"
        fill(state)
        settings = f'state = "{state}"\n'
        with listening("epochcast.analyzer", "serve", folder=Path(name), settings=settings) as service:
            asyncio.run(probes(service.url, upload, WARM_UP_S))
            for beside, kinds in cases:
                with strangers(service.url, kinds) as theirs:
                    ours = asyncio.run(probes(service.url, upload, seconds))
                rows.append((beside, *map(shown, ours), shown(theirs) if clients in kinds else "", shown(theirs, 503)))
    yield from markdown_table(header, rows)
    yield ""
    yield f"{machine()}; {GPUS} GPUs, {seconds:g} s each."


def main() -> None:
    """Measure; print or write the table."""
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each measurement (default 20)")
    arguments = parser.parse_args()
    publish(ANALYZER, "strangers", measured(arguments.seconds), write=arguments.write)


if __name__ == "__main__":
    main()
