"""Matrix products of known size, each kind for three seconds: what a GPU's tensor activity and clock say of their true rate.

On a machine with a GPU: ``epochcast record --out products.parquet -- python -m lab.speed.agent.matrix_products marks.json``.
Marks are seconds of the unix clock. Clock, power and the reasons for a reduced clock are read next to them at 20 Hz.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pynvml
import torch

BLOCK_S = 3.0
PAUSE_S = 0.7
READING_S = 0.05
# Operations that are queued before the device is waited for: some milliseconds of work.
QUEUED = 2e11
SIDE = 8192
COPIED = 2**31


def repeat(step: Callable[[], Any], queued: int, busy: float = 1.0) -> dict[str, float]:
    """Repeat ``step``, ``queued`` times before each wait, working the share ``busy`` of the time."""
    step()
    torch.cuda.synchronize()
    start, count, worked = time.time(), 0, 0.0
    while time.time() - start < BLOCK_S:
        began = time.time()
        for _ in range(queued):
            step()
        torch.cuda.synchronize()
        elapsed = time.time() - began
        count, worked = count + queued, worked + elapsed
        time.sleep(elapsed * (1 / busy - 1))
    return {"start": start, "end": time.time(), "count": count, "busy_s": worked}


def product(dtype: torch.dtype, side: int = SIDE, *, tf32: bool = False, busy: float = 1.0) -> dict[str, float]:
    """Multiply two square matrices."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a, b = (torch.randn(side, side, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)
    return repeat(partial(torch.matmul, a, b, out=out), max(1, int(QUEUED // side**3)), busy) | {"operations": 2 * side**3}


def product_fp8() -> dict[str, float]:
    """Multiply two square matrices of 8-bit floats into one of BF16."""
    a, b = (torch.randn(SIDE, SIDE, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    scale = torch.tensor(1.0, device="cuda")
    step = partial(torch._scaled_mm, a, b.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)
    return repeat(step, 10) | {"operations": 2 * SIDE**3}


def copy() -> dict[str, float]:
    """Copy device memory; its bytes are read once and written once."""
    source = torch.randn(COPIED // 4, device="cuda")
    return repeat(partial(torch.empty_like(source).copy_, source), 10) | {"bytes": 2 * COPIED}


def idle() -> dict[str, float]:
    """Hold memory and do nothing."""
    start = time.time()
    time.sleep(BLOCK_S)
    return {"start": start, "end": time.time()}


BLOCKS: dict[str, Callable[[], dict[str, float]]] = {
    "held_idle": idle,
    "fp16_8192": partial(product, torch.float16),
    "bf16_8192": partial(product, torch.bfloat16),
    "tf32_8192": partial(product, torch.float32, tf32=True),
    "fp32_8192": partial(product, torch.float32),
    "fp64_4096": partial(product, torch.float64, 4096),
    "fp8_8192": product_fp8,
    "bf16_1024": partial(product, torch.bfloat16, 1024),
    "bf16_8192_half": partial(product, torch.bfloat16, busy=0.5),
    "copy": copy,
}


def main() -> None:
    """Run all blocks and write their marks to the file named on the command line."""
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    readings: list[dict[str, float]] = []
    stop = Event()

    def read() -> None:
        while not stop.wait(READING_S):
            readings.append(
                {
                    "time": time.time(),
                    "sm_clock": 1e6 * pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
                    "clock_event_reasons": pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
                    "power": 1e-3 * pynvml.nvmlDeviceGetPowerUsage(gpu),
                }
            )

    torch.zeros(1, device="cuda")
    blocks: dict[str, dict[str, float]] = {}
    thread = Thread(target=read)
    thread.start()
    try:
        for name, run in BLOCKS.items():
            blocks[name] = run()
            print(name, blocks[name], flush=True)
            torch.cuda.empty_cache()
            time.sleep(PAUSE_S)
    finally:
        stop.set()
        thread.join()
    max_sm_clock = 1e6 * pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM)
    result = {"gpu": torch.cuda.get_device_name(), "max_sm_clock": max_sm_clock, "blocks": blocks, "readings": readings}
    Path(sys.argv[1]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
