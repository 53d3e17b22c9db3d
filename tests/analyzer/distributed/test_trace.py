"""The traced graph against what torch really runs on this CPU: same operators, dtypes, FLOPs and saved bytes."""

from collections import Counter

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from epochcast.analyzer.backends.distributed.models.graph import Tensor  # noqa: E402
from epochcast.analyzer.backends.distributed.models.graphs import at_micro_batch  # noqa: E402
from epochcast.analyzer.backends.distributed.models.trace import trace  # noqa: E402
from epochcast.analyzer.backends.distributed.plan.job import PRECISIONS  # noqa: E402
from epochcast.analyzer.backends.network.operators import kind_of  # noqa: E402
from epochcast.analyzer.errors import InputError  # noqa: E402


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4).unbind(0)
        weights = F.dropout(torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1), 0.1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(x)))


class Text(nn.Module):
    def __init__(self, width: int = 32, blocks: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.conv(x)), inplace=True).mean((2, 3)))


class Parts(nn.Module):
    """What is not trained through, in a context of its own, or changes a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher, self.layer, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        with torch.no_grad():
            target = self.teacher(x)
            self.mean.mul_(0.9).add_(target[:, -1].mean(0), alpha=0.1)
        x = self.layer(x - self.mean) * target
        with torch.autocast(x.device.type, torch.bfloat16):
            x = self.head(x)
        with torch.autocast(x.device.type, enabled=False):
            return torch.exp(x.float()).mean()


def text_inputs(batch=2, length=8):
    ids = torch.randint(50, (batch, length), generator=torch.Generator().manual_seed(0))
    return ids, ids.clone()


class Seen(TorchDispatchMode):
    """What runs below autograd and autocast, the plain way."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter = Counter()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        answer = operator(*args, **(kwargs or {}))
        node = torch._C._current_autograd_node()
        if kind_of(operator) is not None and not (node is not None and "AccumulateGrad" in node.name()):
            tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
            self.counts[str(operator), tuple((tuple(x.shape), str(x.dtype)) for x in tensors)] += 1
        return answer


def real_run(model, inputs, precision):
    """The operators of a real step on this CPU, and the bytes that autograd keeps."""
    given = PRECISIONS[precision]
    dtype = getattr(torch, given.weights)
    model = model.to(dtype).train()
    inputs = tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)
    known = {x.untyped_storage().data_ptr() for x in (*model.parameters(), *model.buffers(), *inputs)}
    kept: dict[int, tuple[object, int]] = {}

    def pack(x):
        if x.untyped_storage().data_ptr() not in known:
            kept[x.untyped_storage().data_ptr()] = (x, x.untyped_storage().nbytes())
        return x

    autocast = torch.autocast("cpu", getattr(torch, given.autocast)) if given.autocast else torch.autocast("cpu", enabled=False)
    # autograd allows no dispatch mode to keep outputs alive: operators are counted, tensors are let go
    with Seen() as seen, torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x), autocast:
        answer = model(*inputs)
    ends = torch.ones_like(answer)
    with seen:
        answer.backward(ends)
    return seen.counts, sum(size for _, size in kept.values())


def without_statistics(counts):
    """Without mean and deviation of norms: the CPU keeps them in bfloat16 under it, the meta device, as CUDA, in float32."""
    kept: Counter = Counter()
    for (name, tensors), count in counts.items():
        small = [one for one in tensors if len(one[0]) > 1 and one[0][-1] != 1] if "norm" in name else tensors
        kept[name, tuple(small)] += count
    return kept


