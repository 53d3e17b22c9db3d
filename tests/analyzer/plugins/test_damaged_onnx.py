"""ONNX files with damage anywhere: each is answered or refused in one sentence, and nothing of it stays."""

import base64
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra onnx)")

from epochcast.analyzer.backends.convmeter.backend import ConvMeter  # noqa: E402
from epochcast.analyzer.backends.occupancy.backend import Occupancy  # noqa: E402
from epochcast.analyzer.errors import InputError  # noqa: E402
from epochcast.analyzer.plugins import Settings  # noqa: E402
from epochcast.analyzer.plugins.registry import answered, body  # noqa: E402

Ask = Callable[[bytes], list[str]]

EDITS = st.lists(
    st.tuples(
        st.sampled_from(["change", "drop", "add", "repeat"]),
        st.floats(0, 1, exclude_max=True),
        st.binary(min_size=1, max_size=9),
    ),
    min_size=1,
    max_size=8,
)


def damaged(content: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    made = bytearray(content)
    for kind, where, new in edits:
        place = int(where * len(made))
        match kind:
            case "change":
                made[place : place + len(new)] = new
            case "drop":
                del made[place : place + len(new)]
            case "add":
                made[place:place] = new
            case "repeat":
                made[place:place] = made[max(0, place - 40) : place]
    return bytes(made)


@pytest.fixture(scope="module")
def ask(cpu_model: Path) -> Ask:
    """What both backends say of a file: their refusals, in the order convmeter, occupancy."""
    convmeter, occupancy = ConvMeter(Settings(own={"models": {"cpu": str(cpu_model)}})), Occupancy(Settings())

    def refusals(content: bytes) -> list[str]:
        text = base64.b64encode(content).decode()
        asked: list[tuple[Any, dict[str, Any]]] = [(convmeter, {"onnx": text, "image_size": 32})]
        asked.append((occupancy, {"onnx": text, "gpus": ["T4"]}))
        said = []
        for backend, question in asked:
            try:
                answered(backend, body(type(backend)).model_validate(question))
            except InputError as error:
                said.append(str(error))
        return said

    return refusals


def check(ask: Ask, content: bytes) -> None:
    for sentence in ask(content):
        assert sentence and "\n" not in sentence and len(sentence) < 700
        assert tempfile.gettempdir() not in sentence, "it tells where files lie"


@settings(max_examples=40, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(edits=EDITS)
def test_damage_is_told(ask: Ask, small_onnx: bytes, edits: list[tuple[str, float, bytes]]) -> None:
    check(ask, damaged(small_onnx, edits))


@pytest.mark.soak
def test_much_damage_leaves_nothing_behind(ask: Ask, small_onnx: bytes) -> None:
    def many(count: int) -> int:
        @settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck))
        @given(edits=EDITS)
        def run(edits: list[tuple[str, float, bytes]]) -> None:
            check(ask, damaged(small_onnx, edits))

        run()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = many(2500)  # hypothesis alone holds 12 KiB of each example while it runs
    assert many(2500) - before < 10_000, "KiB of memory"
    assert not list(Path(tempfile.gettempdir()).glob("epochcast-onnx-*"))


def test_the_file_as_it_is_answers(ask: Ask, small_onnx: bytes) -> None:
    assert ask(small_onnx) == []
