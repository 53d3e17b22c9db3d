"""The program that runs under ncu: one step of the configuration in its argument (JSON), after two that are not profiled."""

from __future__ import annotations

import json
import sys

import torch

from ..configuration import Configuration
from .running import RunningNetworks


def main() -> None:
    """Run the steps."""
    step = RunningNetworks("cuda").step(Configuration(**json.loads(sys.argv[1])))
    for _ in range(2):
        step()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    step()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


if __name__ == "__main__":
    main()