def traced(graph):
    return Counter(
        (operator.name, tuple((x.shape, f"torch.{x.dtype}") for x in operator.inputs))
        for block in (graph.before, *graph.blocks, graph.after)
        for operator in block.operators
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16", "amp-bf16"])
@pytest.mark.parametrize(
    ("model", "inputs"), [(Text, text_inputs()), (Images, (torch.zeros(2, 3, 8, 8),)), (Parts, (torch.zeros(2, 3, 8),))]
)
def test_the_graph_is_what_the_cpu_runs(model, inputs, precision) -> None:
    graph = trace(model(), inputs, PRECISIONS[precision], "cpu")
    expected, saved = real_run(model(), inputs, precision)
    assert without_statistics(traced(graph)) == without_statistics(expected)
    kept = sum(block.saved_bytes for block in (graph.before, *graph.blocks, graph.after))
    assert kept == (saved if precision != "bf16" else pytest.approx(saved, rel=0.02))


def test_flops_are_those_that_torch_counts() -> None:
    model, inputs = Text(), text_inputs()
    with FlopCounterMode(display=False) as counter:
        model(*inputs).backward()
    graph = trace(Text(), inputs, PRECISIONS["fp32"], "cuda")
    assert (
        sum(op.flops for block in (graph.before, *graph.blocks, graph.after) for op in block.operators)
        == counter.get_total_flops()
    )


def test_cuda_autocast_computes_products_in_half_and_norms_in_single_precision() -> None:
    graph = trace(Text(), text_inputs(), PRECISIONS["amp-fp16"], "cuda")
    dtypes = {operator.kind: set() for operator in graph.blocks[0].operators}
    for operator in graph.blocks[0].operators:
        dtypes[operator.kind].add(operator.dtype)
    assert dtypes["matmul"] == {"float16"}
    assert dtypes["normalisation"] == {"float32"}
    (softmax,) = (operator for operator in graph.blocks[0].forward if operator.kind == "softmax")
    assert (softmax.inputs[0].dtype, softmax.outputs[0].dtype) == (
        "float16",
        "float32",
    )  # one kernel reads halves, writes singles
    assert {weight.name: weight.computed for weight in graph.blocks[0].weights}["blocks.0.up.weight"] == "float16"
    assert {weight.gradient for weight in graph.blocks[0].weights} == {"float32"}


def test_blocks_hold_their_own_operators_weights_and_backward() -> None:
    graph = trace(Text(), text_inputs(), PRECISIONS["fp32"], "cuda")
    assert [block.name for block in graph.blocks] == ["blocks.0", "blocks.1"]
    assert not {op.name for op in graph.blocks[0].operators} & {
        f"aten.{view}.default" for view in ("t", "view", "permute", "expand")
    }
    first, second = ({(op.name, op.inputs, op.phase) for op in block.operators} for block in graph.blocks)
    assert first == second
    for block in graph.blocks:
        assert all(op.module.startswith(block.name) for op in block.operators)
        products = Counter(op.phase for op in block.operators if op.kind == "matmul")
        assert products == {"forward": 6, "backward": 12}
    assert graph.tied == ("embedding.weight",)
    assert graph.blocks[0].output == Tensor((2, 8, 32), "float32")
    assert graph.parameters() == sum(parameter.numel() for parameter in Text().parameters())


def test_attention_is_one_operator_in_the_dtype_of_autocast() -> None:
    class Attend(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x):
            return F.scaled_dot_product_attention(x * self.scale, x, x, is_causal=True).sum()

    x = torch.zeros(2, 4, 16, 8)
    for device, precision, dtype in (
        ("cuda", "fp32", "float32"),
        ("cuda", "amp-fp16", "float16"),
        ("cpu", "amp-bf16", "bfloat16"),
    ):
        graph = trace(Attend(), (x,), PRECISIONS[precision], device, blocks=None)
        forward, backward = (op for op in graph.before.operators if op.kind == "attention")
        assert (forward.phase, backward.phase, forward.dtype, backward.dtype) == ("forward", "backward", dtype, dtype)
        assert forward.flops == 2 * 2 * (2 * 4) * 16 * 16 * 8 / 2  # causal
        assert backward.flops == 2.5 * forward.flops


def test_the_module_and_autocast_are_left_as_they_were() -> None:
    model = Text()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trace(model, text_inputs(), PRECISIONS["amp-fp16"], "cuda")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.head.weight is model.embedding.weight
    assert not torch.is_autocast_enabled("cuda")
    assert torch.cuda.is_available() or torch.cuda.amp.common.amp_definitely_not_available()


@pytest.mark.parametrize("precision", ["fp32", "amp-bf16"])
def test_any_micro_batch_follows_from_two(precision) -> None:
    graphs = {batch: trace(Text(), text_inputs(batch), PRECISIONS[precision], "cuda") for batch in (2, 4, 7)}
    assert at_micro_batch(graphs[2], graphs[4], 7) == graphs[7]


def test_a_branch_on_values_is_named_by_its_line() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            if self.layer(x).sum() > 0:
                return x
            return self.layer(x)

    with pytest.raises(
        InputError, match=r"Branching cannot be traced at test_trace.py line \d+ .*sum\(\) > 0.*branches depend on values"
    ):
        trace(Branching(), (torch.zeros(2, 4),), PRECISIONS["fp32"])


def test_a_wrong_input_and_a_module_without_gradient_are_one_sentence() -> None:
    with pytest.raises(InputError, match=r"Linear cannot be traced.*example inputs"):
        trace(nn.Linear(4, 4), (torch.zeros(2, 5),), PRECISIONS["fp32"])
    with pytest.raises(InputError, match="no tensor with a gradient"):
        trace(nn.ReLU(), (torch.zeros(2, 5),), PRECISIONS["fp32"])
