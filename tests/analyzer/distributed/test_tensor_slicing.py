"""Tensor parallelism: ranks that really exchange at the markers compute what the whole model computes."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from epochcast.analyzer.backends.distributed.plan.tensor_slicing import slice_for_tensor_parallel  # noqa: E402
from epochcast.analyzer.errors import InputError  # noqa: E402

HIDDEN, HEADS, WORDS, LENGTH = 16, 4, 11, 8
ATTENTION = {
    "query": "column",
    "key": "column:kv_heads",
    "value": "column:kv_heads",
    "output": "row",
    "heads": "heads",
    "kv_heads": "heads",
}
PLAN = {
    **{f"*attention.{name}": rule for name, rule in ATTENTION.items()},
    **dict.fromkeys(("*mlp.gate", "*mlp.up"), "column"),
    "*mlp.down": "row",
    **dict.fromkeys(("before.words", "after.head"), "vocabulary"),
}


class Attention(nn.Module):
    def __init__(self, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.width = HEADS, kv_heads, HIDDEN // HEADS
        self.query, self.output = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.key, self.value = (nn.Linear(HIDDEN, kv_heads * self.width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        def split(projected: Tensor, heads: int) -> Tensor:
            return projected.unflatten(-1, (heads, self.width)).transpose(1, 2)

        query = split(self.query(x), self.heads)
        key, value = (
            split(one(x), self.kv_heads).repeat_interleave(self.heads // self.kv_heads, 1) for one in (self.key, self.value)
        )
        return self.output(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(HIDDEN, 24), nn.Linear(HIDDEN, 24)
        self.down = nn.Linear(24, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, kv_heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(HIDDEN) for _ in range(2))
        self.attention, self.mlp = Attention(kv_heads), Mlp()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))


class Before(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)

    def forward(self, words: Tensor) -> Tensor:
        return self.words(words)


class After(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x)).square().sum()  # the sum over ranks is that over all words


class Pooled(nn.Module):
    """An end that all ranks compute alike."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0].square().sum()


class Model(nn.Module):
    def __init__(self, kv_heads: int = HEADS, tied: bool = True, pooled: bool = False) -> None:
        super().__init__()
        self.before, self.blocks = Before(), nn.ModuleList(Block(kv_heads) for _ in range(2))
        self.after = Pooled() if pooled else After()
        if tied and not pooled:
            self.after.head.weight = self.before.words.weight

    def forward(self, words: Tensor) -> Tensor:
        x = self.before(words)
        for block in self.blocks:
            x = block(x)
        return self.after(x)


class Exchange(TorchDispatchMode):
    """One rank of several, each in its own thread: markers exchange among them for real."""

    def __init__(self, rank: int, board: list[Any], barrier: threading.Barrier) -> None:
        super().__init__()
        self.rank, self.board, self.barrier = rank, board, barrier

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("epochcast::")
        if func.namespace != "epochcast" or name == "copy_to_tensor_ranks":
            return func(*args, **(kwargs or {}))
        tensor, dim = args[0], args[2] if len(args) > 2 else 0
        if name == "scatter_sequence":
            return tensor.chunk(len(self.board), dim)[self.rank].clone()
        self.board[self.rank] = tensor
        self.barrier.wait()
        whole = torch.cat(self.board, dim) if name == "all_gather" else torch.stack(self.board).sum(0)
        self.barrier.wait()
        return whole.chunk(len(self.board), dim)[self.rank].clone() if name == "reduce_scatter" else whole


def _run_ranks(model: nn.Module, words: Tensor, ranks: int, **options: Any) -> tuple[list[nn.Module], list[float]]:
    """Loss and gradients of each rank."""
    sliced = [slice_for_tensor_parallel(model, ranks, rank=rank, plan=PLAN, **options) for rank in range(ranks)]
    board, barrier, losses = [None] * ranks, threading.Barrier(ranks, timeout=20), [0.0] * ranks

    def run(rank: int) -> None:
        try:
            with Exchange(rank, board, barrier):
                loss = sliced[rank](words)
                loss.backward()
            losses[rank] = loss.item()
        except BaseException:
            barrier.abort()
            raise

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sliced, losses


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize(("ranks", "kv_heads", "tied"), [(2, 4, True), (2, 2, False), (2, 1, True), (4, 2, True)])
def test_ranks_compute_what_the_whole_computes(ranks: int, kv_heads: int, tied: bool, sequence_parallel: bool) -> None:
    torch.manual_seed(0)
    model, words = Model(kv_heads, tied).double(), torch.randint(WORDS, (3, LENGTH))
    sliced, losses = _run_ranks(model, words, ranks, sequence_parallel=sequence_parallel)
    loss = model(words)
    loss.backward()
    assert sum(losses) == pytest.approx(loss.item(), rel=1e-12)
    gradients = {name: one.grad for name, one in model.named_parameters()}
    parts = [dict(one.named_parameters()) for one in sliced]
    assert parts[0].keys() == gradients.keys()
    rows = torch.cat([one["before.words.weight"].grad for one in parts])
    torch.testing.assert_close(rows[:WORDS], gradients["before.words.weight"])
    assert not rows[WORDS:].any()
    for name, dim in (
        ("attention.query.weight", 0),
        ("attention.output.weight", 1),
        ("mlp.up.bias", 0),
        ("mlp.down.weight", 1),
    ):
        name = f"blocks.0.{name}"
        assert parts[0][name].tensor_sliced
        torch.testing.assert_close(torch.cat([one[name].grad for one in parts], dim), gradients[name])
    key = torch.stack([one["blocks.1.attention.key.weight"].grad for one in parts])
    sharing = (min(ranks, kv_heads), -1)  # ranks that share heads have a part of the gradient each
    whole = key.unflatten(0, sharing).sum(1).flatten(0, 1)
    torch.testing.assert_close(whole, gradients["blocks.1.attention.key.weight"])
    norms = [one["blocks.1.norms.1.weight"].grad for one in parts]  # under sequence parallelism of the rank's part of it
    torch.testing.assert_close(sum(norms) if sequence_parallel else norms[1], gradients["blocks.1.norms.1.weight"])


