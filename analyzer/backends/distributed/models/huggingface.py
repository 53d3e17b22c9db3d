"""A Hugging Face ``config.json``, without weights and without transformers, as an architecture.

Each class holds what one ``model_type`` says, checked; other keys in the file are ignored. What a configuration
leaves out is as transformers' own class has it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from epochcast.analyzer.backends.distributed.models.architecture import Activation, Architecture
from epochcast.analyzer.errors import InputError

_LARGEST_FILE = 4_000_000
"""Bytes; the longest configurations are those that name 21,843 classes of images."""

Count = Annotated[int, Field(ge=1, le=10**8)]
Share = Annotated[float, Field(ge=0, lt=1)]
ActivationName = Literal["silu", "swish", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu"]

_ACTIVATIONS: dict[ActivationName, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}


class _Config(BaseModel):
    """Numbers as numbers (no text for one), no NaN; other keys may be present."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)


class Llama(_Config):
    """``model_type`` llama and mistral. A sliding window counts as full attention, which it is up to its length."""

    hidden_size: Count
    num_hidden_layers: Count
    num_attention_heads: Count
    num_key_value_heads: Count | None = None
    head_dim: Count | None = None
    intermediate_size: Count
    vocab_size: Count
    hidden_act: ActivationName = "silu"
    attention_dropout: Share = 0.0
    attention_bias: Literal[False] = False
    mlp_bias: Literal[False] = False
    tie_word_embeddings: bool = False

    def architecture(self, name: str, qkv_bias: bool = False) -> Architecture:
        """Answer it under our names."""
        return Architecture(
            style="llama",
            name=name,
            hidden=self.hidden_size,
            layers=self.num_hidden_layers,
            heads=self.num_attention_heads,
            kv_heads=self.num_key_value_heads or 0,
            head_dim=self.head_dim or 0,
            ffn=self.intermediate_size,
            vocab=self.vocab_size,
            activation=_ACTIVATIONS[self.hidden_act],
            attention_dropout=self.attention_dropout,
            tied=self.tie_word_embeddings,
            qkv_bias=qkv_bias,
        )


class Qwen2(Llama):
    """``model_type`` qwen2: a llama whose projections to queries, keys and values have biases."""

    def architecture(self, name: str, qkv_bias: bool = True) -> Architecture:
        """Answer it under our names."""
        return super().architecture(name, qkv_bias)


class Gpt2(_Config):
    """``model_type`` gpt2."""

    n_embd: Count
    n_layer: Count
    n_head: Count
    n_inner: Count | None = None
    n_positions: Count = 1024
    vocab_size: Count
    activation_function: ActivationName = "gelu_new"
    resid_pdrop: Share = 0.1
    attn_pdrop: Share = 0.1
    tie_word_embeddings: bool = True

    def architecture(self, name: str) -> Architecture:
        """Answer it under our names."""
        return Architecture(
            style="gpt2",
            name=name,
            hidden=self.n_embd,
            layers=self.n_layer,
            heads=self.n_head,
            ffn=self.n_inner or 0,
            vocab=self.vocab_size,
            positions=self.n_positions,
            activation=_ACTIVATIONS[self.activation_function],
            dropout=self.resid_pdrop,
            attention_dropout=self.attn_pdrop,
            tied=self.tie_word_embeddings,
        )


class Opt(_Config):
    """``model_type`` opt, but for the 350M, which normalises after each part and projects its embeddings."""

    hidden_size: Count
    num_hidden_layers: Count
    num_attention_heads: Count
    ffn_dim: Count
    vocab_size: Count
    max_position_embeddings: Count = 2048
    activation_function: ActivationName = "relu"
    dropout: Share = 0.1
    attention_dropout: Share = 0.0
    do_layer_norm_before: Literal[True] = True
    tie_word_embeddings: bool = True

    def architecture(self, name: str) -> Architecture:
        """Answer it under our names."""
        return Architecture(
            style="opt",
            name=name,
            hidden=self.hidden_size,
            layers=self.num_hidden_layers,
            heads=self.num_attention_heads,
            ffn=self.ffn_dim,
            vocab=self.vocab_size,
            positions=self.max_position_embeddings,
            activation=_ACTIVATIONS[self.activation_function],
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            tied=self.tie_word_embeddings,
        )


class Bert(_Config):
    """``model_type`` bert, with the head for masked tokens."""

    hidden_size: Count
    num_hidden_layers: Count
    num_attention_heads: Count
    intermediate_size: Count
    vocab_size: Count
    max_position_embeddings: Count = 512
    type_vocab_size: Literal[2] = 2
    hidden_act: ActivationName = "gelu"
    hidden_dropout_prob: Share = 0.1
    attention_probs_dropout_prob: Share = 0.1
    tie_word_embeddings: bool = True

    def architecture(self, name: str) -> Architecture:
        """Answer it under our names."""
        return Architecture(
            style="bert",
            name=name,
            hidden=self.hidden_size,
            layers=self.num_hidden_layers,
            heads=self.num_attention_heads,
            ffn=self.intermediate_size,
            vocab=self.vocab_size,
            positions=self.max_position_embeddings,
            activation=_ACTIVATIONS[self.hidden_act],
            dropout=self.hidden_dropout_prob,
            attention_dropout=self.attention_probs_dropout_prob,
            tied=self.tie_word_embeddings,
        )


