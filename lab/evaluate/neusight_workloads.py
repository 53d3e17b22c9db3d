"""The operators of NeuSight's end-to-end measurements: Hugging Face models of 2023 in FP32 with eager attention.

Lee et al., "Forecasting GPU Performance for Deep Learning Training and Inference", ASPLOS 2025, and their `Tracing/trace.py`:
inference is a forward pass without gradients, BERT's as a classifier of sequences, without a head for tokens; training is a
forward pass and the backward pass of a loss that was computed between the two, unmeasured; no optimizer.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.distributed.graph import Operator
from epochcast.analyzer.backends.distributed.models.architecture import Architecture
from epochcast.analyzer.backends.distributed.models.building import build, example_inputs
from epochcast.analyzer.backends.distributed.models.named import NAMED, from_numbers
from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.analyzer.backends.distributed.trace import repeat_block, trace

# GPT-3 XL with the 24 heads of 128 that table 2.1 of Brown et al. 2020 gives it, hence 3072 wide: only so do the FLOPs fit
# the published roofline predictions, which are those of 2.7B times 1.01.
_ARCHITECTURES: dict[str, Architecture] = {
    "bert_large": NAMED["BERT-large"],
    "gpt2_large": NAMED["GPT-2-large"],
    "gpt3_xl": from_numbers("gpt2", name="GPT-3-XL of 3072", hidden=3072, layers=24, heads=24, positions=2048),
    "gpt3_27": NAMED["GPT-3-2.7B"],
    "opt_13": NAMED["OPT-1.3B"],
}

NAMES = tuple(_ARCHITECTURES)
"""Models of the measurements that can be built; the switch transformers are left out."""


@cache
def operators_of(model: str, batch: int, sequence_length: int, training: bool) -> tuple[Operator, ...]:
    """What runs on the GPU between the marks of one measurement; ``model`` is one of :data:`NAMES`."""
    of = _ARCHITECTURES[model]
    module = build(of, "eager", layers=1)
    for block in module.blocks:
        if of.style == "gpt2":
            block.mlp.activation = _gelu_new
        if of.style == "bert":
            block.attention.core = _PaddedCore(of.attention_dropout)
    inputs = example_inputs(of, batch, sequence_length)
    graph = repeat_block(trace(module.train(training), inputs, precision_named("fp32"), "cuda", "blocks", of.name), of.layers)
    inside = [operator for block in (graph.before, *graph.blocks) for operator in block.operators]
    after = [operator for operator in graph.after.operators if not _is_unmeasured(operator)]
    if training:
        return (*inside, *after)
    head = [] if of.style == "bert" else after
    return tuple(operator for operator in (*inside, *head) if operator.phase == "forward")


def _is_unmeasured(operator: Operator) -> bool:
    return operator.phase == "forward" and "loss" in operator.module.split(".")


def _gelu_new(x: Tensor) -> Tensor:
    """GELU by tanh as Hugging Face's GPT-2 computes it: eight operators of one pass each."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class _PaddedCore(nn.Module):
    """Attention of Hugging Face's BERT, which always adds the mask of padding to the scores."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.shape[-1])
        padding = torch.zeros(query.shape[0], 1, 1, query.shape[-2], device=query.device)
        probabilities = torch.softmax(scores + padding, dim=-1)
        return torch.matmul(nn.functional.dropout(probabilities, self.dropout, self.training), value)
