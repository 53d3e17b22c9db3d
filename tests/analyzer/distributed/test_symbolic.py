"""Operators by torch.fx: those of the recording where fx can follow the module, a sentence where it cannot."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from epochcast.analyzer.backends.distributed.backend import Distributed  # noqa: E402
from epochcast.analyzer.backends.distributed.models.graph import ModelBlock  # noqa: E402
from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs  # noqa: E402
from epochcast.analyzer.backends.distributed.models.trace import trace  # noqa: E402
from epochcast.analyzer.backends.distributed.plan.job import PRECISIONS, TrainingConfiguration  # noqa: E402
from epochcast.analyzer.backends.distributed.question import DistributedQuestion  # noqa: E402
from epochcast.analyzer.errors import InputError  # noqa: E402
from epochcast.analyzer.plugins import Settings  # noqa: E402

GPT = "gpt:hidden=16,layers=2,heads=4,vocab=40"
LLAMA = "llama:hidden=16,layers=2,heads=4,kv_heads=2,vocab=40"
MODELS = (GPT, LLAMA, "opt:hidden=16,layers=2,heads=4,vocab=40", "bert:hidden=16,layers=2,heads=4,vocab=40")
IMAGES = ("vit:hidden=16,layers=2,heads=4,image_size=32", "resnet:stages=1-2-1-1,image_size=32")


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        *((text, {}) for text in (*MODELS, *IMAGES)),
        *((text, {"attention": "eager", "precision": "fp16"}) for text in MODELS),
        *((text, {"tensor": 2}) for text in MODELS),
        *((text, {"tensor": 2, "sequence_parallel": True}) for text in MODELS),
    ],
)
def test_a_built_in_model_has_the_same_graph_either_way(text: str, settings: dict[str, Any]) -> None:
    job = TrainingConfiguration(micro_batch=2, global_batch=2, sequence_length=8, **settings)
    recorded, symbolic = (ModelGraphs.of(text, extraction=one).graph(job) for one in ("recording", "fx"))
    assert [_of_inputs(block) for block in symbolic.blocks] == [_of_inputs(block) for block in recorded.blocks]
    assert symbolic.parameters() == recorded.parameters()
    assert symbolic.before.output == recorded.before.output


def _of_inputs(block: ModelBlock) -> list[Any]:
    """All but what fx has as a constant (a causal mask) or not in place."""
    return [
        (one.name, one.module, one.phase, one.inputs, one.outputs, one.flops)
        for one in block.operators
        if "bool" not in {tensor.dtype for tensor in one.outputs} and not one.name.startswith("aten.add")
    ]


class Module(nn.Module):
    """A linear layer, then what a test does with its answer."""

    def __init__(self, rest: Callable[..., Any]) -> None:
        super().__init__()
        self.linear, self.rest = nn.Linear(4, 4), rest

    def forward(self, x: torch.Tensor) -> Any:
        return self.rest(self.linear(x))


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (lambda y: y if y.sum() > 0 else -y, "symbolically traced variables cannot be used as inputs to control flow"),
        (lambda y: sum(row.sum() for row in y), "Proxy object cannot be iterated"),
    ],
)
def test_what_fx_cannot_follow_is_one_sentence_with_its_line_reason_and_remedy(rest: Callable[..., Any], reason: str) -> None:
    with pytest.raises(
        InputError, match=rf"Module cannot be traced by torch.fx at test_symbolic.py line \d+ \(.*\): {reason}"
    ) as caught:
        trace(Module(rest), (torch.zeros(2, 4),), PRECISIONS["fp32"], blocks=None, extraction="fx")
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("; leave out the recipe paper")


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_command_and_service_trace_as_they_are_asked(
    recipe: Any, refused: Callable[..., str], answered: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise ValueError("traced by fx")

    monkeypatch.setattr("epochcast.analyzer.backends.network.pretended_device.forward_by_fx", fails)
    ask = ("predict-model", "distributed", "--model", GPT, "--gpu", "T4", "--sequence-length", "8", "--recipe", recipe)
    config = {"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 40}
    question = DistributedQuestion(config=config, gpu=["T4"], sequence_length=8, recipe=recipe)
    if recipe == "default":
        assert answered(*ask)["recipe"] == Distributed(Settings()).answer(question).recipe == "default"
        return
    assert "traced by fx" in refused(*ask)
    with pytest.raises(InputError, match="traced by fx"):
        Distributed(Settings()).answer(question)
