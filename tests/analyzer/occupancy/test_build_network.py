"""What building a network imports, and in which order."""

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
from epochcast.analyzer.backends.occupancy.networks import build_network as building
from epochcast.analyzer.errors import InputError


@pytest.fixture
def whole_packages() -> Iterator[None]:
    """Forget parts of packages that could not be imported: they would not be imported whole later."""
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] not in sys.modules]:
        del sys.modules[name]


@pytest.mark.usefixtures("whole_packages")
@pytest.mark.parametrize("name", ["bert", "distilbert", "gpt2", "clip_rn50", "clip_vit_b32"])
def test_transformers_is_used_after_torchvision_was_repaired(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers imports torchvision itself, which fails where its compiled operators do not match torch."""
    events: list[str] = []

    def stop(_: str) -> object:
        events.append("transformers")
        raise ImportError("stop")

    transformers = ModuleType("transformers")
    monkeypatch.setattr(transformers, "__getattr__", stop, raising=False)
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    monkeypatch.setattr(building, "import_torchvision", lambda: events.append("torchvision"))
    with pytest.raises(InputError, match="cannot be imported"):
        building.build_network(NetworkConfiguration(name, 1))
    assert events[0] == "torchvision" and events[-1] == "transformers"
