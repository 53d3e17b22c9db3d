"""What the agent's measurements share: an agent on the stub libnvidia-ml, and what it says of its ticks."""

import math
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from epochcast.agent.catalog import read_metrics
from epochcast.agent.sampler import Histogram
from lab.speed.page import ROOT
from lab.speed.processes import Server, listening

GPUS = 8
EVERYTHING_FAST = "\n".join(
    ["[tiers]", *(f'{name} = "fast"' for name, metric in read_metrics().items() if metric.scope == "gpu"), ""]
)
"""Settings under which every metric of a GPU is read in each tick."""


@contextmanager
def stubbed_driver() -> Iterator[dict[str, str]]:
    """Compile the stub; yield the environment in which programs find eight busy H200 that differ from update to update."""
    with tempfile.TemporaryDirectory() as folder:
        library, scenario = Path(folder) / "libnvidia-ml.so.1", Path(folder) / "scenario"
        source = ROOT / "tests" / "agent" / "nvml_stub.c"
        subprocess.run(["cc", "-std=c11", "-O2", "-shared", "-fPIC", "-pthread", "-o", library, source, "-lm"], check=True)
        scenario.write_text(f"frozen 1\ngpus {GPUS}\nepoch * 20 0.8\nripple 0.2\n")
        Path(f"{scenario}.delivered").write_bytes(bytes(16))
        yield {"LD_LIBRARY_PATH": folder, "NVML_STUB_SCENARIO": str(scenario)}


@contextmanager
def running_agent(driver: Mapping[str, str], settings: str = "", *, source: str = "gpm") -> Iterator[Server]:
    """Run an agent with these settings until the block ends; yield it once samples flow."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ("epochcast.agent", "--source", source)
        with listening(*arguments, folder=Path(folder), settings=settings, environment=driver) as agent:
            yield agent


def spread(before: Mapping[str, float], after: Mapping[str, float], name: str) -> tuple[float, float]:
    """Mean, and the bound that 99 % stay under [ms], of what a histogram of seconds grew by."""
    growth = {key: value - before.get(key, 0.0) for key, value in after.items() if key.startswith(name)}
    count = growth[f"{name}_count"]
    bounds = (bound for bound in Histogram.BOUNDS if growth.get(f"{name}_bucket{bound!r}", 0.0) >= 0.99 * count)
    below = next(bounds, math.inf)
    return 1e3 * growth[f"{name}_sum"] / count, 1e3 * below
