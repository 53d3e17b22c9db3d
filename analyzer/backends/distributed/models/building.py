"""From a configuration to its module in training, with its loss, and to inputs that it takes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from epochcast.analyzer.backends.distributed.models.configuration import Configuration, transformers
from epochcast.analyzer.backends.distributed.models.user_module import find_blocks
from epochcast.analyzer.backends.distributed.plan.job import Attention
from epochcast.analyzer.backends.network.fused import CrossEntropy
from epochcast.analyzer.errors import InputError, type_and_text

_PLANS: tuple[Mapping[str, str], ...] = (
    {  # GPT-2
        "h.*.attn.c_attn": "colwise",
        "h.*.attn.num_heads": "heads",
        "h.*.attn.split_size": "heads",
        "h.*.attn.c_proj": "rowwise",
        "h.*.mlp.c_fc": "colwise",
        "h.*.mlp.c_proj": "rowwise",
    },
    {  # OPT
        **{f"decoder.layers.*.self_attn.{name}_proj": "colwise" for name in "qkv"},
        "decoder.layers.*.self_attn.num_heads": "heads",
        "decoder.layers.*.self_attn.out_proj": "rowwise",
        "decoder.layers.*.fc1": "colwise",
        "decoder.layers.*.fc2": "rowwise",
    },
    {  # BERT, RoBERTa, ELECTRA
        **{f"encoder.layer.*.attention.self.{name}": "colwise" for name in ("query", "key", "value")},
        "encoder.layer.*.attention.output.dense": "rowwise",
        "encoder.layer.*.intermediate.dense": "colwise",
        "encoder.layer.*.output.dense": "rowwise",
    },
    {  # ViT, DeiT
        **{f"layers.*.attention.{name}_proj": "colwise" for name in "qkv"},
        "layers.*.attention.o_proj": "rowwise",
        "layers.*.mlp.fc1": "colwise",
        "layers.*.mlp.fc2": "rowwise",
    },
)
"""The split of Shoeybi et al. 2019, section 3, for models whose configuration has no ``base_model_tp_plan``."""

_RULES = {"colwise": "column", "rowwise": "row", "heads": "heads"}
_WHOLE = ("replicated_with_grad_allreduce", "replicate")


class Core(nn.Module):
    """Scores, softmax, dropout and mixing: as one operator, or as matrix products whose s x s tensors backward reads."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused

    def forward(self, query: Tensor, key: Tensor, value: Tensor, dropout: float, causal: bool, scale: float | None) -> Tensor:
        """Query (batch, heads, s, d), key and value (batch, heads that groups share, s, d) to (batch, s, heads, d)."""
        groups = query.shape[1] // key.shape[1]
        if self.fused:
            mixed = functional.scaled_dot_product_attention(
                query, key, value, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=groups > 1
            )
            return mixed.transpose(1, 2)
        if groups > 1:
            key, value = (one.unsqueeze(2).expand(-1, -1, groups, -1, -1).flatten(1, 2) for one in (key, value))
        scores = torch.matmul(query, key.transpose(-2, -1)) * (scale or query.shape[-1] ** -0.5)
        if causal:
            length = query.shape[-2]
            future = torch.ones((length, length), dtype=torch.bool, device=query.device).triu(1)
            scores = scores.masked_fill(future, float("-inf"))
        probabilities = functional.softmax(scores, dim=-1)
        return torch.matmul(functional.dropout(probabilities, dropout, self.training), value).transpose(1, 2)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _: None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **__: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers' layers call it: by their module ``core``."""
    causal = bool(module.is_causal if is_causal is None else is_causal)
    return module.core(query, key, value, dropout, causal, scaling), None


@cache
def _library() -> Any:
    """transformers, which knows our attention under our name; it makes no mask, as samples are not padded."""
    library = transformers()
    library.AttentionInterface.register("epochcast", _attend)
    library.AttentionMaskInterface.register("epochcast", lambda *_, **__: None)
    return library


