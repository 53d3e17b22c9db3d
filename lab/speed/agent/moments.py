"""How far the time of a row is from when the driver measured its values: an agent's rows against the stub driver's own log.

    python -m lab.speed.agent.moments [--seconds 60] [--write]

The stub libnvidia-ml notes when it answers each call. Profiling metrics are of the time up to a GPM sample, other values
of the call that gives them; a real driver's calls take time, and a value may be of any moment within.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.speed.agent.stubbed import GPUS, running_agent, spread, stubbed_driver
from lab.speed.page import MEASUREMENTS, markdown_table, options, publish
from lab.speed.processes import machine

WARM_UP_S = 5.0
# The calls by the column that they give.
CALLS = {"sm_active": "nvmlGpmSampleGet", "power": "nvmlDeviceGetFieldValues", "temperature": "nvmlDeviceGetTemperature"}


def measured(seconds: float) -> Iterator[str]:
    """Yield the tables."""
    with stubbed_driver("log 1") as driver, running_agent(driver) as agent:
        time.sleep(WARM_UP_S)
        before = agent.figures()
        time.sleep(seconds)
        after, gpus = agent.figures(), agent.json("/api/v1/samples")["gpus"]
        answered = defaultdict(list)
        for line in Path(driver["NVML_STUB_SCENARIO"] + ".log").read_text().splitlines():
            moment, call, gpu = line.split()
            answered[call, gpu].append(float(moment))
    rows = []
    for column, call in CALLS.items():
        apart = np.concatenate(
            [_apart(gpu["time"], gpu["metrics"][column], np.array(answered[call, gpu["label"]])) for gpu in gpus]
        )
        worst = f"{1e3 * np.percentile(apart, 99):.2f} ms"
        rows.append((f"`{column}`", f"{len(apart)}", f"{1e3 * np.median(apart):.2f} ms", worst, f"{1e3 * apart.max():.2f} ms"))
    yield from markdown_table(("value", "values", "from its row's time: median (5 ms)", "p99 (15 ms)", "most"), rows)
    yield ""
    mean, most = spread(before, after, "epochcast_agent_tick_lateness_seconds")
    own = ("`epochcast_agent_tick_lateness_seconds`: from due to begun", f"{mean:.2f} ms", f"< {most:g} ms")
    yield from markdown_table(("the agent's own histogram", "mean", "p99"), [own])
    yield ""
    yield f"{GPUS} GPUs, {seconds:g} s, {machine()}."


def _apart(times: list[float], values: list[float | None], answered: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds between the rows with a value and the driver's answer that is nearest to each."""
    rows = np.array([moment for moment, value in zip(times, values, strict=True) if value is not None])
    return np.asarray(np.min(np.abs(rows[:, None] - answered), axis=1))


def main() -> None:
    """Measure; print or write the tables."""
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the measurement (default 60)")
    arguments = parser.parse_args()
    publish(MEASUREMENTS, "agent_moments", measured(arguments.seconds), write=arguments.write)


if __name__ == "__main__":
    main()
