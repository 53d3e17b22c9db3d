"""Writes two hours of the demo's recordings as traces of three GPUs that begin now: a job on two of them, another on the third.

The recordings are simulated; no hardware was read.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from epochcast.analyzer.demo.player import Recording
from epochcast.analyzer.traces.trace import Trace, write_trace

ROWS = 2 * 3600 * 10
GPUS = {"0": "a10g_0", "1": "a10g_1", "2": "v100_0"}


def main(folder: Path) -> None:
    """Leave the traces in ``folder``, one file for each GPU, in place of older ones; the agent of its image reads CSV only."""
    times = time.time() + 0.1 * np.arange(ROWS)
    for number, name in GPUS.items():
        recording = Recording.read(name)
        frame = pd.DataFrame({"time": times, **recording.played(ROWS, 0, job=0, turn=0)})
        uuid = f"GPU-simulated-{number}"
        write_trace(Trace(frame, recording.gpu, uuid=uuid, source="replay", simulated=True), folder / f"{number}.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