class Trained(nn.Module):
    """A model of transformers with its loss: ``module(inputs, targets)`` is the scalar to train on.

    ``blocks`` is the path of its layers.
    """

    def __init__(self, model: nn.Module, images: bool) -> None:
        super().__init__()
        self.model, self.images, self.loss = model, images, CrossEntropy()
        self.blocks = find_blocks(self, 1) or ""

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Tokens (batch, s) with targets of the same shape, or images (batch, 3, side, side) with labels (batch,)."""
        # With a mask, transformers does not look into the positions for samples that share a row.
        given = {"pixel_values": inputs} if self.images else {"input_ids": inputs, "attention_mask": torch.ones_like(inputs)}
        return self.loss(self.model(**given).logits, targets)


def build(of: Configuration, attention: Attention = "fused", length: int = 0, device: str = "meta") -> Trained:
    """Build the module in training mode, FP32, with initial weights if ``device`` holds values.

    Args:
        of: the configuration.
        attention: ``fused`` (one operator) or ``eager`` (matrix products and softmax).
        length: tokens of a sample; a model of fewer positions gets so many.
        device: where the weights lie.

    Raises:
        InputError: transformers cannot build it, or it has layers without attention that can be read.
    """
    config = copy.deepcopy(of.config)
    if length > of.positions > 0:
        config.max_position_embeddings = length
    config.use_cache = config.get_text_config().use_cache = False
    try:
        with torch.device(device), _offline():
            model = getattr(_library(), of.architecture)._from_config(config, attn_implementation="epochcast")
            module = Trained(model, of.images)
    except Exception as error:  # constructors of transformers' own
        if str(error) != "'epochcast'":
            raise InputError(f"{of.name} cannot be built by transformers: {type_and_text(error)}") from error
        layers = [nn.Module()]  # attention that cannot be another
    else:
        _prepare(module, attention)
        layers = list(module.get_submodule(module.blocks).children())
    if not of.images and not all(any(isinstance(part, Core) for part in layer.modules()) for layer in layers):
        raise InputError(
            f"{of.name} has layers (model_type {of.kind}) without attention that can be read; give an import path on the "
            "command line"
        )
    module.train()
    return module


@contextmanager
def _offline() -> Iterator[None]:
    """Have nothing asked of a hub, even where a configuration names something there."""
    from huggingface_hub import constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _prepare(module: nn.Module, attention: Attention) -> None:
    """Give layers of attention their core and their numbers of heads, and GPT-2 linear layers."""
    for part in list(module.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, _library().pytorch_utils.Conv1D):  # a linear layer with its weight transposed
                inputs, outputs = child.weight.shape
                linear = nn.Linear(inputs, outputs, device="meta")
                linear.weight, linear.bias = nn.Parameter(child.weight.detach().t().contiguous()), child.bias
                setattr(part, name, linear)
        if hasattr(part, "is_causal"):
            part.core = Core(attention == "fused")
            width = getattr(part, "head_dim", None) or getattr(part, "attention_head_size", 0)
            for name, child in part.named_children():
                if width and isinstance(child, nn.Linear):
                    setattr(part, f"{name}_heads", child.out_features // width)


def keep_distinct(module: Trained) -> tuple[int, ...]:
    """Leave one of the layers that are alike; answers of all layers, in their order, which of those left each is like.

    Layers are alike whose modules, settings and shapes of weights are the same.
    """
    layers = list(module.get_submodule(module.blocks).children())
    kinds: dict[Any, int] = {}
    order = tuple(kinds.setdefault(_traits(layer), len(kinds)) for layer in layers)
    kept = [order.index(kind) for kind in range(len(kinds))]
    if len(kept) < len(layers):
        owner, _, name = module.blocks.rpartition(".")
        setattr(module.get_submodule(owner), name, nn.ModuleList(layers[index] for index in kept))
        config = module.model.config.get_text_config()
        if isinstance(types := vars(config).get("layer_types"), list):
            config.layer_types = [types[index] for index in kept]
        config.num_hidden_layers = len(kept)
    return order


def _traits(layer: nn.Module) -> Any:
    return tuple(
        (
            name,
            type(part),
            tuple(  # other numbers change no work
                (key, value)
                for key, value in sorted(vars(part).items())
                if key != "layer_idx" and isinstance(value, (bool, int, str))
            ),
            tuple((key, tuple(weight.shape)) for key, weight in part.named_parameters(recurse=False)),
        )
        for name, part in layer.named_modules()
    )


def tensor_plan(of: Configuration, module: Trained) -> dict[str, str]:
    """How tensor ranks split it, by patterns of paths (:mod:`..tensor_slicing`): transformers' own plan, or Megatron's.

    Raises:
        InputError: there is none, or one of other splits than into columns and rows.
    """
    modules = dict(module.named_modules())
    paths = {id(part): path for path, part in modules.items()}
    base = paths[id(module.model.base_model)]
    plan = getattr(of.config.get_text_config(), "base_model_tp_plan", None)
    for known in () if plan else _PLANS:
        if all(f"{base}.{layer}".replace("*", "0") in modules for layer, how in known.items() if how != "heads"):
            plan = known
    if not plan:
        raise InputError(f"transformers has no plan to split a {of.kind} over tensor ranks; use 1 tensor rank")
    rules: dict[str, str] = {}
    for pattern, how in plan.items():
        if how in _WHOLE:
            continue
        if how not in _RULES:
            raise InputError(
                f"transformers splits a {of.kind} over tensor ranks by {how}, which is not modelled; use 1 of them"
            )
        path, heads = f"{base}.{pattern}", f"{pattern.rpartition('.')[2]}_heads"
        owner = modules.get(path.rpartition(".")[0].replace("*", "0"))
        rules[path] = f"column:{heads}" if how == "colwise" and hasattr(owner, heads) else _RULES[how]
    for part in () if of.images else (module.model.get_input_embeddings(), module.model.get_output_embeddings()):
        rules[paths[id(part)]] = "vocabulary"
    return rules


def example_inputs(of: Configuration, batch: int, sequence_length: int, device: str = "meta") -> tuple[Tensor, Tensor]:
    """Inputs and targets of one micro-batch: random where ``device`` holds values.

    Token ids and targets, both (batch, sequence_length) int64; or images (batch, 3, side, side) FP32 and labels (batch,).
    """
    if of.images:
        side = getattr(of.config, "image_size", 224)
        height, width = side if isinstance(side, Sequence) else (side, side)
        images = torch.randn(batch, of.config.num_channels, height, width, device=device)
        return images, torch.randint(of.config.num_labels, (batch,), device=device)
    words = of.config.get_text_config().vocab_size
    ids, targets = (torch.randint(words, (batch, sequence_length), device=device) for _ in range(2))
    return ids, targets
