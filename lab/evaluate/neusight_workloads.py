"""The operators of NeuSight's end-to-end measurements: Hugging Face models of 2023 in FP32 with eager attention.

Lee et al., "Forecasting GPU Performance for Deep Learning Training and Inference", ASPLOS 2025, and their `Tracing/trace.py`:
inference is a forward pass without gradients, BERT's as a classifier of sequences, without a head for tokens; training is a
forward pass and the backward pass of a loss that was computed between the two, unmeasured; no optimizer.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.distributed.models.building import build, example_inputs, keep_distinct
from epochcast.analyzer.backends.distributed.models.configuration import NAMED, Configuration, from_numbers
from epochcast.analyzer.backends.distributed.models.graph import Operator
from epochcast.analyzer.backends.distributed.models.trace import trace
from epochcast.analyzer.backends.distributed.plan.job import precision_named

_GPT2 = {"activation_function": "gelu_new"}  # eight operators of one pass each
# GPT-3 XL with the 24 heads of 128 that table 2.1 of Brown et al. 2020 gives it, hence 3072 wide: only so do the FLOPs fit
# the published roofline predictions, which are those of 2.7B times 1.01.
_CONFIGURATIONS: dict[str, Configuration] = {
    "bert_large": NAMED["BERT-large"],
    "gpt2_large": from_numbers("gpt2", "GPT-2-large", hidden=1280, layers=36, heads=20, **_GPT2),
    "gpt3_xl": from_numbers("gpt2", "GPT-3-XL of 3072", hidden=3072, layers=24, heads=24, positions=2048, **_GPT2),
    "gpt3_27": from_numbers("gpt2", "GPT-3-2.7B", hidden=2560, layers=32, heads=32, positions=2048, **_GPT2),
    "opt_13": NAMED["OPT-1.3B"],
}

NAMES = tuple(_CONFIGURATIONS)
"""Models of the measurements that can be built; the switch transformers are left out."""


@cache
def operators_of(model: str, batch: int, sequence_length: int, training: bool) -> tuple[Operator, ...]:
    """What runs on the GPU between the marks of one measurement; ``model`` is one of :data:`NAMES`."""
    of = _CONFIGURATIONS[model]
    module = build(of, "eager")
    order = keep_distinct(module)
    if of.kind == "bert":
        for part in module.modules():
            if hasattr(part, "core"):
                part.core = _PaddedCore()
    inputs = example_inputs(of, batch, sequence_length)
    graph = trace(module.train(training), inputs, precision_named("fp32"), "cuda", module.blocks, of.name)
    graph = replace(graph, blocks=tuple(graph.blocks[kind] for kind in order))
    inside = [operator for block in (graph.before, *graph.blocks) for operator in block.operators]
    after = [operator for operator in graph.after.operators if not _is_unmeasured(operator)]
    if training:
        return (*inside, *after)
    head = [] if of.kind == "bert" else after
    return tuple(operator for operator in (*inside, *head) if operator.phase == "forward")


def _is_unmeasured(operator: Operator) -> bool:
    return operator.phase == "forward" and "loss" in operator.module.split(".")


class _PaddedCore(nn.Module):
    """Attention of Hugging Face's BERT, which always adds the mask of padding to the scores."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, dropout: float, _: bool, scale: float) -> Tensor:
        scores = torch.matmul(query, key.transpose(-2, -1)) * scale
        padding = torch.zeros(query.shape[0], 1, 1, query.shape[-2], device=query.device)
        probabilities = torch.softmax(scores + padding, dim=-1)
        return torch.matmul(nn.functional.dropout(probabilities, dropout, self.training), value).transpose(1, 2)
