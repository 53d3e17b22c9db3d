"""Launch configurations of each class of kernels, from the public profiler traces: what the modelled kernels rest on.

Run: python -m lab.speed.occupancy.launch_configurations [--write]
    (prints the table, with how many launches each row rests on; --write puts it where the modelled kernels read it)

The configuration of a class is the one that most of its launches have: block, registers per thread, shared memory. Kernels
that cut their answer into tiles (matrix products, convolutions) have one row per tile. Next to them stand figures of each
GPU: the median time of kernels of one block, and the shares of the memory bandwidth that large additions and large strided
copies reach, whose sizes follow from their grids.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import pandas as pd

from epochcast.analyzer.backends.occupancy.modelled_kernels.launch_configurations import MEASURED
from epochcast.analyzer.backends.occupancy.modelled_kernels.occupancy import CONFIGURATION
from epochcast.regressor import load_catalog
from lab.kernels.files import KernelFile, read_any
from lab.speed.page import options, public

HEADER = """\
# Launch configurations of classes of kernels, per architecture (compute capability): the one that most launches
# have in the public profiler traces of PyTorch on V100, A100 and H100. `launches` is how many have it, `of` how many
# there are. Block in threads, registers per thread, shared memory in bytes per block; `shortest`: seconds of the
# shortest launch with at most two blocks per SM, 0 where there are few.
# Made by lab/speed/occupancy/launch_configurations.py --write; assumed_configurations.toml has what no trace shows."""

SOLD_AS = {"NVIDIA A100-PG509-200": "A100 SXM4 40GB"}
"""A driver name of the traces that no shop has."""

CLASSES = {
    "elementwise": r"vectorized_elementwise_kernel<",
    "elementwise_strided": r"native::elementwise_kernel<128, [24]",
    "elementwise_cast": r"[^_]unrolled_elementwise_kernel<",
    "layer_norm": r"vectorized_layer_norm_kernel<",
    "softmax_of_a_block": r"cunn_SoftMaxForward<",
    "reduce_along_rows": r"reduce_kernel<512, 1",
    "concatenate": r"CatArrayBatchedCopy",
    "index_select_large": r"indexSelectLargeIndex",
    "index": r"index_elementwise_kernel",
    "scatter_gather": r"_scatter_gather_elementwise_kernel",
    "scan": r"cub::DeviceScanKernel",
    "random": r"distribution_elementwise_grid_stride_kernel",
    "max_pool": r"max_pool_forward_nchw",
    "resize": r"upsample_\w+_out_frame",
    "channels_last": r"nchwToNhwcKernel",
    "channels_first": r"nhwcToNchwKernel",
    "convolution_offsets": r"cask_cudnn\w*::computeOffsetsKernel",
    "flash_attention": r"flash_fwd_kernel",
    "split_k_reduce": r"splitKreduce_kernel",
    "bias_epilogue": r"epilogue::impl::globalKernel",
}
"""Name of the class, and what the names of its kernels have in them."""

TILES = {
    ("product", "fp32"): r"(?P<name>(?:volta|ampere)_sgemm_(?P<first>\d+)x(?P<second>\d+)(?:_sliced1x4)?)_[nt]{2}",
    ("product", "tf32"): r"(?P<name>cutlass_80_tensorop_s1688gemm_(?P<first>\d+)x(?P<second>\d+)_\d+x\d+)_[nt]{2}_align\d+",
    ("product", "half"): r"(?P<name>(?:cutlass_\d+_(?:wmma_)?tensorop_bf16_s\d+gemm_(?:bf16_|relu_bf16_)+|"
    r"sm90_xmma_gemm_bf16\w*?tilesize)(?P<first>\d+)x(?P<second>\d+)(?:_\d+x\d+|x\d+)?)",
    ("convolution", "fp32"): r"(?P<name>(?:volta|ampere)_scudnn_(?P<first>\d+)x(?P<second>\d+)_relu_[a-z]+(?:_large)?_nn)",
    (
        "convolution",
        "tf32",
    ): r"(?P<name>(?:sm80_xmma_fprop_implicit_gemm_(?:indexed_)?tf32f32_tf32f32_f32_nhwckrsc_n[a-z]+_tilesize|"
    r"cutlass_tensorop_s1688fprop_optimized_tf32_)(?P<first>\d+)x(?P<second>\d+)(?:x\d+|_\d+x\d+_nhwc))",
    (
        "convolution",
        "half",
    ): r"(?P<name>cutlass_tensorop_bf16_s16816fprop_optimized_bf16_(?P<first>\d+)x(?P<second>\d+)_\d+x\d+_nhwc)",
}
"""Kernels that cut their answer into tiles, by what they multiply.

The first number of a tile is along the columns of a product (cuBLAS counts them as rows), but along the pixels, which are the
rows, of a convolution; grids of launches with known sizes show it.
"""

LARGE_GRID = 16_384
"""Blocks of an elementwise kernel from which on the memory sets its time."""

LEAST_SHORT = 10
"""Launches of a few blocks that the shortest of them is taken from; the first kernels of a trace take long."""

LEAST_LAUNCHES = 3
"""A tile that was seen less often is left out."""


@cache
def traces() -> KernelFile:
    """The public traces."""
    return read_any(public("occupancy/kineto_kernels.csv.gz"))


