"""The figures that take seconds are as frozen; `make frozen` compares all of them (CONTRIBUTING.md says when to renew them)."""

from collections.abc import Callable

import pytest

from .compare import NAMES, count, frozen, made, moved, parts
from .parts import Part

QUICK = [pytest.param(name, part, id=f"{name}-{part.name}") for name in NAMES for part in parts(name) if part.quick]


@pytest.mark.parametrize(("name", "part"), QUICK)
def test_figures_are_as_frozen(name: str, part: Part, record_property: Callable[[str, object], None]) -> None:
    if part.missing:
        pytest.skip(f"needs {' and '.join(part.missing)}")
    now = made(name, part, quick=True)
    before = {case: row for case, row in frozen(name).items() if case in now}
    found = [" | ".join(row) for row in moved(before, now, part.rel)]
    record_property("frozen_figures", count(now))
    assert now
    assert not found, f"{len(found)} figures of {name} moved (figure | before | now):\n" + "\n".join(found[:20])
