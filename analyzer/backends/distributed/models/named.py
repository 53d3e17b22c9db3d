"""The built-in models by name, and models of any size by their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import partial
from typing import Any, get_type_hints

from epochcast.analyzer.backends.distributed.models.architecture import Architecture
from epochcast.analyzer.errors import InputError

# Defaults of each style. Dropout: GPT-2's config.json ("attn_pdrop", "resid_pdrop"), OPT's
# ("attention_dropout" 0), BERT's ("hidden_dropout_prob"); LLaMA has none, ViT none in torchvision.
_GPT = {"positions": 1024, "vocab": 50257, "activation": "gelu_tanh", "dropout": 0.1, "attention_dropout": 0.1, "tied": True}
_OPT = {"positions": 2048, "vocab": 50272, "activation": "relu", "dropout": 0.1, "tied": True}
_BERT = {"positions": 512, "vocab": 30522, "activation": "gelu", "dropout": 0.1, "attention_dropout": 0.1, "tied": True}
_LLAMA = {"vocab": 128256, "activation": "silu"}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": _LLAMA,
    "gpt2": _GPT,
    "gpt": {
        **_GPT,
        "positions": 0,
        "vocab": 51200,  # Megatron-LM: GPT-2's vocabulary padded (Narayanan et al. 2021, section 5)
        "dropout": 0.0,  # as today's pretraining
        "attention_dropout": 0.0,
    },
    "opt": _OPT,
    "bert": _BERT,
    "vit": {"activation": "gelu"},
    "resnet": {},
}
"""Defaults by the name of the style; ``gpt`` is a ``gpt2`` of Megatron-LM's."""


def from_numbers(style: str, **numbers: Any) -> Architecture:
    """Make an architecture of a style; what is not given is as in :data:`DEFAULTS`.

    Raises:
        InputError: unknown style, or numbers that do not fit together.
    """
    if style not in DEFAULTS:
        raise InputError(f"unknown style {style!r} of model; choose one of {', '.join(DEFAULTS)}")
    return Architecture(**{"style": "gpt2" if style == "gpt" else style, **DEFAULTS[style], **numbers})


_llama, _gpt2, _gpt, _opt, _bert, _vit, _resnet = (
    partial(from_numbers, style) for style in ("llama", "gpt2", "gpt", "opt", "bert", "vit", "resnet")
)

_ALL = (
    # Grattafiori et al. 2024 ("The Llama 3 herd of models"), table 3; Llama 3.2: model cards of meta-llama/Llama-3.2-1B and 3B.
    _llama(name="LLaMA-3.1-8B", hidden=4096, layers=32, heads=32, kv_heads=8, ffn=14336),
    _llama(name="LLaMA-3.1-70B", hidden=8192, layers=80, heads=64, kv_heads=8, ffn=28672),
    _llama(name="LLaMA-3.1-405B", hidden=16384, layers=126, heads=128, kv_heads=8, ffn=53248),
    _llama(name="LLaMA-3.2-1B", hidden=2048, layers=16, heads=32, kv_heads=8, ffn=8192, tied=True),
    _llama(name="LLaMA-3.2-3B", hidden=3072, layers=28, heads=24, kv_heads=8, ffn=8192, tied=True),
    # The released configurations of Touvron et al. 2023 ("Llama 2").
    _llama(name="LLaMA-2-7B", hidden=4096, layers=32, heads=32, ffn=11008, vocab=32000),
    _llama(name="LLaMA-2-13B", hidden=5120, layers=40, heads=40, ffn=13824, vocab=32000),
    _llama(name="LLaMA-2-70B", hidden=8192, layers=80, heads=64, kv_heads=8, ffn=28672, vocab=32000),
    # The released configuration of Zhang et al. 2024 ("TinyLlama").
    _llama(name="TinyLlama-1.1B", hidden=2048, layers=22, heads=32, kv_heads=4, ffn=5632, vocab=32000),
    # Radford et al. 2019, table 2; heads of the released configurations.
    _gpt2(name="GPT-2-small", hidden=768, layers=12, heads=12),
    _gpt2(name="GPT-2-medium", hidden=1024, layers=24, heads=16),
    _gpt2(name="GPT-2-large", hidden=1280, layers=36, heads=20),
    _gpt2(name="GPT-2-xl", hidden=1600, layers=48, heads=25),
    # Brown et al. 2020, table 2.1, for GPT-2's vocabulary. XL has 24 heads of 128 there, which its width of 2048 does not
    # hold: 16 heads, as others train it. 13B has a width of 5140 there, not a multiple of its 40 heads: 5120.
    _gpt2(name="GPT-3-XL", hidden=2048, layers=24, heads=16, positions=2048),
    _gpt2(name="GPT-3-2.7B", hidden=2560, layers=32, heads=32, positions=2048),
    _gpt2(name="GPT-3-6.7B", hidden=4096, layers=32, heads=32, positions=2048),
    _gpt2(name="GPT-3-13B", hidden=5120, layers=40, heads=40, positions=2048),
    _gpt2(name="GPT-3-175B", hidden=12288, layers=96, heads=96, positions=2048),
    # Zhang et al. 2022 ("OPT"), table 1.
    _opt(name="OPT-1.3B", hidden=2048, layers=24, heads=32),
    # Devlin et al. 2019, section 3.
    _bert(name="BERT-base", hidden=768, layers=12, heads=12),
    _bert(name="BERT-large", hidden=1024, layers=24, heads=16),
    # Dosovitskiy et al. 2021, table 1.
    _vit(name="ViT-B/16", hidden=768, layers=12, heads=12, patch=16),
    _vit(name="ViT-L/16", hidden=1024, layers=24, heads=16, patch=16),
    _vit(name="ViT-H/14", hidden=1280, layers=32, heads=16, patch=14),
    # He et al. 2016, table 1.
    _resnet(name="ResNet-18", stages=(2, 2, 2, 2)),
    _resnet(name="ResNet-34", stages=(3, 4, 6, 3)),
    _resnet(name="ResNet-50", stages=(3, 4, 6, 3), bottleneck=True),
    _resnet(name="ResNet-101", stages=(3, 4, 23, 3), bottleneck=True),
    _resnet(name="ResNet-152", stages=(3, 8, 36, 3), bottleneck=True),
)