FREE = ("copy_to_tensor_ranks", "scatter_sequence")
"""Markers without communication forward; they stand in a trace only because their gradients communicate."""


class Names(TorchDispatchMode):
    """Which markers run, on which dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "epochcast" and func._schema.name.split("::")[1] not in FREE:
            self.seen.append((str(func), args[0].dtype))
        return func(*args, **(kwargs or {}))


def _seen(model: nn.Module, run: Callable[[nn.Module], Tensor]) -> tuple[list[Any], list[Any]]:
    with Names() as names:
        answer = run(model)
        forward = list(names.seen)
        answer.sum().backward()
    return forward, names.seen[len(forward) :]


def test_a_block_reduces_once_per_sublayer_forward_and_once_backward() -> None:
    """Shoeybi et al. 2019, figure 4: two all-reduces forward and two backward, though q, k and v are three layers."""
    sliced = slice_for_tensor_parallel(Model(), 2, plan=PLAN).to("meta")
    x = torch.randn(1, LENGTH, HIDDEN, device="meta", requires_grad=True)
    reduce = [("epochcast.all_reduce.default", torch.float32)] * 2
    assert _seen(sliced.blocks[0], lambda block: block(x)) == (reduce, reduce)


def test_sequence_parallelism_gathers_and_scatters_instead() -> None:
    """Korthikanti et al. 2022, figure 5: an all-gather ahead of each sublayer, a reduce-scatter behind it."""
    sliced = slice_for_tensor_parallel(Model(), 2, sequence_parallel=True, plan=PLAN)
    x = torch.randn(1, LENGTH, HIDDEN, requires_grad=True)  # the first block is the one that hands it out
    both = ["epochcast.all_gather.default", "epochcast.reduce_scatter.default"] * 2
    forward, backward = _seen(sliced.blocks[0], lambda block: block(x))
    assert [name for name, _ in forward] == both
    assert [name for name, _ in backward] == [*both, "epochcast.all_gather.default"]


def test_more_ranks_than_heads_need_layers_that_are_split_by_whole_heads() -> None:
    sliced = slice_for_tensor_parallel(Attention(2), 4, plan=ATTENTION)
    assert (sliced.heads, sliced.kv_heads, sliced.key.out_features) == (1, 1, sliced.width)
    plan = {"key": "column", "value": "column", "query": "column", "output": "row", "kv_heads": "heads"}
    with pytest.raises(InputError, match="kv_heads is 2, which does not divide over 4 tensor ranks"):
        slice_for_tensor_parallel(Attention(2), 4, plan=plan)
    with pytest.raises(InputError, match="kv_heads of key is 4, which does not divide over 8 tensor ranks"):
        slice_for_tensor_parallel(Attention(4), 8, plan=ATTENTION)  # no group of queries shares these


@pytest.mark.parametrize(
    ("model", "ranks", "plan", "message"),
    [
        (Mlp(), 5, {"up": "column"}, "up has 24 output features, which do not divide over 5 tensor ranks"),
        (Mlp(), 5, {"down": "row"}, "down has 24 input features, which do not divide over 5 tensor ranks"),
        (Attention(4), 3, {"heads": "heads"}, "heads is 4, which does not divide over 3"),
        (Block(4), 2, {"mlp": "row"}, "mlp is a Mlp, which tensor ranks cannot split"),
    ],
)
def test_what_cannot_be_sliced_is_one_sentence(model: nn.Module, ranks: int, plan: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        slice_for_tensor_parallel(model, ranks, plan)
    assert "\n" not in str(caught.value)
