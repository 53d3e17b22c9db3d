import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.agent.catalog import catalog
from epochcast.agent.ring import Ring

METRICS = [catalog()["power"], catalog()["energy"]]


def append(ring: Ring, time: float, values: np.ndarray) -> None:
    ring.extend(np.array([time]), values[None])


@given(capacity=st.integers(1, 7), rows=st.integers(0, 20), start=st.integers(-2, 22), length=st.integers(0, 22))
def test_reads_what_a_plain_list_would_hold(capacity: int, rows: int, start: int, length: int) -> None:
    ring = Ring(capacity, METRICS)
    held: list[tuple[float, float, float]] = []
    for i in range(rows):
        append(ring, float(i), np.array([i + 0.5, i + 0.25]))
        held = [*held, (float(i), i + 0.5, i + 0.25)][-capacity:]
    time, columns = ring.read(start, start + length)
    expected = [row for row in held if start <= row[0] < start + length]
    assert list(zip(time, columns["power"], columns["energy"], strict=True)) == expected
    assert ring.oldest == (held[0][0] if held else None)


@pytest.mark.parametrize("back_to", [2.0, 3.5, -1.0])
def test_a_clock_set_back_rewrites_the_rows_after_it(back_to: float) -> None:
    ring = Ring(4, METRICS)
    for tick in range(6):  # holds 2, 3, 4, 5
        append(ring, float(tick), np.array([tick, tick]))
    append(ring, back_to, np.array([99.0, 99.0]))
    time, columns = ring.read()
    assert time.tolist() == [t for t in (2.0, 3.0, 4.0, 5.0) if t < back_to] + [back_to]
    assert columns["power"][-1] == 99
    assert ring.dropped == 4 - len(time) + 1
    assert ring.set_back_to == back_to


def test_readers_never_see_a_torn_row() -> None:
    ring = Ring(50, METRICS)
    stop = threading.Event()
    torn: list[str] = []
    reads = 0

    def read() -> None:
        nonlocal reads
        while not stop.is_set():
            time, columns = ring.read()
            if not (np.array_equal(time, columns["power"]) and np.array_equal(time, columns["energy"])):
                torn.append("values of different rows")
            if (np.diff(time) != 1).any():
                torn.append("rows missing or out of order")
            reads += 1

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for tick in range(20_000):
        append(ring, float(tick), np.array([tick, tick]))
    stop.set()
    for reader in readers:
        reader.join()
    assert not torn
    assert reads > 0


@given(capacity=st.integers(1, 7), sizes=st.lists(st.integers(1, 12), max_size=5), seed=st.integers(0, 1000))
def test_rows_by_the_block_are_kept_as_rows_one_by_one(capacity: int, sizes: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    blocks, single = Ring(capacity, METRICS), Ring(capacity, METRICS)
    time = 0.0
    for size in sizes:
        times = time + np.cumsum(random.choice([1.0, 2.0, 0.0, -3.0], size, p=[0.7, 0.1, 0.1, 0.1]))
        values = random.random((size, 2))
        time = times[-1]
        blocks.extend(times, values)
        for moment, row in zip(times, values, strict=True):
            append(single, moment, row)
    assert blocks.read()[0].tolist() == single.read()[0].tolist()
    assert blocks.read()[1]["energy"].tolist() == single.read()[1]["energy"].tolist()
    assert blocks.since(0)[0] == single.since(0)[0]
