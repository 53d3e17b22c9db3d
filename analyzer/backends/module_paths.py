"""Which of a network's modules is running."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
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
        path.append(next((name for name in known if name.startswith(f"{caller}.")), known[0]))  # one of a layer that two share

    def leave(module: nn.Module, _: Any, __: Any) -> None:
        path.pop()

    before = hooks.register_module_forward_pre_hook(enter)
    after = hooks.register_module_forward_hook(leave, always_call=True)
    try:
        yield
    finally:
        before.remove()
        after.remove()
