"""Makes hand_made.py importable by these tests, and graphs that they share."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ...loose_modules import make_importable

make_importable(Path(__file__).with_name("hand_made.py"))


@pytest.fixture(scope="module")
def shared_graphs() -> Iterator[None]:
    """A model is traced once for all commands of a file; its graphs are never changed."""
    from epochcast.analyzer.backends.distributed.models.graph import Extraction
    from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs

    fresh, known = ModelGraphs.of, dict[tuple[str, str], ModelGraphs]()

    def of(
        text: str, device_type: str = "cuda", plan: Mapping[str, str] | None = None, extraction: Extraction = "recording"
    ) -> ModelGraphs:
        if plan is not None or extraction != "recording":
            return fresh(text, device_type, plan, extraction)
        if (text, device_type) not in known:
            known[text, device_type] = fresh(text, device_type)
        return known[text, device_type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelGraphs, "of", of)
        yield
