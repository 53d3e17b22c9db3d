"""Launch configurations of each class of kernels, from the public profiler traces: what the modelled kernels rest on.

Run: python -m benchmarks.occupancy.launch_configurations [--write]
    (prints the table, with how many launches each row rests on; --write puts it where the modelled kernels read it. The traces
    are `occupancy/kineto_kernels.csv.gz` in the data folder of EPOCHCAST_SHARED)

The configuration of a class is the one that most of its launches have: block, registers per thread, shared memory. Kernels
that cut their answer into tiles (matrix products, convolutions) have one row per tile. Beside them stand figures of each
GPU: the median time of kernels of one block, and the shares of the memory bandwidth that large additions and large strided
copies reach, whose sizes follow from their grids.
"""

from __future__ import annotations

import argparse
import json
import os
from importlib.resources import files
from pathlib import Path

import pandas as pd

from epochcast.regressor import load_catalog

TRACES = Path(os.environ.get("EPOCHCAST_SHARED", "shared")) / "data" / "occupancy" / "kineto_kernels.csv.gz"
TABLE = Path(str(files("epochcast.analyzer") / "backends/occupancy/modelled_kernels/launch_configurations.toml"))

CLASSES = {
    "elementwise": r"vectorized_elementwise_kernel<",
    "elementwise_strided": r"native::elementwise_kernel<128, [24]",
    "elementwise_cast": r"[^_]unrolled_elementwise_kernel<",
    "layer_norm": r"vectorized_layer_norm_kernel<",
    "softmax_of_a_block": r"cunn_SoftMaxForward<",
    "reduce_along_rows": r"reduce_kernel<512, 1",
    "concatenate": r"CatArrayBatchedCopy",
    "index_select_large": r"indexSelectLargeIndex",
    "index_select_small": r"indexSelectSmallIndex",
    "index": r"index_elementwise_kernel",
    "scatter_gather": r"_scatter_gather_elementwise_kernel",
    "scan": r"cub::DeviceScanKernel",
    "create": r"elementwise_kernel_with_index",
    "random": r"distribution_elementwise_grid_stride_kernel",
    "max_pool": r"max_pool_forward_nchw",
    "adaptive_average_pool": r"adaptive_average_pool<",
    "resize": r"upsample_\w+_out_frame",
    "channels_last": r"nchwToNhwcKernel",
    "channels_first": r"nhwcToNchwKernel",
    "convolution_offsets": r"cask_cudnn\w*::computeOffsetsKernel",
    "winograd_input": r"winogradForwardData4x4",
    "winograd_filter": r"winogradForwardFilter4x4",
    "winograd_output": r"winogradForwardOutput4x4",
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


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    text = table_text(read_traces())
    if options.write:
        TABLE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


def table_text(launches: pd.DataFrame) -> str:
    """The TOML table of these launches."""
    return "\n".join([*header(), *figures(launches), *classes(launches), *softmaxes(launches), *tiles(launches), ""])


def read_traces(path: Path = TRACES) -> pd.DataFrame:
    """All launches of a known GPU, with ``architecture`` (compute capability)."""
    table = pd.read_csv(path, dtype={"cc": str})
    table = table[table["device"].notna()].reset_index(drop=True)
    return table.assign(architecture=table["cc"].astype(float))


def header() -> list[str]:
    """What the file says of itself."""
    return [
        "# Launch configurations of classes of kernels, per architecture (compute capability): the one that most launches",
        "# have in the public profiler traces of PyTorch on V100, A100 and H100. `launches` is how many have it, `of` how many",
        "# there are. Block in threads, registers per thread, shared memory in bytes per block; `shortest`: seconds of the",
        "# shortest launch with at most two blocks per SM, 0 where there are few.",
        "# Made by benchmarks/occupancy/launch_configurations.py --write; assumed_configurations.toml has what no trace shows.",
    ]


def figures(launches: pd.DataFrame) -> list[str]:
    """The shortest kernel, and the bandwidth of large elementwise ones, per GPU."""
    lines = []
    for architecture, rows in launches.groupby("architecture"):
        plain = rows[rows["kernel"].str.contains(CLASSES["elementwise"])]
        single = plain[plain["grid_x"] == 1]
        is_addition = plain["kernel"].str.contains(r"CUDAFunctor_add<(?:float|c10::BFloat16)> ?[,>]")
        additions = plain[is_addition & (plain["grid_x"] >= LARGE_GRID)]
        width = additions["kernel"].str.contains("BFloat16").map({True: 2, False: 4})
        added = bandwidth_share(additions, 3 * 512 * additions["grid_x"] * width)
        apart = rows[rows["kernel"].str.contains(CLASSES["elementwise_strided"]) & rows["kernel"].str.contains("direct_copy")]
        copies = apart[apart["grid_x"] >= LARGE_GRID]
        # a thread takes two elements of four bytes or four of two: it reads eight bytes and writes eight
        copied = bandwidth_share(copies, 2 * 8 * 128 * copies["grid_x"])
        lines += [
            "",
            "[[gpu]]",
            f"architecture = {architecture}",
            f"shortest_kernel = {single['dur_us'].median() * 1e-6:.2e}  # s; of one block; {len(single)} launches",
            f"bandwidth_share = {added:.2f}  # of additions of {LARGE_GRID} blocks and more; {len(additions)} launches",
            f"strided_bandwidth_share = {copied:.2f}  # of copies of {LARGE_GRID} blocks and more; {len(copies)} launches",
        ]
    return lines


def bandwidth_share(launches: pd.DataFrame, moved: pd.Series) -> float:
    """Median share of the memory bandwidth of launches that move so many bytes."""
    bandwidth = launches["device"].map(lambda name: load_catalog().resolve(catalogue_name(name)).memory_bandwidth)
    return float((moved / (launches["dur_us"] * 1e-6) / bandwidth).median())


def catalogue_name(device: str) -> str:
    """Of a driver name: the traces have one that no shop sells."""
    return {"NVIDIA A100-PG509-200": "A100 SXM4 40GB"}.get(device, device)


def classes(launches: pd.DataFrame) -> list[str]:
    """One table per class and architecture."""
    lines = []
    for name, pattern in CLASSES.items():
        for architecture, rows in launches[launches["kernel"].str.contains(pattern)].groupby("architecture"):
            lines += ["", "[[kernel]]", f'class = "{name}"', f"architecture = {architecture}", *configuration(rows)]
    return lines


def softmaxes(launches: pd.DataFrame) -> list[str]:
    """A warp per row: one table per power of two that the row fits into."""
    power = launches["kernel"].str.extract(r"softmax_warp_forward<[^>]*?, (\d+), (?:true|false)")[0]
    lines = []
    for (architecture, exponent), rows in launches.groupby(["architecture", power.astype(float)]):
        lines += ["", "[[kernel]]", f'class = "softmax_of_a_warp_{2 ** int(exponent)}"', f"architecture = {architecture}"]
        lines += configuration(rows)
    return lines


def tiles(launches: pd.DataFrame) -> list[str]:
    """One table per tile, architecture and kind of product."""
    lines = []
    for (kind, arithmetic), pattern in TILES.items():
        found = launches["kernel"].str.extract(pattern)
        for (architecture, name), rows in launches.groupby(["architecture", found["name"]]):
            if len(rows) < LEAST_LAUNCHES:
                continue
            shape = found.loc[rows.index[0]]
            lines += [
                "",
                "[[tile]]",
                f'class = "{kind}"',
                f'arithmetic = "{arithmetic}"',
                f"architecture = {architecture}",
                f'name = "{name}"',
                f"rows = {shape['second' if kind == 'product' else 'first']}",
                f"columns = {shape['first' if kind == 'product' else 'second']}",
                f"alignments = {alignments(rows, str(name))}",
                *configuration(rows),
            ]
    return lines


def alignments(rows: pd.DataFrame, name: str) -> list[int]:
    """Elements that sides of the matrices must be multiples of, one for each variant that was seen."""
    if "xmma_gemm" in name:  # the tensor memory accelerator takes 16 bytes
        return [8]
    seen = rows["kernel"].str.extract(r"_align(\d+)")[0].dropna().astype(int)
    return sorted(set(seen)) or [1]


def shortest(rows: pd.DataFrame) -> float:
    """Seconds of the shortest launch among those with up to two blocks per SM; 0 where they are too few to tell."""
    blocks = rows["grid_x"] * rows["grid_y"] * rows["grid_z"]
    few = rows[blocks <= 2 * rows["sms"]]
    return 0.0 if len(few) < LEAST_SHORT else float(few["dur_us"].min()) * 1e-6


def configuration(rows: pd.DataFrame) -> list[str]:
    """The most frequent one, and how many launches have it of how many."""
    columns = ["block_x", "block_y", "block_z", "regs_per_thread", "shared_mem"]
    counted = rows.groupby(columns).size().sort_values(ascending=False, kind="stable")
    x, y, z, registers, shared = map(int, counted.index[0])
    return [
        f"block = {json.dumps([x, y, z])}",
        f"registers_per_thread = {registers}",
        f"shared_memory = {shared}",
        f"shortest = {shortest(rows):.2e}",
        f"launches = {int(counted.iloc[0])}",
        f"of = {len(rows)}",
    ]


if __name__ == "__main__":
    main()
