"""The same sums on every machine, as far as that can be had."""

import os
from pathlib import Path


def add_alike() -> None:
    """Set what NumPy and torch read when they are imported.

    Arrays here are small, and threads that wait for a core which another process holds take many times as long. OpenBLAS'
    kernels for newer processors add in another order, and where searches end is compared (tests/golden, tests/frozen).
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if Path("/proc/cpuinfo").is_file() and " avx2 " in Path("/proc/cpuinfo").read_text():
        os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")