class Vit(_Config):
    """``model_type`` vit, as a classifier of the classes that it names (two if it names none)."""

    hidden_size: Count
    num_hidden_layers: Count
    num_attention_heads: Count
    intermediate_size: Count
    image_size: Count = 224
    patch_size: Count = 16
    num_channels: Literal[3] = 3
    hidden_act: ActivationName = "gelu"
    hidden_dropout_prob: Share = 0.0
    attention_probs_dropout_prob: Share = 0.0
    qkv_bias: Literal[True] = True
    id2label: Annotated[dict[str, str], Field(min_length=1)] = {"0": "LABEL_0", "1": "LABEL_1"}

    def architecture(self, name: str) -> Architecture:
        """Answer it under our names."""
        return Architecture(
            style="vit",
            name=name,
            hidden=self.hidden_size,
            layers=self.num_hidden_layers,
            heads=self.num_attention_heads,
            ffn=self.intermediate_size,
            image_size=self.image_size,
            patch=self.patch_size,
            classes=len(self.id2label),
            activation=_ACTIVATIONS[self.hidden_act],
            dropout=self.hidden_dropout_prob,
            attention_dropout=self.attention_probs_dropout_prob,
        )


class _Readable(Protocol):
    @classmethod
    def model_validate(cls, obj: Any) -> _Readable: ...
    def architecture(self, name: str) -> Architecture: ...


MODEL_TYPES: dict[str, type[_Readable]] = {
    "llama": Llama,
    "mistral": Llama,
    "qwen2": Qwen2,
    "gpt2": Gpt2,
    "opt": Opt,
    "bert": Bert,
    "vit": Vit,
}
"""What can be read, by ``model_type``."""


def read_config(path: Path) -> Architecture:
    """Read a configuration file.

    Raises:
        InputError: the file cannot be read, is not a configuration, is of another ``model_type`` or is impossible.
    """
    name = path.absolute().parent.name if path.stem == "config" else path.stem
    return read_content(_json(path), name, repr(str(path)), "give an import path, package.module:factory")


def read_content(config: Any, name: str, called: str, otherwise: str) -> Architecture:
    """Read what a configuration file holds.

    Args:
        config: its JSON value.
        name: of the model, for people.
        called: what messages call the configuration.
        otherwise: the remedy for a model that cannot be read so.

    Raises:
        InputError: it is not a configuration, is of another ``model_type`` or is impossible.
    """
    kind = config.get("model_type") if isinstance(config, dict) else None
    if isinstance(config, dict):
        _refuse_experts(config, called)
    if not isinstance(kind, str) or kind not in MODEL_TYPES:
        raise InputError(f"{called} has model_type {kind!r:.60}; known are {', '.join(MODEL_TYPES)} (for another, {otherwise})")
    try:
        read = MODEL_TYPES[kind].model_validate(config)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            raise InputError(f"{called} lacks {key}; add it as transformers writes it for a {kind}") from error
        raise InputError(
            f"{called} has {key}={str(first['input'])[:60]} ({first['msg'].lower()}), which is not built in; "
            f"change it, or {otherwise}"
        ) from error
    return read.architecture(name)


_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_ACTIVE_EXPERTS = ("num_experts_per_tok", "experts_per_token", "moe_top_k")
"""Keys of transformers' mixtral, qwen2_moe, deepseek_v3, dbrx and gpt_oss."""
_OF_EXPERTS = ("moe", "mixtral", "dbrx", "deepseek_v2", "deepseek_v3", "gpt_oss", "llama4")
"""Parts of a ``model_type`` whose models have experts, even where the file leaves their number to transformers."""


def _refuse_experts(config: dict[str, Any], called: str) -> None:
    """Raise InputError for a mixture of experts, with the dense model that computes as much per token."""
    nested = [part for key in ("text_config", "ffn_config") if isinstance(part := config.get(key), dict)]
    flat = {key: value for part in (config, *nested) for key, value in part.items()}

    def number(*keys: str) -> int:
        return next((value for key in keys if type(value := flat.get(key)) is int), 0)

    experts, kind = number(*_EXPERTS), str(config.get("model_type"))
    if experts <= 1 and not any(part in kind for part in _OF_EXPERTS):
        return
    width = number("moe_intermediate_size", "ffn_hidden_size", "intermediate_size")
    active = number(*_ACTIVE_EXPERTS)
    shared = number("shared_expert_intermediate_size") or number("n_shared_experts") * width
    sizes = {
        "hidden": number("hidden_size", "d_model"),
        "layers": number("num_hidden_layers", "n_layers"),
        "ffn": active * width + shared,
    }
    numbers = ", ".join(f"{name} {size}" for name, size in sizes.items() if size)
    of_what = f" (experts: {active} x {width}{f' and {shared} shared' if shared else ''})" if active * width else ""
    raise InputError(
        f"{called} is a mixture of {experts if experts > 1 else 'several'} experts (model_type {kind:.60}), which are not "
        f"modelled; give a dense llama of the active parameters: {numbers or 'its hidden and layers'}{of_what}"
        f"{'' if sizes['ffn'] else ', ffn as wide as the active experts together'} (its memory lacks the other experts)"
    )


def _json(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}; name a configuration file") from error
    if len(content) > _LARGEST_FILE:
        raise InputError(f"{str(path)!r} is over {_LARGEST_FILE // 10**6} MB; name a config.json, not weights")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r} is not JSON ({str(error)[:80]}); name a config.json") from error
