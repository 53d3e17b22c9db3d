"""Graphs of torch modules, by what torch itself says of their exports."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra torch)")

from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from epochcast.analyzer.backends.occupancy.graph.computation_graph import PRODUCTS, ComputationGraph  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph.from_module import graph_as_given, graph_of_module  # noqa: E402
from epochcast.analyzer.errors import InputError  # noqa: E402


class Does(nn.Module):
    """A function as a network."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def read(function: Callable[..., Any], *inputs: Any, **parts: Any) -> ComputationGraph:
    batch = next(len(one) for one in inputs if isinstance(one, torch.Tensor))
    return graph_of_module(Does(function, **parts), inputs, "net", batch)


def edges(graph: ComputationGraph) -> list[tuple[str, str]]:
    return [(graph.words[a], graph.words[b]) for a, b in graph.edges.T]


X = torch.zeros(2, 8)


def test_views_are_edges() -> None:
    graph = read(lambda net, x: (x * 2).view(2, 2, 4).transpose(1, 2) + 1, X)
    assert graph.words == ("multiply", "add")
    assert edges(graph) == [("multiply", "add")]
    assert graph.column("strided").tolist() == [0, 1]


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (lambda net, x: torch.dropout(x, 0.5, True), ("dropout",)),
        (lambda net, x: nn.functional.dropout(x * 2, 0.1, net.training), ("multiply", "dropout")),
        (lambda net, x: nn.functional.dropout(x * 2, 0.1, net.training, inplace=True), ("multiply", "dropout")),
        (lambda net, x: nn.functional.alpha_dropout(x * 2, 0.1, net.training), ("multiply", "dropout")),
        (lambda net, x: nn.functional.dropout2d((x * 2).view(2, 2, 2, 2), 0.1, net.training), ("multiply", "dropout")),
        (lambda net, x: nn.functional.dropout(x * 2, 0.0, net.training), ("multiply",)),
    ],
)
def test_dropout_of_something_runs_in_training(forward: Callable[..., Any], words: tuple[str, ...]) -> None:
    graph = read(forward, X)
    assert graph.words == words
    assert edges(graph) == [words] * (len(words) - 1)


@pytest.mark.parametrize(
    ("forward", "word", "reduced", "flops"),
    [
        (lambda net, x: torch.mm(x, net.weight.t()), "linear", 8, 2 * 2 * 4 * 8),
        (lambda net, x: x @ net.weight.t(), "linear", 8, 2 * 2 * 4 * 8),
        (lambda net, x: torch.addmm(net.bias, x, net.weight.t()), "linear", 8, 2 * 2 * 4 * 8),
        (lambda net, x: torch.bmm(x[:, None], x[:, :, None]), "matmul", 8, 2 * 2 * 8),
        (lambda net, x: torch.einsum("bi,bj->bij", x, x), "matmul", 1, 2 * 2 * 64),
        (lambda net, x: torch.einsum("bi,bi->b", x, x), "matmul", 8, 2 * 2 * 8),
    ],
)
def test_products_by_what_is_multiplied(forward: Callable[..., Any], word: str, reduced: float, flops: float) -> None:
    graph = read(forward, X, weight=nn.Parameter(torch.zeros(4, 8)), bias=nn.Parameter(torch.zeros(4)))
    assert graph.words == (word,)
    assert graph.column("reduced").tolist() == [reduced]
    assert graph.column("flops").tolist() == [flops]


LAYERS = {
    "convolution": (nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), (4, 9, 9)),
    "one axis": (nn.Conv1d(4, 6, 3), (4, 9)),
    "three axes": (nn.Conv3d(4, 6, 2), (4, 5, 5, 5)),
    "transposed": (nn.ConvTranspose2d(4, 6, 2, stride=2, groups=2), (4, 5, 5)),
    "dense": (nn.Linear(8, 5), (3, 8)),
    "transformer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (5, 8)),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_flops_of_products_are_those_that_torch_counts(layer: str) -> None:
    module, shape = LAYERS[layer]
    module.eval()
    inputs = torch.zeros(3, *shape)
    with FlopCounterMode(display=False) as counter:
        module.train()(inputs) if layer == "transformer" else module(inputs)  # its fast path in evaluation is not counted
    graph = graph_of_module(module, (inputs,), "net", 3)
    counted = sum(graph.column("flops")[place] for place, word in enumerate(graph.words) if word in (*PRODUCTS, "attention"))
    assert counted == counter.get_total_flops()


def masked(net: Any, x: Any) -> Any:
    places = torch.arange(x.shape[1])
    return (x[:, :, None] * (places[:, None] >= places[None])).sum(-1) + net.weight.expand(len(x), -1)


@pytest.mark.parametrize("forward", [masked, lambda net, x: torch.cat([net.weight.expand(len(x), -1), net.layer(x)], 1)])
def test_a_rescaled_graph_is_the_one_of_that_batch(forward: Callable[..., Any]) -> None:
    batch = 5
    parts = {"weight": nn.Parameter(torch.zeros(1, 8)), "layer": nn.Linear(8, 8)}
    rescaled = read(forward, torch.zeros(3, 8), **parts).at_batch(batch)
    fresh = graph_as_given(Does(forward, **parts), (torch.zeros(batch, 8),), "net", batch)
    assert rescaled.words == fresh.words
    np.testing.assert_allclose(rescaled.sizes, fresh.sizes)


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        (lambda net, x: x[x > 0].sum(), r"net cannot be traced at test_from_module.py line \d+ .*depend on values"),
        (lambda net, x: x if x.sum() > 0 else x * 2, r"net cannot be traced at test_from_module.py line \d+"),
        (
            lambda net, x: torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y + 1, (x,)),
            r"net cannot be traced .*HigherOrderOperator cond.*depend on values",
        ),
        (lambda net, x: x.view(4, 4), r"net has no operator that computes something"),
        (lambda net, x: net.missing(x), r"net cannot be traced at test_from_module.py line \d+ .*missing"),
    ],
)
def test_what_is_no_graph_is_one_sentence(forward: Callable[..., Any], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=rf"^{said}") as raised:
        read(forward, X)
    assert "\n" not in str(raised.value)
    assert capfd.readouterr() == ("", "")


def test_operators_that_no_word_stands_for_are_counted() -> None:
    graph = read(lambda net, x: torch.special.i0(torch.special.i0(x)) + 1, X)
    assert graph.words == ("unknown", "unknown", "add")
    assert list(graph.unknown.values()) == [2]
