"""Operators whose time the memory sets: elementwise ones, copies, sums, softmax, normalisations, pooling."""

from __future__ import annotations

from dataclasses import replace

from epochcast.analyzer.backends.occupancy.modelled_kernels.operator import Kernel, ModelledOperator, Target, ceil_div

_CLASSES = {
    "average_pool": ("average_pool", 1),
    "batch_norm": ("batch_norm", 4),  # cuDNN's, with known statistics; elements assumed
    "create": ("elementwise", 4),
    "concatenate": ("concatenate", 4),
    "embedding": ("index_select_large", 1),
    "index": ("index", 4),
    "max_pool": ("max_pool", 1),
    "random": ("random", 4),
    "resize": ("resize", 1),
    "scan": ("scan", 15),  # elements assumed
    "scatter": ("scatter_gather", 4),
}
"""By word: the class of its kernel, and of how many answers a thread, however the elements lie."""

_ROWS = {"layer_norm": "layer_norm", "rms_norm": "layer_norm", "group_norm": "group_norm_moments"}
"""By word: the class of a kernel with a block for each row that is normalised."""

_WARP = 32
_SOFTMAX_THREADS = 128
_REDUCE_THREADS = 512


def elementwise(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """One kernel: a thread takes four elements that lie side by side, fewer of those that do not."""
    if name := _ROWS.get(operator.word):
        return [target.kernel(name, (ceil_div(operator.written, operator.side("reduced")), 1, 1), operator.moved)]
    if operator.hyper["strided"] and operator.word not in _CLASSES:
        return [target.strided(operator, operator.written, operator.moved)]
    name, of_a_thread = _CLASSES.get(operator.word, ("elementwise", 4))
    return [target.flat(name, operator.written, of_a_thread, operator.moved)]


def copy(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """Into another order, or from one type to another; what PyTorch's attention answers already lies as a copy would."""
    if operator.sources == ("attention",):
        return []
    if operator.hyper["strided"]:
        return [target.strided(operator, operator.written)]
    return [target.flat("elementwise_cast", operator.written, 4, operator.moved)]


def softmax(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """Rows of up to 1024 elements and 4 KiB: a warp for one or two of them; longer ones: a block for each."""
    length, classes = operator.side("reduced"), target.configurations.kernels
    rows = ceil_div(operator.written, length)
    if length > 1024 or length * operator.width > 4096:
        return [target.kernel("softmax_of_a_block", (rows, 1, 1), operator.moved)]
    padded = 1 << (length - 1).bit_length()
    traced = sorted(int(name.rpartition("_")[2]) for name in classes if name.startswith("softmax_of_a_warp_"))
    size = next((size for size in traced if size >= padded), traced[-1])
    lanes = min(padded, _WARP)
    warps = _SOFTMAX_THREADS // lanes
    configuration = replace(classes[f"softmax_of_a_warp_{size}"], block=(lanes, warps, 1))
    rows_of_a_warp = 2 if padded <= 128 else 1
    return [Kernel(configuration, (ceil_div(rows, rows_of_a_warp * warps), 1, 1), operator.moved)]


def reduce(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """PyTorch's reduction over elements side by side: threads along the row as far as it goes, further rows next to it.

    Where there are few answers of many elements each several blocks work on one.
    """
    length, answers = max(1, round(operator.read / operator.written)), ceil_div(operator.written, 1)
    along, beside = (1 << min(count, _REDUCE_THREADS).bit_length() - 1 for count in (length, answers))
    high = min(beside, _REDUCE_THREADS // min(along, _WARP))
    lanes = min(along, _REDUCE_THREADS // high)
    blocks, parts = ceil_div(answers, high), 1
    if high == 1 or length / lanes > 256:
        filling = ceil_div(target.gpu.sm_count * target.limits.max_warps * _WARP / (lanes * high), blocks)
        parts = min(ceil_div(length / lanes, 16), filling, 128)
    configuration = replace(target.configurations.kernels["reduce_along_rows"], block=(lanes, high, 1))
    return [Kernel(configuration, (blocks, parts, 1), operator.moved)]
