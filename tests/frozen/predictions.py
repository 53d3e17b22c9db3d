"""What the shipped regressor predicts: 24 profiles on each of the 53 GPUs of the catalogue, 1,272 predictions."""

import json
import tempfile
from pathlib import Path
from typing import Any

from .parts import Cases, Part, answer

DCGM = ("sm_active", "tensor_active", "dram_active", "pcie_rx", "gpu_utilization", "power", "sm_clock")
NVML = ("gpu_utilization", "memory_utilization", "power", "sm_clock")
BY_NVML: dict[str, Any] = {"metrics": NVML, "feature_set": "nvml"}
WITHOUT: dict[str, Any] = {"metrics": (), "feature_set": "none"}
EXACTLY: dict[str, Any] = {"epoch_s_low": None, "epoch_s_high": None}

# The profile beside this file, of a T4 by DCGM, with other values and only these metrics.
PROFILES: dict[str, dict[str, Any]] = {
    "T4 by DCGM": {},
    "T4 by DCGM in FP32": {"precision": "fp32", "metrics": DCGM},
    "T4 by NVML in mixed precision": {**BY_NVML, "precision": "mixed"},
    "T4 without telemetry": WITHOUT,
    "K80 by cycles": {"gpu": "K80", "unit": "cycle", **BY_NVML},
    "M60 by steps without telemetry": {"gpu": "M60", "unit": "step", **WITHOUT, "precision": "fp32"},
    "P100 by NVML in FP32": {"gpu": "P100 PCIe 16GB", **BY_NVML, "precision": "fp32", "batch": 32.0},
    "V100 by NVML in FP32": {"gpu": "V100 SXM2 16GB", **BY_NVML, "precision": "fp32"},
    "V100 by DCGM in mixed precision": {"gpu": "V100 SXM2 32GB", "precision": "mixed", "batch": 128.0},
    "two V100 by NVML": {"gpu": "V100 PCIe 32GB", "gpus": 2, **BY_NVML},
    "A10G by NVML in TF32": {"gpu": "A10G", **BY_NVML, "precision": "tf32", "epoch_s": 0.9, **EXACTLY},
    "A10G without telemetry": {"gpu": "A10G", **WITHOUT, "precision": "mixed"},
    "A100 by DCGM in FP32": {"gpu": "A100 SXM4 40GB", "precision": "fp32", "metrics": DCGM},
    "A100 without telemetry in TF32": {"gpu": "A100 PCIe 80GB", **WITHOUT, "precision": "tf32"},
    "four A100 in TF32": {"gpu": "A100 SXM4 80GB", "gpus": 4, "precision": "tf32", "batch": 256.0},
    "L4 by steps": {"gpu": "L4", "unit": "step", "epoch_s": 0.4, **EXACTLY, "metrics": DCGM},
    "L40S by NVML in FP8": {"gpu": "L40S", **BY_NVML, "precision": "fp8"},
    "RTX 3090 by NVML in mixed precision": {"gpu": "RTX 3090", **BY_NVML, "precision": "mixed", "batch": 64.0},
    "RTX A6000 without telemetry": {"gpu": "RTX A6000", **WITHOUT},
    "H100 by steps in FP8": {"gpu": "H100 SXM5", "unit": "step", "precision": "fp8"},
    "eight H100 in mixed precision": {"gpu": "H100 SXM5", "gpus": 8, "precision": "mixed", "batch": 1024.0},
    "H200 by cycles, a quarter of which it waits": {"gpu": "H200 SXM", "unit": "cycle", "wait_share": 0.25},
    "B200 by steps in FP8": {"gpu": "B200 SXM", "unit": "step", "precision": "fp8", "metrics": DCGM},
    "MI300X without telemetry": {"gpu": "MI300X", **WITHOUT, "precision": "mixed"},
}


def shipped() -> Cases:
    example = json.loads(Path(__file__).with_name("t4_profile.json").read_text(encoding="utf-8"))
    cases: Cases = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, changes in PROFILES.items():
            profile = example | changes
            profile["metrics"] = {one: example["metrics"][one] for one in profile["metrics"]}
            asked = Path(folder, "asked.json")
            asked.write_text(json.dumps(profile), encoding="utf-8")
            for one in answer(f"predict {asked}")["predictions"]:
                cases[f"{name}: {one['gpu']}"] = {key: one[key] for key in ("ratio", "ratio_low", "ratio_high", "route")}
    return cases


PARTS = [Part("shipped", shipped, quick=shipped)]
