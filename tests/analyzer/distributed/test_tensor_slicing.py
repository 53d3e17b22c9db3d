"""Tensor parallelism: ranks that really exchange at the markers compute what the whole model computes."""

import threading
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from torch import Tensor, nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from epochcast.analyzer.backends.distributed.models.building import build, tensor_plan  # noqa: E402
from epochcast.analyzer.backends.distributed.models.configuration import from_text  # noqa: E402
from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs  # noqa: E402
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration  # noqa: E402
from epochcast.analyzer.backends.distributed.plan.tensor_slicing import slice_for_tensor_parallel  # noqa: E402
from epochcast.analyzer.errors import InputError  # noqa: E402

WORDS, LENGTH = 11, 8
close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)  # norms compute in FP32
LLAMA = f"llama:hidden=16,layers=2,heads=4,ffn=24,vocab={WORDS},attention_bias=yes,mlp_bias=yes"


class SumOfSquares(nn.Module):
    """A loss whose sum over ranks is that over all words."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return logits.square().sum()


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


def _run_ranks(sliced: list[nn.Module], words: Tensor) -> list[float]:
    """The loss of each rank; gradients are left at its weights."""
    board, barrier, losses = [None] * len(sliced), threading.Barrier(len(sliced), timeout=20), [0.0] * len(sliced)

    def run(rank: int) -> None:
        try:
            with Exchange(rank, board, barrier):
                loss = sliced[rank](words, words)
                loss.backward()
            losses[rank] = loss.item()
        except BaseException:
            barrier.abort()
            raise

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(sliced))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return losses


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize(("ranks", "kv_heads", "tied"), [(2, 4, "yes"), (2, 2, "no"), (2, 1, "yes"), (4, 2, "yes")])
def test_ranks_compute_what_the_whole_computes(ranks: int, kv_heads: int, tied: str, sequence_parallel: bool) -> None:
    torch.manual_seed(0)
    of = from_text(f"{LLAMA},kv_heads={kv_heads},tied={tied}")
    model, words = build(of, device="cpu").double(), torch.randint(WORDS, (3, LENGTH))
    model.loss = SumOfSquares()
    plan = tensor_plan(of, model)
    sliced = [slice_for_tensor_parallel(model, ranks, plan, sequence_parallel, model.blocks, rank) for rank in range(ranks)]
    losses = _run_ranks(sliced, words)
    loss = model(words, words)
    loss.backward()
    assert sum(losses) == pytest.approx(loss.item(), rel=1e-6)
    gradients = {name: one.grad for name, one in model.named_parameters()}
    parts = [dict(one.named_parameters()) for one in sliced]
    assert parts[0].keys() == gradients.keys()
    rows = torch.cat([one["model.model.embed_tokens.weight"].grad for one in parts])
    close(rows[:WORDS], gradients["model.model.embed_tokens.weight"])
    assert not rows[WORDS:].any()
    first, second = (f"model.model.layers.{index}" for index in (0, 1))
    for name, dim in (("self_attn.q_proj.weight", 0), ("self_attn.o_proj.weight", 1), ("mlp.up_proj.bias", 0)):
        assert parts[0][f"{first}.{name}"].tensor_sliced
        whole = torch.cat([one[f"{first}.{name}"].grad for one in parts], dim)
        close(whole, gradients[f"{first}.{name}"])
    key = torch.stack([one[f"{second}.self_attn.k_proj.weight"].grad for one in parts])
    sharing = (min(ranks, kv_heads), -1)  # ranks that share heads have a part of the gradient each
    whole = key.unflatten(0, sharing).sum(1).flatten(0, 1)
    close(whole, gradients[f"{second}.self_attn.k_proj.weight"])
    norm = f"{second}.post_attention_layernorm.weight"
    norms = [one[norm].grad for one in parts]  # under sequence parallelism of the rank's part of it
    close(sum(norms) if sequence_parallel else norms[1], gradients[norm])


def test_a_block_exchanges_once_per_sublayer_each_way() -> None:
    """Shoeybi et al. 2019, figure 4: two all-reduces, though q, k and v are three layers; Korthikanti et al. 2022, figure 5."""
    job = TrainingConfiguration(tensor=2, sequence_length=LENGTH, precision="fp32")
    graphs = ModelGraphs.of(LLAMA)
    gathered = ["epochcast.all_gather", "epochcast.reduce_scatter"] * 2
    for sequence_parallel, forward in ((False, ["epochcast.all_reduce"] * 2), (True, gathered)):
        block = graphs.graph(TrainingConfiguration(**vars(job) | {"sequence_parallel": sequence_parallel})).blocks[0]
        names = [[one.name for one in own if one.kind == "communication"] for own in (block.forward, block.backward)]
        assert names == [forward, forward]


@pytest.mark.parametrize(
    ("ranks", "plan", "message"),
    [
        (5, {"model.model.layers.*.mlp.up_proj": "column"}, "up_proj has 24 output features, which do not divide over 5"),
        (5, {"model.model.layers.*.mlp.down_proj": "row"}, "down_proj has 24 input features, which do not divide over 5"),
        (3, {"model.model.layers.*.self_attn.q_proj": "column:q_proj_heads"}, "of model.model.layers.0.self_attn.q_proj is 4"),
        (3, {"model.model.layers.*.self_attn.q_proj_heads": "heads"}, "heads is 4, which does not divide over 3"),
        (2, {"model.model.norm": "row"}, "norm is a LlamaRMSNorm, which tensor ranks cannot split"),
    ],
)
def test_what_cannot_be_sliced_is_one_sentence(ranks: int, plan: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        slice_for_tensor_parallel(build(from_text(LLAMA)), ranks, plan)
    assert "\n" not in str(caught.value)
