"""Graphs of torch modules, by what torch itself says of their exports."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra torch)")

from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from epochcast.analyzer.backends.occupancy.graph import from_module  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph.from_module import graph_as_given, graph_of_module  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph.operator_work import PRODUCTS  # noqa: E402
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


def edges(graph: ComputationGraph) -> list[tuple[str, str, bool]]:
    return [
        (graph.words[a], graph.words[b], bool(viewed)) for (a, b), viewed in zip(graph.edges.T, graph.edge_types, strict=True)
    ]


X = torch.zeros(2, 8)


def test_views_are_edges() -> None:
    graph = read(lambda net, x: (x * 2).view(2, 2, 4).transpose(1, 2) + 1, X)
    assert graph.words == ("multiply", "add")
    assert edges(graph) == [("multiply", "add", True)]
    assert graph.column("strided").tolist() == [0, 1]


def test_a_copy_of_what_no_view_shows_is_an_operator() -> None:
    graph = read(lambda net, x: (x * 2).view(2, 2, 4).transpose(1, 2).reshape(2, 8) + 1, X)
    assert edges(graph) == [("multiply", "copy", True), ("copy", "add", False)]


def test_what_is_changed_in_place_is_read_as_it_is_then() -> None:
    def forward(net: nn.Module, x: Any) -> Any:
        y = x * 2
        y.relu_()
        y[:, 0] = 0.0
        return y + 1

    assert read(forward, X).words == ("multiply", "relu", "create", "add")
    assert [(a, b) for a, b, _ in edges(read(forward, X))] == [("multiply", "relu"), ("relu", "create"), ("create", "add")]


def test_operators_with_several_answers() -> None:
    graph = read(lambda net, x: torch.cat([one * 2 for one in x.topk(4, 1)[0].chunk(2, 1)], 1), X)
    assert graph.words == ("arg_reduce", "multiply", "multiply", "concatenate")
    assert graph.column("written").tolist() == [2 * 4 + 2 * 4, 4, 4, 8]
    assert [(a, b) for a, b, _ in edges(graph)] == [("arg_reduce", "multiply")] * 2 + [("multiply", "concatenate")] * 2


def test_regions_with_other_settings_are_read() -> None:
    def forward(net: Any, x: Any) -> Any:
        with torch.no_grad():
            y = x * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return y + net.layer(y)

    graph = read(forward, X, layer=nn.Linear(8, 8))
    assert sorted(graph.words) == ["add", "linear", "multiply"]
    assert graph.weight_elements == 72


def test_what_a_forward_makes_itself_fits_a_network_anywhere() -> None:
    def forward(net: Any, x: Any) -> Any:
        return x + torch.zeros(len(x), 8, device="cpu") * torch.tensor([1.0, 2.0] * 4) + net.plain

    graph = read(forward, X, plain=torch.ones(8))
    assert graph.words == ("create", "multiply", "add", "add")
    assert graph.column("weights").tolist() == [0, 8, 0, 8]
    assert graph.at_batch(6).column("written").tolist() == [48, 48, 48, 48]


def test_inputs_of_any_nesting() -> None:
    graph = graph_of_module(Does(lambda net, given, nothing: given["a"] + given["b"][0]), ({"a": X, "b": [X]}, None), "net", 2)
    assert (graph.words, graph.column("read").tolist()) == (("add",), [32])


def test_a_network_is_left_as_it_was() -> None:
    network = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout())
    before = {name: one.clone() for name, one in network.state_dict().items()}
    graph = graph_of_module(network, (X,), "net", 2)
    assert graph.words == ("linear", "batch_norm", "dropout")
    assert graph.in_inference().words == ("linear", "batch_norm")
    assert network.training
    assert all(torch.equal(one, before[name]) and not one.is_meta for name, one in network.state_dict().items())


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
    assert edges(graph) == [(*words, False)] * (len(words) - 1)


def test_running_moments_are_no_weights() -> None:
    graph = read(lambda net, x: net.norm(x), X, norm=nn.BatchNorm1d(8))
    assert (graph.column("weights").tolist(), graph.weight_elements) == ([16], 16)


@pytest.mark.parametrize("inplace", [False, True])
def test_a_block_in_training_as_torchvision_writes_it(inplace: bool) -> None:
    def forward(net: Any, x: Any) -> Any:
        x = net.act(net.stem(x))
        y = net.norm(net.within(x))
        if inplace:
            y += x
        else:
            y = y + x
        return net.head(net.act(y).mean((2, 3)))

    parts = {"stem": nn.Conv2d(3, 8, 1), "within": nn.Conv2d(8, 8, 3, padding=1), "norm": nn.BatchNorm2d(8)}
    graph = read(forward, torch.zeros(2, 3, 4, 4), act=nn.ReLU(inplace), head=nn.Linear(8, 5), **parts).in_training()
    assert graph.words == ("convolution", "relu", "convolution", "batch_norm", "relu", "reduce", "linear")
    half = graph.edges.shape[1] // 2
    assert graph.edges[:, :half].T.tolist() == [[0, 1], [1, 2], [2, 3], [1, 4], [3, 4], [4, 5], [5, 6]]
    assert graph.edges[:, half:].tolist() == graph.edges[::-1, :half].tolist()
    assert graph.edge_types.tolist() == [0] * half + [2] * half


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


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_recurrent_layers_by_their_matrices(kind: Any, gates: int) -> None:
    network = kind(8, 16, 2, bidirectional=True, batch_first=True)
    graph = graph_of_module(network, (torch.zeros(3, 5, 8),), "net", 3)
    matrices = sum(one.numel() for name, one in network.named_parameters() if name.startswith("weight"))
    assert graph.column("flops")[-1] == 2 * 3 * 5 * matrices
    assert graph.column("written")[-1] == 3 * 5 * 32
    assert graph.column("weights")[-1] == sum(one.numel() for one in network.parameters())
    assert graph.at_batch(7).column("written")[0] == 4 * 7 * 16  # the first state, which nothing of the input decides


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
    np.testing.assert_allclose(rescaled.edge_elements, fresh.edge_elements)


def test_products_of_samples_with_each_other_are_read_as_given() -> None:
    graph = read(lambda net, x: x @ x.T, torch.zeros(5, 8))
    assert graph.column("written").tolist() == [25]
    assert graph.column("flops").tolist() == [2 * 25 * 8]


def test_operators_for_each_sample_are_those_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_module, "SAMPLES", 31)
    graph = read(lambda net, x: torch.stack([one * 2 for one in x]), torch.zeros(3, 8))
    assert graph.words == ("multiply", "multiply", "multiply", "concatenate")


def test_a_network_may_have_more_operators_than_the_export_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_module, "SAMPLES", 31)
    graph = read(lambda net, x: net.deep(x[:, :1].expand(-1, 8) + 1), X, deep=nn.Sequential(*[nn.ReLU()] * 32))
    assert len(graph) == 33
    assert graph.at_batch(7).column("read")[0] == 7  # the export with many samples: of one sample it would be a copy


def test_steps_before_samples_are_read_as_given() -> None:
    graph = graph_of_module(nn.LSTM(8, 16), (torch.zeros(5, 2, 8),), "net", 2)
    assert graph.column("written")[-1] == 5 * 2 * 16


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        (lambda net, x: x[x > 0].sum(), r"the sizes that index answers in net depend on values"),
        (lambda net, x: x if x.sum() > 0 else x * 2, r"net cannot be traced at test_from_module.py line \d+"),
        (lambda net, x: torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y + 1, (x,)), r"net has control flow \(cond\)"),
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
