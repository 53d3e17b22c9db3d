"""Makes hand_made.py importable by these tests, and graphs that they share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ...loose_modules import make_importable

make_importable(Path(__file__).with_name("hand_made.py"))


@pytest.fixture(scope="module")
def shared_graphs() -> Iterator[None]:
    """A model is traced once for all commands of a file; its graphs are never changed."""
    from epochcast.analyzer.backends.distributed.models.graph import Extraction
    from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs

    fresh, known = ModelGraphs.of, dict[tuple[str, str, str], ModelGraphs]()

    def of(text: str, device_type: str = "cuda", extraction: Extraction = "recording") -> ModelGraphs:
        if (text, device_type, extraction) not in known:
            known[text, device_type, extraction] = fresh(text, device_type, extraction)
        return known[text, device_type, extraction]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelGraphs, "of", of)
        yield
