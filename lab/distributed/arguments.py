"""Arguments to run a recorded operator again: random tensors of its shapes and dtypes, everything else as it was recorded.

What a shape does not show is made as in training: indices are within their tables, attention's heads and copied tensors
lie transposed in memory, as projections leave them, and a linear layer's weight is read transposed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from epochcast.analyzer.backends.distributed.models.graph import Operator, Tensor

_ALIGNMENT = 64  # elements between two tensors of the same memory, so that each begins on a cache line of its own


class RandomMemory:
    """Random numbers in one buffer per dtype, handed out as consecutive views: what comes round again has left the caches.

    Args:
        device: torch's name of the device.
        nbytes: size of each buffer; a larger tensor gets memory of its own.
    """

    def __init__(self, device: str, nbytes: int) -> None:
        self.device, self.nbytes = device, nbytes
        self._buffers: dict[torch.dtype, torch.Tensor] = {}
        self._next: dict[torch.dtype, int] = {}

    def tensor(self, like: Tensor, order: tuple[int, ...] | None = None) -> torch.Tensor:
        """A floating tensor as ``like``, whose axes lie in memory in ``order``, outermost first; integers are zeros."""
        dtype = getattr(torch, like.dtype)
        if order is not None:
            stored = self._take(tuple(like.shape[axis] for axis in order), dtype)
            return stored.permute([order.index(axis) for axis in range(len(order))])
        return self._take(like.shape, dtype)

    def indices(self, like: Tensor, below: int) -> torch.Tensor:
        """Integers in [0, ``below``), each as likely."""
        return torch.randint(max(below, 1), like.shape, dtype=getattr(torch, like.dtype), device=self.device)

    def _take(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        count = math.prod(shape)
        if not dtype.is_floating_point:
            return torch.zeros(shape, dtype=dtype, device=self.device)
        if count * dtype.itemsize > self.nbytes:
            return torch.rand(shape, device=self.device).to(dtype)
        if dtype not in self._buffers:
            self._buffers[dtype] = torch.rand(self.nbytes // dtype.itemsize, device=self.device).to(dtype)
            self._next[dtype] = 0
        buffer, begin = self._buffers[dtype], self._next[dtype]
        if begin + count > buffer.numel():
            begin = 0
        self._next[dtype] = begin + -(-count // _ALIGNMENT) * _ALIGNMENT
        return buffer[begin : begin + count].view(shape)


def runnable(operator: Operator, memory: RandomMemory) -> Callable[[], Any]:
    """A call without arguments that runs the operator once, on new random tensors from ``memory``.

    Raises:
        ValueError: its name or its arguments are none that torch knows.
    """
    if operator.name == "epochcast.attention":
        return _attention(operator.arguments, memory)
    if operator.name == "epochcast.attention_backward":
        return _attention_backward(operator.arguments, memory)
    namespace, _, rest = operator.name.partition(".")
    name, _, overload = rest.partition(".")
    try:
        packet = getattr(getattr(torch.ops, namespace), name)
        function = getattr(packet, overload or "default")
    except AttributeError as error:
        raise ValueError(f"torch has no operator {operator.name}") from error
    made = _made(operator, memory)
    if function._schema.is_mutable:  # what others read must not change
        made = [argument.clone() if isinstance(argument, torch.Tensor) else argument for argument in made]
    args, kwargs = _bound(function._schema, made, memory.device)
    return lambda: function(*args, **kwargs)


def _made(operator: Operator, memory: RandomMemory) -> list[Any]:
    """The operator's arguments with real tensors."""
    name = operator.name.split(".")[1]
    limits = _index_limits(name, operator.arguments)
    orders = _orders(operator)

    def make(value: Any, place: tuple[int, ...]) -> Any:
        if isinstance(value, Tensor):
            if value.dtype in ("int64", "int32") and place in limits:
                return memory.indices(value, limits[place])
            return memory.tensor(value, orders.get(place))
        if isinstance(value, tuple):
            return [make(element, (*place, index)) for index, element in enumerate(value)]
        return value

    made = [make(value, (index,)) for index, value in enumerate(operator.arguments)]
    # What only the forward pass can make: positions of maxima, and statistics in the dtype that the device keeps them in.
    if name == "max_pool2d_with_indices_backward":
        made[-1] = torch.ops.aten.max_pool2d_with_indices(made[1], *made[2:7])[1]
    elif name == "native_layer_norm_backward":
        made[3:5] = torch.ops.aten.native_layer_norm(made[1], made[2], made[5], made[6], 1e-5)[1:]
    elif name == "native_batch_norm_backward" and made[7]:
        made[5:7] = torch.ops.aten.native_batch_norm(made[1], made[2], made[2], made[3], made[4], True, 0.1, made[8])[1:]
    return made