NAMED: Mapping[str, Architecture] = {architecture.name: architecture for architecture in _ALL}
"""The built-in models."""


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_BY_KEY = {_key(name): name for name in NAMED} | {"gpt2": "GPT-2-small", "gpt3": "GPT-3-175B"}


def named(name: str) -> Architecture:
    """Look up a built-in model by its name, ignoring case, dashes, dots and slashes.

    Raises:
        InputError: no model is called so; the message has the nearest names.
    """
    key = _key(name)
    if key in _BY_KEY:
        return NAMED[_BY_KEY[key]]
    close = [_BY_KEY[known] for known in get_close_matches(key, _BY_KEY, n=3)]
    hint = f"did you mean {' or '.join(dict.fromkeys(close))}?" if close else f"known are {', '.join(NAMED)}"
    raise InputError(f"unknown model {name!r}; {hint}")


_TYPES = get_type_hints(Architecture)
_GIVEN = tuple(field.name for field in fields(Architecture) if field.name not in ("style", "name"))


def from_text(text: str) -> Architecture:
    """Read ``style:key=value,…``, such as ``gpt:hidden=12288,layers=96,heads=96``; stages as ``3-4-6-3``.

    Raises:
        InputError: an unknown style or key, a value that is none, or numbers that do not fit together.
    """
    style, _, rest = text.partition(":")
    numbers: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = part.partition("=")
        if key not in _GIVEN:
            close = get_close_matches(key, _GIVEN, n=1)
            hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(_GIVEN)}"
            raise InputError(f"the model {text!r} has an unknown key {key!r}; {hint}")
        if key in numbers:
            raise InputError(f"the model {text!r} has {key} twice; give it once")
        if not equals or (read := _value(key, value)) is None:
            raise InputError(f"the model {text!r} has {part!r}; give {key}=… with {_EXPECTED[_TYPES[key]]}")
        numbers[key] = read
    return from_numbers(style.strip().lower(), name=text, **numbers)


_EXPECTED: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "yes or no",
    tuple[int, ...]: "counts such as 3-4-6-3",
    _TYPES["activation"]: "the name of an activation",
}


def _value(key: str, text: str) -> Any:
    """A value as its field has it; None if the text is none."""
    kind = _TYPES[key]
    try:
        if kind is bool:
            return {"yes": True, "true": True, "no": False, "false": False}.get(text.lower())
        if kind is tuple[int, ...] or kind == tuple[int, ...]:
            return tuple(int(count) for count in text.split("-"))
        return kind(text) if kind in (int, float) else text
    except ValueError:
        return None
