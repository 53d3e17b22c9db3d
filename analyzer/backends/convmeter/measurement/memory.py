"""Free memory for measurements."""

from __future__ import annotations

from pathlib import Path

import torch


def free_bytes(device: str) -> float:
    """Bytes that this program can still take; infinite where the system does not say."""
    if device == "cuda":
        return float(torch.cuda.mem_get_info()[0])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float("inf")
    kibibytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return 1024.0 * kibibytes[0] if kibibytes else float("inf")
