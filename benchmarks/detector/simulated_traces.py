"""Write a folder of simulated traces with their labels, for `epochcast evaluate detector --data DIR`.

Run: python -m benchmarks.detector.simulated_traces --out DIR [--traces 10] [--seed 0] [--cls NAME]...

Each is CLASS-SEED.parquet with CLASS-SEED.json beside it. The same options write the same traces.
"""

import argparse
import json
from pathlib import Path

import pandas as pd

from epochcast.analyzer.files import write_whole
from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.detector.simulator import CLASSES, SimulatedTrace, simulate_class


def write(trace: SimulatedTrace, path: Path) -> None:
    """A trace as Parquet and its labels beside it."""
    frame = pd.DataFrame({"time": trace.time, **trace.metrics})
    write_trace(Trace(frame, gpu=trace.gpu, source="simulator", simulated=True), path)
    write_whole(path.with_suffix(".json"), lambda file: file.write(json.dumps(trace.labels(), indent=1).encode()))


def main() -> None:
    """Write all traces that the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--traces", type=int, default=10, help="per class")
    parser.add_argument("--seed", type=int, default=0, help="of the first trace")
    parser.add_argument("--cls", action="append", choices=CLASSES, help="a class; all without")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for cls in options.cls or CLASSES:
        for seed in range(options.seed, options.seed + options.traces):
            write(simulate_class(cls, seed), options.out / f"{cls}-{seed}.parquet")


if __name__ == "__main__":
    main()
