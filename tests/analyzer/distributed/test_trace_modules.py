"""Modules of all kinds: torch's own layers, attention of any shape, checkpoints, shared weights, and what cannot be traced."""

from collections import Counter

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from epochcast.analyzer.backends.distributed.models.trace import trace  # noqa: E402
from epochcast.analyzer.backends.distributed.plan.job import PRECISIONS  # noqa: E402
from epochcast.analyzer.errors import InputError  # noqa: E402


@pytest.mark.parametrize(("device", "precision", "dtype"), [("cuda", "amp-fp16", "float16"), ("cpu", "bf16", "bfloat16")])
def test_attention_within_torchs_own_layers_is_one_operator(device, precision, dtype) -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]).to(x)
            return self.layer(x, src_mask=mask).sum()

    graph = trace(Masked(), (torch.zeros(2, 8, 16),), PRECISIONS[precision], device, blocks=None)
    forward, backward = (op for op in graph.before.operators if op.kind == "attention")
    assert (forward.dtype, backward.dtype, forward.inputs[0].shape) == (dtype, dtype, (2, 4, 8, 4))
    assert {op.dtype for op in graph.before.operators if op.kind == "matmul"} == {dtype}
    assert sum(op.flops for op in graph.before.forward) == 2 * 2 * 8 * 16 * (48 + 16 + 32 + 32) + 4 * (2 * 4) * 8 * 8 * 4


def test_selective_recomputation_gives_up_what_the_core_made_and_not_what_it_was_given() -> None:
    class Core(nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x)

    class Attend(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.core, self.norm = nn.Linear(8, 8), Core(), nn.LayerNorm(8)

        def forward(self, x):
            return self.norm(self.core(self.query(x)))

    graph = trace(Attend(), (torch.zeros(2, 4, 16, 8),), PRECISIONS["fp32"], blocks=None)
    answer, sums = 2 * 4 * 16 * 8 * 4, 2 * 4 * 16 * 4
    assert graph.before.core_saved_bytes == answer + sums


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_of_the_module_itself_are_traced_through(reentrant) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return checkpoint(self.second, self.first(x), use_reentrant=reentrant).sum()

    graph = trace(Checkpointed(), (torch.zeros(2, 4),), PRECISIONS["fp32"], blocks=None)
    assert Counter(op.phase for op in graph.before.operators if op.kind == "matmul") == {"forward": 2, "backward": 3}


def test_tensors_are_moved_to_where_they_are() -> None:
    class Moved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            y = self.layer(x.cuda(0).to(0)).to("cuda", torch.float64)
            return (y + torch.arange(4).to(y) + torch.ones(4).type_as(y)).sum()

    graph = trace(Moved(), (torch.zeros(2, 4),), PRECISIONS["fp32"], blocks=None)
    assert {op.dtype for op in graph.before.operators if op.name == "aten.add.Tensor"} == {"float64"}


class Refused(nn.Module):
    def __init__(self, how) -> None:
        super().__init__()
        self.layer, self.how = nn.Linear(4, 4), how

    def forward(self, x):
        return self.how(self.layer(x))


class ByName(nn.Linear):
    def forward(self, *, x):
        return super().forward(x)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Refused(lambda x: x[x > 0].sum()), r"at test_trace_modules.py line \d+ .*boolean indexing out of forward"),
        (Refused(lambda x: x * float(x.numpy()[0, 0])), r"at test_trace_modules.py line \d+ .*depend on values"),
        (nn.GRU(4, 4), r"GRU cannot be traced: .*use other operators"),
        (Refused(lambda x: torch.exp(x, out=x.detach())), r"in the forward pass of aten.exp.out in its module 'Refused'"),
        (ByName(4, 4), "wrap a module that takes them by name"),
    ],
)
def test_what_cannot_be_traced_says_where_and_what_to_do(module, message) -> None:
    with pytest.raises(InputError, match=message):
        trace(module, (torch.zeros(2, 4),), PRECISIONS["fp32"])
