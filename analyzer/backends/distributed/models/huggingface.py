"""A Hugging Face ``config.json``, without weights and without transformers, as an architecture.

Each class holds what one ``model_type`` says, checked; other keys in the file are ignored. What a configuration
leaves out is as transformers' own class has it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

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
Named = Annotated[ActivationName, AfterValidator(_ACTIVATIONS.__getitem__)]


class _Config(BaseModel):
    """Numbers as numbers (no text for one), no NaN; other keys are passed over. Fields not of an architecture are excluded."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False, validate_default=True)
    fixed: ClassVar[dict[str, Any]]

    def architecture(self, name: str) -> Architecture:
        """Answer it under our names."""
        given = {key: value for key, value in self if value is not None and not type(self).model_fields[key].exclude}
        return Architecture(name=name, **self.fixed, **given)


class _Sized(_Config):
    hidden: Annotated[Count, Field(alias="hidden_size")]
    layers: Annotated[Count, Field(alias="num_hidden_layers")]
    heads: Annotated[Count, Field(alias="num_attention_heads")]


class Llama(_Sized):
    """``model_type`` llama and mistral. A sliding window counts as full attention, which it is up to its length."""

    fixed = {"style": "llama"}

    kv_heads: Annotated[Count | None, Field(alias="num_key_value_heads")] = None
    head_dim: Count | None = None
    ffn: Annotated[Count, Field(alias="intermediate_size")]
    vocab: Annotated[Count, Field(alias="vocab_size")]
    activation: Annotated[Named, Field(alias="hidden_act")] = "silu"
    attention_dropout: Share = 0.0
    attention_bias: Annotated[Literal[False], Field(exclude=True)] = False
    mlp_bias: Annotated[Literal[False], Field(exclude=True)] = False
    tied: Annotated[bool, Field(alias="tie_word_embeddings")] = False


class Qwen2(Llama):
    """``model_type`` qwen2: a llama whose projections to queries, keys and values have biases."""

    fixed = {"style": "llama", "qkv_bias": True}


class Gpt2(_Config):
    """``model_type`` gpt2."""

    fixed = {"style": "gpt2"}

    hidden: Annotated[Count, Field(alias="n_embd")]
    layers: Annotated[Count, Field(alias="n_layer")]
    heads: Annotated[Count, Field(alias="n_head")]
    ffn: Annotated[Count | None, Field(alias="n_inner")] = None
    positions: Annotated[Count, Field(alias="n_positions")] = 1024
    vocab: Annotated[Count, Field(alias="vocab_size")]
    activation: Annotated[Named, Field(alias="activation_function")] = "gelu_new"
    dropout: Annotated[Share, Field(alias="resid_pdrop")] = 0.1
    attention_dropout: Annotated[Share, Field(alias="attn_pdrop")] = 0.1
    tied: Annotated[bool, Field(alias="tie_word_embeddings")] = True


class Opt(_Sized):
    """``model_type`` opt, but for the 350M, which normalises after each part and projects its embeddings."""

    fixed = {"style": "opt"}

    ffn: Annotated[Count, Field(alias="ffn_dim")]
    vocab: Annotated[Count, Field(alias="vocab_size")]
    positions: Annotated[Count, Field(alias="max_position_embeddings")] = 2048
    activation: Annotated[Named, Field(alias="activation_function")] = "relu"
    dropout: Share = 0.1
    attention_dropout: Share = 0.0
    do_layer_norm_before: Annotated[Literal[True], Field(exclude=True)] = True
    tied: Annotated[bool, Field(alias="tie_word_embeddings")] = True


class Bert(_Sized):
    """``model_type`` bert, with the head for masked tokens."""

    fixed = {"style": "bert"}

    ffn: Annotated[Count, Field(alias="intermediate_size")]
    vocab: Annotated[Count, Field(alias="vocab_size")]
    positions: Annotated[Count, Field(alias="max_position_embeddings")] = 512
    type_vocab_size: Annotated[Literal[2], Field(exclude=True)] = 2
    activation: Annotated[Named, Field(alias="hidden_act")] = "gelu"
    dropout: Annotated[Share, Field(alias="hidden_dropout_prob")] = 0.1
    attention_dropout: Annotated[Share, Field(alias="attention_probs_dropout_prob")] = 0.1
    tied: Annotated[bool, Field(alias="tie_word_embeddings")] = True


class Vit(_Sized):
    """``model_type`` vit, as a classifier of the classes that it names (two if it names none)."""

    fixed = {"style": "vit"}

    ffn: Annotated[Count, Field(alias="intermediate_size")]
    image_size: Count = 224
    patch: Annotated[Count, Field(alias="patch_size")] = 16
    num_channels: Annotated[Literal[3], Field(exclude=True)] = 3
    activation: Annotated[Named, Field(alias="hidden_act")] = "gelu"
    dropout: Annotated[Share, Field(alias="hidden_dropout_prob")] = 0.0
    attention_dropout: Annotated[Share, Field(alias="attention_probs_dropout_prob")] = 0.0
    qkv_bias: Annotated[Literal[True], Field(exclude=True)] = True
    classes: Annotated[dict[str, str], Field(alias="id2label", min_length=1), AfterValidator(len)] = {
        "0": "LABEL_0",
        "1": "LABEL_1",
    }


MODEL_TYPES: dict[str, type[_Config]] = {
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
