"""Write every second, fourth and eighth sample of labelled traces, for `epochcast evaluate detector --data DIR`.

Run: python -m benchmarks.detector.thinned_traces --data DIR [--prefix NAME]... --out DIR

Each is NAME-EVERY.parquet with the labels of NAME beside it.
"""

import argparse
import shutil
from dataclasses import replace
from pathlib import Path

from epochcast.analyzer.traces.labels import labelled_traces
from epochcast.analyzer.traces.trace import write_trace

EVERY = (2, 4, 8)


def main() -> None:
    """Write all traces that the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of traces, each with NAME.json beside it")
    parser.add_argument("--prefix", action="append", help="of the names to take; all without")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, trace, _ in labelled_traces(options.data):
        if name.startswith(tuple(options.prefix or [""])):
            for every in EVERY:
                thinned = replace(trace, frame=trace.frame[::every].reset_index(drop=True))
                write_trace(thinned, options.out / f"{name}-{every}.parquet")
                shutil.copy(options.data / f"{name}.json", options.out / f"{name}-{every}.json")


if __name__ == "__main__":
    main()
