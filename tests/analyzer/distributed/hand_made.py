"""Graphs written by hand, for what needs no torch."""

from epochcast.analyzer.backends.distributed.models.graph import Graph, ModelBlock, Operator, Tensor, Weight


def product(m: int, n: int, k: int, phase: str = "forward", dtype: str = "float32", module: str = "") -> Operator:
    """One matrix product."""
    left, right, out = Tensor((m, k), dtype), Tensor((k, n), dtype), Tensor((m, n), dtype)
    size = float(left.bytes + right.bytes + out.bytes)
    return Operator("aten.mm.default", "matmul", phase, (left, right), (out,), 2.0 * m * n * k, size, (left, right), module)


def all_reduce(elements: int, phase: str = "forward", dtype: str = "float32") -> Operator:
    """One exchange of the tensor ranks."""
    tensor = Tensor((elements,), dtype)
    return Operator("epochcast.all_reduce", "communication", phase, (tensor,), (tensor,), fused_bytes=0.0)


def layer(
    name: str, width: int = 1024, rows: int = 2048, dtype: str = "float32", exchanges: int = 0, sliced: bool = False
) -> ModelBlock:
    """A layer of one square weight: a product forward, two backward, and exchanges in each pass."""
    operators = [product(rows, width, width, dtype=dtype, module=name)]
    operators += [product(rows, width, width, "backward", dtype, name), product(width, width, rows, "backward", dtype, name)]
    operators += [all_reduce(rows * width, phase, dtype) for phase in ("forward", "backward") for _ in range(exchanges)]
    weight = Tensor((width, width), dtype)
    saved = Tensor((rows, width), dtype)
    weights = (Weight(f"{name}.weight", weight, dtype, dtype, sliced),)
    forward = sum(operator.phase == "forward" for operator in operators)
    return ModelBlock(name, tuple(operators), weights, saved.bytes, 0.0, saved, recomputed=forward)


def graph(layers: int = 4, micro_batch: int = 1, **options) -> Graph:
    """A model of equal layers with nothing before and after them."""
    block = layer("blocks.0", **options)
    return Graph("hand-made", "fp32", micro_batch, ModelBlock("before", ()), (block,) * layers, ModelBlock("after", ()))