def _index_limits(name: str, arguments: tuple[Any, ...]) -> dict[tuple[int, ...], int]:
    """Where an operator takes indices, and what they must stay below."""
    if name == "embedding":
        return {(1,): arguments[0].shape[0]}
    if name == "embedding_dense_backward":
        return {(1,): arguments[2]}
    if name in ("nll_loss_forward", "nll_loss2d_forward"):
        return {(1,): arguments[0].shape[1]}
    if name in ("nll_loss_backward", "nll_loss2d_backward"):
        return {(2,): arguments[1].shape[1]}
    if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
        return {(1, axis): arguments[0].shape[axis] for axis in range(len(arguments[1]))}
    if name in ("gather", "scatter", "scatter_add", "index_select", "index_add"):
        return {(2,): arguments[0].shape[arguments[1]]}
    return {}


def _orders(operator: Operator) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Layouts that follow from the operator's place in training: outermost axis first, by argument."""
    name = operator.name.split(".")[1]
    if operator.phase == "forward" and name in ("mm", "addmm"):
        return {(len(operator.arguments) - 1 if name == "mm" else 2,): (1, 0)}
    if name == "clone" and isinstance(operator.arguments[0], Tensor) and "torch.contiguous_format" in operator.arguments:
        axes = list(range(len(operator.arguments[0].shape)))
        if len(axes) >= 3:  # a tensor is made contiguous because it is not: heads lie before positions or behind them
            axes[-3], axes[-2] = axes[-2], axes[-3]
            return {(0,): tuple(axes)}
    return {}


def _bound(schema: Any, values: list[Any], device: str) -> tuple[list[Any], dict[str, Any]]:
    """Recorded values on the schema's parameters: in order as far as their types fit, the rest by keyword and type."""
    positional = [argument for argument in schema.arguments if not argument.kwarg_only]
    keywords = [argument for argument in schema.arguments if argument.kwarg_only]
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for recorded in values:
        value = _from_text(recorded)
        if not kwargs and len(args) < len(positional) and _fits(value, positional[len(args)]):
            args.append(value)
            continue
        parameter = next((argument for argument in keywords if argument.name not in kwargs and _fits(value, argument)), None)
        if parameter is None:
            raise ValueError(f"{schema.name} takes no argument {recorded!r}")
        kwargs[parameter.name] = torch.device(device) if parameter.name == "device" else value
    return args, kwargs


def _from_text(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("torch."):
        return getattr(torch, value.removeprefix("torch."))
    return value


def _fits(value: Any, parameter: Any) -> bool:
    """Whether a value can be the parameter's; dtypes, layouts and memory formats are integers to a schema."""
    kind, name = str(parameter.type), parameter.name
    if value is None:
        return kind.startswith("Optional")
    if isinstance(value, torch.Tensor):
        return "Tensor" in kind and "List" not in kind
    if isinstance(value, list):
        return "List" in kind
    if isinstance(value, torch.dtype):
        return "dtype" in name
    if isinstance(value, torch.layout):
        return bool(name == "layout")
    if isinstance(value, torch.memory_format):
        return bool(name == "memory_format")
    if isinstance(value, bool):
        return "bool" in kind or "number" in kind
    if isinstance(value, (int, float)):
        # A number may replace a tensor: aten.add.Tensor(x, 1e-5).
        return "List" not in kind and any(word in kind for word in ("int", "float", "number", "Tensor")) and "dtype" not in name
    return "str" in kind or "Device" in kind


def _heads(like: Tensor, memory: RandomMemory) -> torch.Tensor:
    """(batch, heads, s, d) as a view of (batch, s, heads, d), as projections leave it."""
    return memory.tensor(like, (0, 2, 1, 3))


def _attention(arguments: tuple[Any, ...], memory: RandomMemory) -> Callable[[], Any]:
    """Arguments (query, key, value, mask or None, dropout, causal); with gradients, so that what backward needs is kept."""
    query, key, value = (_heads(tensor, memory).requires_grad_() for tensor in arguments[:3])
    mask, dropout, causal = arguments[3:]
    bias = memory.tensor(mask) if mask is not None else None
    shared = query.shape[1] != key.shape[1]

    def run() -> torch.Tensor:
        with torch.enable_grad():
            return scaled_dot_product_attention(
                query, key, value, attn_mask=bias, dropout_p=dropout, is_causal=causal, enable_gqa=shared
            )

    return run


def _attention_backward(arguments: tuple[Any, ...], memory: RandomMemory) -> Callable[[], Any]:
    """Arguments (gradient, query, key, value, answer, sums, dropout, causal)."""
    query, key, value = (_heads(tensor, memory).requires_grad_() for tensor in arguments[1:4])
    dropout, causal = arguments[6:]
    shared = query.shape[1] != key.shape[1]
    with torch.enable_grad():
        answer = scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=causal, enable_gqa=shared)
    gradient = _heads(arguments[0], memory)
    return lambda: torch.autograd.grad(answer, (query, key, value), gradient, retain_graph=True)
