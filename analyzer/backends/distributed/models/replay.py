"""The recorded forward pass run again on the meta device with torch's own autograd.

Every backward operator is counted at the forward operator whose gradient it computes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from epochcast.analyzer.backends.distributed.models import graph as g
from epochcast.analyzer.backends.network.factory import one_line
from epochcast.analyzer.backends.network.fused import flops_of
from epochcast.analyzer.backends.network.operators import kind_of
from epochcast.analyzer.backends.network.recording import Recording, TensorReference, references, storage_of
from epochcast.analyzer.errors import InputError


class Replay(TorchDispatchMode):
    """The second run of a recording, on the meta device with gradients.

    Attributes:
        recording: what is run again.
        tensors: by their number in the recording.
        saved: bytes kept for backward, by the call that keeps them and the call that made them.
        core_inputs: of each storage that attention's core reads and that nothing keeps, a call of the core and its bytes.
        operators: what ran and moves data.
        ran: of each the forward call that it belongs to, and the tensors that it read and wrote.
    """

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording
        self.tensors: dict[int, Tensor] = {}
        self.saved: dict[tuple[int, int], float] = defaultdict(float)
        self.core_inputs: dict[int, tuple[int, float]] = {}
        self.operators: list[g.Operator] = []
        self.ran: list[tuple[int, list[Tensor], list[Tensor]]] = []
        self._call = -1
        self._phase: g.Phase = "forward"

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = operator(*args, **(kwargs or {}))
        node = torch._C._current_autograd_node() if self._phase == "backward" else None
        if node is not None:  # gradients that meet are added between nodes: counted at the last
            self._call = node.metadata.get("call", self._call)
        # What AccumulateGrad copies here, because the recorder holds a reference too, it takes over as it is in training.
        kind = kind_of(operator)
        if kind is not None and not (node is not None and node.name().endswith("AccumulateGrad")):
            arguments = (*args, *(kwargs or {}).values())
            inputs, outputs = _tensors(arguments), _tensors(answer)
            made = g.Operator(
                name=str(operator).removesuffix(".default") if operator.namespace == "epochcast" else str(operator),
                kind=kind,
                phase=self._phase,
                inputs=tuple(map(spec_of, inputs)),
                outputs=tuple(map(spec_of, outputs)),
                flops=flops_of(operator, args, answer),
                arguments=_plain(arguments),
                module=self.recording.calls[self._call].module,
            )
            self.operators.append(made)
            self.ran.append((self._call, inputs, outputs))
        return answer

    def run(self, what: str) -> None:
        """Forward and backward; raises InputError if torch's meta device or autograd cannot."""
        try:
            self._forward()
            ends = [self.tensors[place.number] for place in references(self.recording.outputs)]
            if ends := [tensor for tensor in ends if tensor.requires_grad]:
                self._backward(ends)
                return
        except RuntimeError as error:
            call = self.recording.calls[self._call]
            raise InputError(
                f"{what} cannot be traced in the {self._phase} pass of {call.operator} in its module "
                f"{call.module or what!r}: {one_line(error)}; compute this with operators that torch differentiates"
            ) from error
        raise InputError(f"{what} returns no tensor with a gradient; return its loss or its output, with parameters to train")

    def _forward(self) -> None:
        trained = set(self.recording.parameters.values())
        for number, meta in self.recording.external.items():
            self.tensors[number] = meta.detach().requires_grad_(number in trained)
        known = {storage_of(tensor) for tensor in self.tensors.values()}
        makers: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            if storage_of(tensor) not in known:
                known.add(storage_of(tensor))
                keeper = self._call
                self.saved[keeper, makers.get(storage_of(tensor), keeper)] += tensor.untyped_storage().nbytes()
            return tensor

        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), self:
            for index, call in enumerate(self.recording.calls):
                self._call = index
                args, kwargs = tree_map_only(TensorReference, self._tensor, (call.arguments, call.options))
                if g.in_core(call.module):
                    for tensor in _tensors((args, kwargs)):
                        maker = makers.get(storage_of(tensor))
                        if maker is not None and not g.in_core(self.recording.calls[maker].module):
                            self.core_inputs[storage_of(tensor)] = index, float(tensor.untyped_storage().nbytes())
                with torch.set_grad_enabled(call.trained):
                    answer = call.operator(*args, **kwargs)
                for place, tensor in zip(call.outputs, _tensors(answer), strict=True):
                    self.tensors[place.number] = tensor
                    makers.setdefault(storage_of(tensor), index)
                    if tensor.grad_fn is not None:
                        tensor.grad_fn.metadata.setdefault("call", index)
        for storage in self.core_inputs.keys() & known:
            del self.core_inputs[storage]

    def _backward(self, ends: list[Tensor]) -> None:
        gradients = [torch.ones_like(tensor) for tensor in ends]
        self._phase = "backward"
        with self:
            torch.autograd.backward(ends, cast("Sequence[Tensor]", gradients))

    def _tensor(self, place: TensorReference) -> Tensor:
        return self.tensors[place.number]


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def spec_of(tensor: Tensor) -> g.Tensor:
    """Shape and dtype."""
    return g.Tensor(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def _plain(value: Any) -> Any:
    """An argument as hashable data: tensors as :class:`.graph.Tensor`, lists as tuples, torch's own types by name."""
    if isinstance(value, Tensor):
        return spec_of(value)
    if isinstance(value, (list, tuple)):
        return tuple(_plain(element) for element in value)
    if isinstance(value, (torch.dtype, torch.device, torch.memory_format, torch.layout)):
        return str(value)
    return value
