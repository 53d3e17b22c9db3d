"""Operators whose time the memory sets: elementwise ones, copies, sums, softmax, normalisations, pooling.

PyTorch's rules: an elementwise thread takes four elements that lie side by side; of strided and broadcast ones four of 2 bytes,
two of wider ones.
"""

from __future__ import annotations

from dataclasses import replace

from epochcast.analyzer.backends.occupancy.modelled_kernels.operator import Kernel, ModelledOperator, Target, ceil_div

_CLASSES = {
    "index": ("index", 4),
    "scatter": ("scatter_gather", 4),
    "create": ("elementwise", 4),
    "batch_norm": ("batch_norm", 4),  # cuDNN's, with known statistics; elements assumed
    "scan": ("scan", 15),  # elements assumed
    "max_pool": ("max_pool", 1),
    "resize": ("resize", 1),
}
"""By word: the class of its kernel, and of how many answers a thread, however the elements lie."""

_WARP = 32
_SOFTMAX_THREADS = 128
_REDUCE_THREADS = 512

_PLANE = 49
"""Answers per channel of adaptive pooling to a size of its own: 7 x 7 and 6 x 6 are usual."""


def elementwise(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """One kernel."""
    if operator.hyper["strided"] and operator.word not in _CLASSES:
        return [strided(operator, target, operator.written, operator.moved)]
    name, of_a_thread = _CLASSES.get(operator.word, ("elementwise", 4))
    return [target.flat(name, operator.written, of_a_thread, operator.moved)]


def strided(operator: ModelledOperator, target: Target, elements: float, moved: float | None = None) -> Kernel:
    """Over elements that do not lie side by side; ``moved`` in bytes, None: each is read and written."""
    of_a_thread = 2 if operator.width >= 4 else 4
    moved = 2 * operator.width * elements if moved is None else moved
    return target.flat("elementwise_strided", elements, of_a_thread, moved)


def copy(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """Into another order, or from one type to another.

    The answer of PyTorch's attention kernels already has the layout that a copy would make: none is launched.
    """
    if operator.sources == ("attention",):
        return []
    if operator.hyper["strided"]:
        return [strided(operator, target, operator.written)]
    return [target.flat("elementwise_cast", operator.written, 4, operator.moved)]


def concatenate(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """Two blocks per SM for each input."""
    return [target.kernel("concatenate", (2 * target.gpu.sm_count, max(2, len(operator.sources)), 1), operator.moved)]


def embedding(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """Rows of a table: of up to 16 a thread per column, of more a thread per element in as many blocks as fit."""
    features = operator.side("output_features")
    few = ceil_div(operator.written, features) <= 16
    name = "index_select_small" if few else "index_select_large"
    blocks = ceil_div(features if few else operator.written, target.configurations.kernels[name].threads)
    return [target.kernel(name, (min(blocks, 8 * target.gpu.sm_count), 1, 1), operator.moved)]


def pad(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """Everything is filled first, then the middle is copied into it."""
    filled = target.flat("elementwise", operator.written, 4, operator.width * operator.written)
    return [filled, strided(operator, target, operator.read)]


def random(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """A thread for four numbers, in as many blocks as the SMs hold at once."""
    threads = target.configurations.kernels["random"].threads
    resident = target.limits.max_warps * _WARP // threads * target.gpu.sm_count
    return [target.kernel("random", (min(ceil_div(operator.written, 4 * threads), resident), 1, 1), operator.moved)]


def softmax(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """Rows of up to 1024 elements and 4 KiB: a warp for one or two of them; longer ones: a block for each."""
    length, known = operator.side("reduced"), target.configurations.kernels
    rows = ceil_div(operator.written, length)
    if length > 1024 or length * operator.width > 4096:
        return [target.kernel("softmax_of_a_block", (rows, 1, 1), operator.moved)]
    padded = 1 << (length - 1).bit_length()
    recorded = sorted(int(name.rpartition("_")[2]) for name in known if name.startswith("softmax_of_a_warp_"))
    size = next((size for size in recorded if size >= padded), recorded[-1])
    lanes = min(padded, _WARP)
    warps = _SOFTMAX_THREADS // lanes
    configuration = replace(known[f"softmax_of_a_warp_{size}"], block=(lanes, warps, 1))
    rows_of_a_warp = 2 if padded <= 128 else 1
    return [Kernel(configuration, (ceil_div(rows, rows_of_a_warp * warps), 1, 1), operator.moved)]


def reduce(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """PyTorch's reduction over elements side by side: threads along the row as far as it goes, further rows next to it.

    Where there are few answers of many elements each several blocks work on one.
    """
    length, answers = max(1, round(operator.read / operator.written)), ceil_div(operator.written, 1)
    loads = length // 4 if answers == 1 and length > 128 else length  # four elements at a time
    along, beside = (1 << min(count, _REDUCE_THREADS).bit_length() - 1 for count in (loads, answers))
    high = min(beside, _REDUCE_THREADS // min(along, _WARP))
    lanes = min(along, _REDUCE_THREADS // high)
    blocks, parts = ceil_div(answers, high), 1
    if high == 1 or length / lanes > 256:
        filling = ceil_div(target.gpu.sm_count * target.limits.max_warps * _WARP / (lanes * high), blocks)
        parts = min(ceil_div(length / lanes, 16), filling, 128)
    configuration = replace(target.configurations.kernels["reduce_along_rows"], block=(lanes, high, 1))
    return [Kernel(configuration, (blocks, parts, 1), operator.moved)]


def layer_norm(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """Layer and root-mean-square normalisation: a block per row."""
    return [target.kernel("layer_norm", (ceil_div(operator.written, operator.side("reduced")), 1, 1), operator.moved)]


def group_norm(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """Moments, a block per group and sample; then everything scaled and shifted."""
    groups = ceil_div(operator.written, operator.side("reduced"))
    moments = target.kernel("group_norm_moments", (groups, 1, 1), operator.width * operator.read)
    return [moments, strided(operator, target, operator.written, operator.moved)]


def average_pool(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """Windows side by side of three and more pixels are taken as whole channels, windows of one as adaptive pooling."""
    window, stride = operator.side("kernel_height"), operator.side("stride")
    if window == stride == 1:
        planes = max(1, round(operator.written / _PLANE))
        return [target.kernel("adaptive_average_pool", (planes, max(1, 16 // planes), 1), operator.moved)]
    if window == stride >= 3:
        return reduce(operator, target)
    return [target.flat("average_pool", operator.written, 1, operator.moved)]
