"""What the agent costs at eight GPUs: CPU, memory and tick time of a real agent on the stub libnvidia-ml.

    python -m benchmarks.agent.cost [--seconds 60]

Once with the default tiers, once with every metric fast, once with the source ``host``. The stub answers at once: a real
driver's own time comes on top. Prints JSON.
"""

import argparse
import os
import time
from collections.abc import Mapping
from typing import Any

from epochcast.agent.catalog import catalog
from epochcast.agent.sampler import Histogram

from .stubbed import Agent, measured, running_agent, show, stubbed_driver

WARM_UP_S = 5.0
EVERYTHING_FAST = "[tiers]\n" + "".join(f'{metric.name} = "fast"\n' for metric in catalog().values() if metric.scope == "gpu")
CASES: dict[str, tuple[list[str], str]] = {
    "default tiers": (["--source", "gpm"], ""),
    "every metric fast": (["--source", "gpm"], EVERYTHING_FAST),
    "source host": (["--source", "host"], ""),
}


def cost(agent: Agent, seconds: float) -> dict[str, Any]:
    """Return CPU, memory, tick times and missed ticks of the next ``seconds``."""
    time.sleep(WARM_UP_S)
    before = agent.figures()
    figures: dict[str, Any] = measured(agent.process.pid, seconds)
    after = agent.figures()
    return figures | {
        "effective_hertz": round(after["epochcast_agent_effective_hertz"], 3),
        "missed_ticks": after["epochcast_agent_missed_ticks_total"] - before["epochcast_agent_missed_ticks_total"],
        "tick": spread(before, after, "epochcast_agent_tick_seconds"),
        "lateness": spread(before, after, "epochcast_agent_tick_lateness_seconds"),
    }


def spread(before: Mapping[str, float], after: Mapping[str, float], name: str) -> dict[str, float]:
    """Return the mean, and bounds that half and 99 % of the durations stay under (ms), of a histogram's growth."""
    count = after[f"{name}_count"] - before[f"{name}_count"]
    bounds = [bound for bound in Histogram.BOUNDS if f"{name}_bucket{bound!r}" in after]
    share = {bound: (after[f"{name}_bucket{bound!r}"] - before[f"{name}_bucket{bound!r}"]) / count for bound in bounds}
    return {
        "mean_ms": round(1e3 * (after[f"{name}_sum"] - before[f"{name}_sum"]) / count, 3),
        "p50_below_ms": 1e3 * next(bound for bound in bounds if share[bound] >= 0.5),
        "p99_below_ms": 1e3 * next(bound for bound in bounds if share[bound] >= 0.99),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each measurement (default 60)")
    seconds = parser.parse_args().seconds
    results = {}
    with stubbed_driver() as driver:
        for name, (arguments, configuration) in CASES.items():
            environment = dict(os.environ) if name == "source host" else driver
            with running_agent(arguments, environment, configuration) as agent:
                results[name] = cost(agent, seconds)
    show(results)


if __name__ == "__main__":
    main()
