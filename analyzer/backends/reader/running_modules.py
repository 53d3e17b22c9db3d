"""A network while it runs: which of its modules does, and the tensors that it keeps, to run it with others in their place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as hooks


@contextmanager
def module_paths(root: nn.Module, path: list[str]) -> Iterator[None]:
    """Keep in ``path`` the names of the modules whose forward is running, the outermost (``""``) first."""
    names: dict[int, list[str]] = defaultdict(list)
    for name, module in root.named_modules(remove_duplicate=False):
        names[id(module)].append(name)

    def enter(module: nn.Module, _: Any) -> None:
        caller = path[-1] if path else ""
        known = names.get(id(module), [caller])
        path.append(
            next((name for name in known if name.startswith(f"{caller}.")), known[0])
        )  # a layer may be shared, under several names

    def leave(module: nn.Module, _: Any, __: Any) -> None:
        path.pop()

    before = hooks.register_module_forward_pre_hook(enter)
    after = hooks.register_module_forward_hook(leave, always_call=True)
    try:
        yield
    finally:
        before.remove()
        after.remove()


def named_tensors(root: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers by name, each place that holds one exactly once.

    A tensor that two modules share comes twice, those of a module that has two names come once: put in their place by both
    names, ``torch.func.functional_call`` would leave what was put there.
    """
    for path, module in root.named_modules():
        for name, tensor in chain(module._parameters.items(), module._buffers.items()):
            if tensor is not None:
                yield f"{path}.{name}" if path else name, tensor


def storage_of(tensor: Tensor) -> int:
    """What two tensors have in common that show the same memory."""
    return int(tensor.untyped_storage()._cdata)
