"""The paper's method on this machine's CPU: its operators are run here, kept, and summed with the optimizer's step."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.distributed.models.graph import Operator, Tensor
from epochcast.analyzer.backends.distributed.plan.precision import PRECISIONS
from lab.distributed.profile import ProfiledTimes
from lab.distributed.profile_cache import ProfileCache
from lab.distributed.this_machine import main

pytestmark = pytest.mark.usefixtures("one_thread")

FP32 = PRECISIONS["fp32"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_one_process_is_predicted_from_operators_measured_here(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["gpt:hidden=32,layers=2,heads=2,vocab=64", "--sequence-length", "16"]
    answers = []
    for more in ([], ["--recipe", "paper"]):
        main([*asked, *more])
        answers.append(json.loads(capsys.readouterr().out))
    ours, paper = answers
    assert {"matmul", "attention", "normalisation", "loss"} <= set(ours["compute"]) == set(paper["compute"])
    assert ours["optimizer"] > 0
    assert ours["seconds"] == pytest.approx(sum(ours["compute"].values()) + ours["optimizer"])
    assert paper["seconds"] == pytest.approx(sum(paper["compute"].values()))  # Eq. 1 has no optimizer


def test_what_was_measured_is_kept(tmp_path: Path) -> None:
    tensors = Tensor((16, 16), "float32"), Tensor((16, 16), "float32")
    product = Operator(
        "aten.mm.default", "matmul", "forward", tensors, (Tensor((16, 16), "float32"),), 8192.0, arguments=tensors
    )
    path = tmp_path / "times.json"
    first = ProfiledTimes("cpu", FP32, ProfileCache(path), budget_seconds=0.0).seconds([product])
    again = ProfiledTimes("cpu", FP32, ProfileCache(path))
    assert again.seconds([product]) == first > 0 and not again.estimated
    odd = Operator("aten.no_such.default", "elementwise", "forward", tensors, tensors[:1], arguments=tensors)
    assert again.seconds([odd])[0] > 0 and list(again.estimated) == [odd]