def launches() -> pd.DataFrame:
    """All launches of a known GPU as a kernel table, with ``architecture`` (compute capability) and ``sms`` of the GPU."""
    table, limits = traces().table, traces().limits
    figures = {name: (gpu.compute_capability, gpu.sm_count) for name, gpu in limits.items()}
    known = pd.DataFrame.from_dict(figures, orient="index", columns=["architecture", "sms"])
    return table.merge(known, left_on="gpu", right_index=True).reset_index(drop=True)


def table_text(rows: pd.DataFrame) -> str:
    """The TOML table of these launches."""
    return "\n".join([HEADER, *gpus(rows), *kernels(rows), *tiles(rows), ""])


def gpus(rows: pd.DataFrame) -> Iterator[str]:
    """The shortest kernel, and the bandwidth of large elementwise ones, per architecture."""
    for architecture, own in rows.groupby("architecture"):
        plain = own[own["kernel"].str.contains(CLASSES["elementwise"])]
        single = plain[plain["grid_x"] == 1]
        is_addition = plain["kernel"].str.contains(r"CUDAFunctor_add<(?:float|c10::BFloat16)> ?[,>]")
        additions = plain[is_addition & (plain["grid_x"] >= LARGE_GRID)]
        width = additions["kernel"].str.contains("BFloat16").map({True: 2, False: 4})
        apart = own[own["kernel"].str.contains(CLASSES["elementwise_strided"]) & own["kernel"].str.contains("direct_copy")]
        copies = apart[apart["grid_x"] >= LARGE_GRID]
        # a thread of a copy takes two elements of four bytes or four of two: it reads eight bytes and writes eight
        added, copied = bandwidth_share(additions, 3 * 512 * width), bandwidth_share(copies, 2 * 8 * 128)
        yield from (
            "",
            "[[gpu]]",
            f"architecture = {architecture}",
            f"shortest_kernel = {single['duration'].median():.2e}  # s; of one block; {len(single)} launches",
            f"bandwidth_share = {added:.2f}  # of additions of {LARGE_GRID} blocks and more; {len(additions)} launches",
            f"strided_bandwidth_share = {copied:.2f}  # of copies of {LARGE_GRID} blocks and more; {len(copies)} launches",
        )


def bandwidth_share(rows: pd.DataFrame, block_bytes: pd.Series | float) -> float:
    """Median share of the memory bandwidth of launches whose blocks move so many bytes."""
    bandwidth = rows["gpu"].map(lambda name: load_catalog().resolve(SOLD_AS.get(str(name), str(name))).memory_bandwidth)
    return float((block_bytes * rows["grid_x"] / rows["duration"] / bandwidth).median())


def kernels(rows: pd.DataFrame) -> Iterator[str]:
    """A table per class and architecture; softmax by a warp per row has one per power of two that the row fits into."""
    for name, pattern in CLASSES.items():
        for architecture, own in rows[rows["kernel"].str.contains(pattern)].groupby("architecture"):
            yield from entry("kernel", {"name": f'"{name}"', "architecture": architecture}, own)
    power = rows["kernel"].str.extract(r"softmax_warp_forward<[^>]*?, (\d+), (?:true|false)")[0].astype(float)
    for (capability, exponent), own in rows.groupby(["architecture", power]):
        yield from entry(
            "kernel", {"name": f'"softmax_of_a_warp_{2 ** int(cast("float", exponent))}"', "architecture": capability}, own
        )


def tiles(rows: pd.DataFrame) -> Iterator[str]:
    """A table per tile, architecture and kind of product."""
    for (kind, arithmetic), pattern in TILES.items():
        parts = rows["kernel"].str.extract(pattern)
        for (architecture, name, first, second), own in rows.groupby(["architecture", *(parts[part] for part in parts)]):
            if len(own) < LEAST_LAUNCHES:
                continue
            down, across = (second, first) if kind == "product" else (first, second)
            # elements that sides must be multiples of, by variant; the tensor memory accelerator takes 16 bytes
            seen = own["kernel"].str.extract(r"_align(\d+)")[0].dropna().astype(int)
            aligned = [8] if "xmma_gemm" in str(name) else sorted(set(seen)) or [1]
            known = {"kind": f'"{kind}"', "arithmetic": f'"{arithmetic}"', "architecture": architecture, "name": f'"{name}"'}
            yield from entry("tile", {**known, "rows": down, "columns": across, "alignments": aligned}, own)


def entry(table: str, known: Mapping[str, Any], rows: pd.DataFrame) -> Iterator[str]:
    """A table of the most frequent configuration, with how many launches have it, and the shortest of a few blocks."""
    counted = rows.groupby(list(CONFIGURATION[3:])).size().sort_values(ascending=False, kind="stable")
    *block, registers, shared = map(int, counted.index[0])
    few = rows[rows["grid_x"] * rows["grid_y"] * rows["grid_z"] <= 2 * rows["sms"]]
    shortest = 0.0 if len(few) < LEAST_SHORT else float(few["duration"].min())
    figures = {
        **known,
        "block": block,
        "registers_per_thread": registers,
        "shared_memory": shared,
        "shortest": f"{shortest:.2e}",
        "launches": int(counted.iloc[0]),
        "of": len(rows),
    }
    yield from ("", f"[[{table}]]", *(f"{name} = {value}" for name, value in figures.items()))


if __name__ == "__main__":
    parser = options(__doc__, page=False)
    parser.add_argument("--write", action="store_true", help="put it where the modelled kernels read it")
    write, text = parser.parse_args().write, table_text(launches())
    if write:
        Path(str(MEASURED)).write_text(text, encoding="utf-8")
    else:
        print(text, end="")
