"""What a figure of a GPU's data sheet can be: a user's own file is mostly wrong by a unit, and then the remedy is known."""

from dataclasses import dataclass

from epochcast.regressor.errors import InputError


@dataclass(frozen=True)
class _Range:
    """Bounds of a figure in its base unit, and factors from other units to it, the likelier first."""

    low: float
    high: float
    unit: str
    factors: tuple[tuple[str, float], ...] = ()


# Bounds by choice, as those of `_RANGES`.
_CLOCK = _Range(2e8, 3e10, "Hz", (("MHz", 1e6), ("GHz", 1e9), ("kHz", 1e3)))
_BANDWIDTH = _Range(5e9, 1e14, "bytes/s", (("GB/s", 1e9), ("TB/s", 1e12)))
_FLOPS = _Range(1e9, 1e18, "FLOP/s", (("TFLOP/s", 1e12), ("GFLOP/s", 1e9)))
_CACHE = _Range(1024, 1e10, "bytes", (("KiB", 1024), ("MiB", 1_048_576)))
_NUMBER = _Range(1, 1e6, "")

# Wide enough for the GPUs of the next decade; a figure outside is a slip, and a silent one would shift every answer. All bounds
# are by choice.
_RANGES = {
    "compute_capability": _Range(1, 30, "", (("the form 86", 0.1),)),
    "base_clock": _CLOCK,
    "boost_clock": _CLOCK,
    "memory_clock": _CLOCK,
    "memory": _Range(5e8, 4e12, "bytes", (("GiB", 2**30), ("MiB", 2**20))),
    "memory_bandwidth": _BANDWIDTH,
    "nvlink_bandwidth": _BANDWIDTH,
    "power_sampled": _Range(0.001, 1, ""),
    "memory_bus_width": _Range(32, 65_536, "bits", (("bytes", 8),)),
    "tdp": _Range(5, 5000, "W", (("kW", 1e3), ("mW", 1e-3))),
    "l2_cache": _CACHE,
    "l1_cache_per_sm": _CACHE,
    "shared_memory_per_sm": _CACHE,
    "shared_memory_per_block": _CACHE,
    "pcie_gen": _Range(1, 20, ""),
    "pcie_width": _Range(1, 64, "lanes"),
}


def check_figure(what: str, name: str, value: float) -> None:
    """Refuse a number that no GPU has.

    Raises:
        InputError: ``value`` is outside the range of the figure ``name``.
    """
    known = _FLOPS if name.endswith("_flops") else _RANGES.get(name, _NUMBER)
    if known.low <= value <= known.high:
        return
    unit = f" {known.unit}" if known.unit else ""
    for other, factor in known.factors:
        if known.low <= value * factor <= known.high:
            remedy = f"it looks like {other}, multiply by {factor:,g}"
            break
    else:
        remedy = "check the source"
    bounds = f"outside {known.low:g} to {known.high:g}{unit}"
    raise InputError(f"{what}: {name} is {value:g}{unit}, {bounds}; {remedy}")


def check_lanes(what: str, cuda_cores: int, sm_count: int) -> None:
    """Refuse CUDA cores and SMs that no GPU has together; they are easily swapped.

    Raises:
        InputError: there are not 8 (Tesla, 2006) to 512 (by choice) cores in an SM.
    """
    if not 8 <= cuda_cores / sm_count <= 512:
        raise InputError(
            f"{what}: cuda_cores is {cuda_cores} and sm_count {sm_count}; an SM has 8 to 512 cores, correct one of them"
        )
