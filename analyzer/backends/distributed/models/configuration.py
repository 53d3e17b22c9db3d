"""A model by its Hugging Face configuration: built by transformers without weights, in training, with its loss. The built-in
models by name, and models of any size by their numbers, are such configurations.

Neither the model's own code is run nor a hub asked: the classes are those of the transformers that is installed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from epochcast.analyzer.errors import InputError, type_and_text
from epochcast.analyzer.words import bare
from epochcast.extras import how_to_install

_MOST = {"theta": 10**12, "layer": 1000, "depth": 1000, "label": 2**20, "": 2**24}
"""The most that a whole number may be, by a part of its key: far beyond any model that is trained."""

_NOT_READ = ("attn_implementation", "dtype", "torch_dtype", "quantization_config", "auto_map", "trust_remote_code")
"""Keys of how the released weights are stored and run, for which a job says its own; and of code that comes with a model."""

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
"""Attributes of transformers' configurations of experts: mixtral, qwen2_moe, deepseek_v3, dbrx."""


@dataclass(frozen=True)
class Configuration:
    """A model's configuration; ``settings`` is what its ``config.json`` holds, and ``name`` is for people."""

    name: str
    settings: Mapping[str, Any]

    @cached_property
    def config(self) -> Any:
        """As transformers reads it.

        Raises:
            InputError: transformers is not installed, does not know the ``model_type``, or does not take a setting; or it is a
                mixture of experts.
        """
        _refuse_extremes(self.name, self.settings)
        kinds, kind = transformers().models.auto.configuration_auto.CONFIG_MAPPING, self.kind
        if kind not in kinds or not self.architecture:
            raise InputError(
                f"{self.name} has model_type {kind!r:.60}, which transformers does not train as a language model or a "
                "classifier of images; give an import path on the command line"
            )
        try:
            config = kinds[kind](**_plain(self.settings))
            parts = (config, config.get_text_config(), getattr(config, "ffn_config", None))
        except Exception as error:  # checks of transformers' own
            raise InputError(f"{self.name} is no configuration of a {kind}: {type_and_text(error)}") from error
        if any((getattr(part, name, 0) or 0) > 1 for name in _EXPERTS for part in parts):
            raise InputError(
                f"{self.name} is a mixture of experts (model_type {kind}), which are not modelled; give a dense model whose "
                "intermediate_size is that of all active experts together (its memory lacks the other experts)"
            )
        if parts[1] is not config:
            raise InputError(f"{self.name} is of several models ({kind}); give its text_config, with that model_type, alone")
        if getattr(config, "num_hidden_layers", 1) < 1:
            raise InputError(f"{self.name} has {config.num_hidden_layers} layers; give 1 or more")
        return config

    @property
    def kind(self) -> str:
        """Its ``model_type``."""
        return str(self.settings.get("model_type"))

    @property
    def architecture(self) -> str:
        """The class of transformers that is trained; empty if there is none."""
        auto, named = transformers().models.auto.modeling_auto, str(self.settings.get("architectures"))
        causal, masked, images = (
            getattr(auto, f"MODEL_FOR_{task}_MAPPING_NAMES").get(self.kind, "")
            for task in ("CAUSAL_LM", "MASKED_LM", "IMAGE_CLASSIFICATION")
        )
        # BERT and its like may be trained to predict the next word too, where the file says so.
        answer = (causal if not masked or (causal and causal in named) else masked) or images
        answer = answer if isinstance(answer, str) else answer[0]  # DeiT has two
        return str(answer) if self.kind != "timm_wrapper" else ""  # which has networks of another library

    @property
    def images(self) -> bool:
        """Whether it takes images rather than tokens."""
        return self.architecture.endswith("ForImageClassification")

    @property
    def positions(self) -> int:
        """The longest sequence that it was made for, 0 if that is not known; for longer ones it is built with more."""
        positions = getattr(self.config, "max_position_embeddings", None)
        return positions if isinstance(positions, int) else 0


@cache
def transformers() -> Any:
    """The library; raises InputError if it is missing. Importing its models takes some seconds."""
    from epochcast.analyzer.backends.network.find import import_torchvision

    with suppress(ImportError):
        import_torchvision()  # which transformers imports where it is
    try:
        import transformers
        import transformers.models.auto.modeling_auto
    except ImportError as error:
        raise InputError(f"models are built by transformers, which is not installed here; {how_to_install('torch')}") from error
    return transformers


def _plain(settings: Any) -> Any:
    """The settings without those that are not read."""
    if isinstance(settings, list):
        return [_plain(one) for one in settings]
    if not isinstance(settings, Mapping):
        return settings
    return {key: _plain(one) for key, one in settings.items() if key not in _NOT_READ and not key.startswith("_")}


def _refuse_extremes(name: str, value: Any, key: str = "") -> None:
    """Raise InputError for a number in the settings that no model has."""
    if isinstance(value, Mapping):
        for inner, one in value.items():
            _refuse_extremes(name, one, str(inner))
    elif isinstance(value, list):
        for one in value:
            _refuse_extremes(name, one, key)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} has {key} {value}, which is no number; correct it")
    elif isinstance(value, int):
        most = next(most for part, most in _MOST.items() if part in key)
        if abs(value) > most:
            raise InputError(f"{name} has {key} {value}, more than any model that is trained; give {most} at most")


def read_config(path: Path) -> Configuration:
    """Read a configuration file; raises InputError if it cannot be read or is none."""
    name = path.absolute().parent.name if path.stem == "config" else path.stem
    try:
        settings = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}; name a configuration file") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r} is not JSON ({str(error)[:80]}); name a config.json") from error
    if not isinstance(settings, dict) or "model_type" not in settings:
        raise InputError(f"{str(path)!r} has no model_type; name a config.json as transformers writes it")
    return Configuration(name, settings)


_STYLES: Mapping[str, Mapping[str, Any]] = {
    "llama": {"model_type": "llama", "vocab_size": 128256, "tie_word_embeddings": False},
    "gpt2": {"model_type": "gpt2", "activation_function": "gelu_pytorch_tanh"},  # as one kernel
    "gpt": {
        "model_type": "gpt2",
        "activation_function": "gelu_pytorch_tanh",
        "vocab_size": 51200,  # Megatron-LM: GPT-2's vocabulary padded (Narayanan et al. 2021, section 5)
        "max_position_embeddings": 2048,  # Brown et al. 2020, section 2.1
        **dict.fromkeys(("embd_pdrop", "resid_pdrop", "attn_pdrop"), 0.0),  # as today's pretraining
    },
    "opt": {"model_type": "opt"},
    "bert": {"model_type": "bert"},
    "vit": {"model_type": "vit", "num_labels": 1000},
    "resnet": {"model_type": "resnet", "num_labels": 1000, "image_size": 224},
}
"""What differs from transformers' own defaults by the name of the style; ``gpt`` is a ``gpt2`` of Megatron-LM's."""

_SHORT: Mapping[str, str] = {
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "ffn": "intermediate_size",
    "vocab": "vocab_size",
    "positions": "max_position_embeddings",
    "patch": "patch_size",
    "classes": "num_labels",
    "stages": "depths",
    "tied": "tie_word_embeddings",
}
_FFN = {"gpt2": "n_inner", "opt": "ffn_dim"}
"""The key of the MLP's inner width where it is another."""


def from_numbers(style: str, name: str, **numbers: Any) -> Configuration:
    """A model of a style by numbers under our short keys or transformers' own; an MLP is 4 times as wide if not given.

    Raises:
        InputError: an unknown style.
    """
    if style not in _STYLES:
        raise InputError(f"unknown style {style!r} of model; choose one of {', '.join(_STYLES)}")
    settings = dict(_STYLES[style])
    ffn = _FFN.get(settings["model_type"], "intermediate_size")
    if "hidden" in numbers:
        settings[ffn] = 4 * numbers["hidden"]
    if style == "opt":
        settings["word_embed_proj_dim"] = numbers.get("hidden")
    if style == "llama":
        settings["num_key_value_heads"] = numbers.get("heads")
    if style == "resnet":  # He et al. 2016, table 1: the widths of the four stages, four times as wide behind bottlenecks
        wide = numbers.pop("bottleneck", False)
        settings["layer_type"] = "bottleneck" if wide else "basic"
        settings["hidden_sizes"] = [width * (4 if wide else 1) for width in (64, 128, 256, 512)]
    settings |= {ffn if key == "ffn" else _SHORT.get(key, key): value for key, value in numbers.items()}
    return Configuration(name, settings)


_llama, _gpt2, _opt, _bert, _vit, _resnet = (
    partial(from_numbers, style) for style in ("llama", "gpt2", "opt", "bert", "vit", "resnet")
)

_ALL = (
    # Grattafiori et al. 2024 ("The Llama 3 herd of models"), table 3; Llama 3.2: model cards of meta-llama/Llama-3.2-1B and 3B.
    _llama("LLaMA-3.1-8B", hidden=4096, layers=32, heads=32, kv_heads=8, ffn=14336),
    _llama("LLaMA-3.1-70B", hidden=8192, layers=80, heads=64, kv_heads=8, ffn=28672),
    _llama("LLaMA-3.1-405B", hidden=16384, layers=126, heads=128, kv_heads=8, ffn=53248),
    _llama("LLaMA-3.2-1B", hidden=2048, layers=16, heads=32, kv_heads=8, ffn=8192, tied=True),
    _llama("LLaMA-3.2-3B", hidden=3072, layers=28, heads=24, kv_heads=8, ffn=8192, tied=True),
    # The released configurations of Touvron et al. 2023 ("Llama 2").
    _llama("LLaMA-2-7B", hidden=4096, layers=32, heads=32, ffn=11008, vocab=32000),
    _llama("LLaMA-2-13B", hidden=5120, layers=40, heads=40, ffn=13824, vocab=32000),
    _llama("LLaMA-2-70B", hidden=8192, layers=80, heads=64, kv_heads=8, ffn=28672, vocab=32000),
    # The released configuration of Zhang et al. 2024 ("TinyLlama").
    _llama("TinyLlama-1.1B", hidden=2048, layers=22, heads=32, kv_heads=4, ffn=5632, vocab=32000),
    # Radford et al. 2019, table 2; heads of the released configurations.
    _gpt2("GPT-2-small", hidden=768, layers=12, heads=12),
    _gpt2("GPT-2-medium", hidden=1024, layers=24, heads=16),
    _gpt2("GPT-2-large", hidden=1280, layers=36, heads=20),
    _gpt2("GPT-2-xl", hidden=1600, layers=48, heads=25),
    # Brown et al. 2020, table 2.1, for GPT-2's vocabulary. XL has 24 heads of 128 there, which its width of 2048 does not
    # hold: 16 heads, as others train it. 13B has a width of 5140 there, not a multiple of its 40 heads: 5120.
    _gpt2("GPT-3-XL", hidden=2048, layers=24, heads=16, positions=2048),
    _gpt2("GPT-3-2.7B", hidden=2560, layers=32, heads=32, positions=2048),
    _gpt2("GPT-3-6.7B", hidden=4096, layers=32, heads=32, positions=2048),
    _gpt2("GPT-3-13B", hidden=5120, layers=40, heads=40, positions=2048),
    _gpt2("GPT-3-175B", hidden=12288, layers=96, heads=96, positions=2048),
    # Zhang et al. 2022 ("OPT"), table 1.
    _opt("OPT-1.3B", hidden=2048, layers=24, heads=32),
    # Devlin et al. 2019, section 3.
    _bert("BERT-base", hidden=768, layers=12, heads=12),
    _bert("BERT-large", hidden=1024, layers=24, heads=16),
    # Dosovitskiy et al. 2021, table 1.
    _vit("ViT-B/16", hidden=768, layers=12, heads=12, patch=16),
    _vit("ViT-L/16", hidden=1024, layers=24, heads=16, patch=16),
    _vit("ViT-H/14", hidden=1280, layers=32, heads=16, patch=14),
    # He et al. 2016, table 1.
    _resnet("ResNet-18", stages=[2, 2, 2, 2]),
    _resnet("ResNet-34", stages=[3, 4, 6, 3]),
    _resnet("ResNet-50", stages=[3, 4, 6, 3], bottleneck=True),
    _resnet("ResNet-101", stages=[3, 4, 23, 3], bottleneck=True),
    _resnet("ResNet-152", stages=[3, 8, 36, 3], bottleneck=True),
)

NAMED: Mapping[str, Configuration] = {configuration.name: configuration for configuration in _ALL}
"""The built-in models."""


_BY_KEY = {bare(name): name for name in NAMED} | {"gpt2": "GPT-2-small", "gpt3": "GPT-3-175B"}


def named(name: str) -> Configuration:
    """Look up a built-in model by its name, ignoring case, dashes, dots and slashes.

    Raises:
        InputError: no model is called so; the message has the nearest names.
    """
    key = bare(name)
    if key in _BY_KEY:
        return NAMED[_BY_KEY[key]]
    close = [_BY_KEY[known] for known in get_close_matches(key, _BY_KEY, n=3)]
    hint = f"did you mean {' or '.join(dict.fromkeys(close))}?" if close else f"known are {', '.join(NAMED)}"
    raise InputError(f"unknown model {name!r}; {hint}")


def from_text(text: str) -> Configuration:
    """Read ``style:key=value,…``, such as ``gpt:hidden=12288,layers=96,heads=96``; stages as ``3-4-6-3``.

    Raises:
        InputError: an unknown style or key, or a key twice.
    """
    style, _, rest = text.partition(":")
    style, numbers = style.strip().lower(), dict[str, Any]()
    usual = from_numbers(style, text)
    known = {*_SHORT, "bottleneck", *usual.settings, *usual.config.to_dict(), *usual.config.attribute_map} - {"model_type"}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = part.partition("=")
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(_SHORT)} and what its configuration has"
            raise InputError(f"the model {text!r} has an unknown key {key!r}; {hint}")
        if key in numbers:
            raise InputError(f"the model {text!r} has {key} twice; give it once")
        if not equals or not value:
            raise InputError(f"the model {text!r} has {part!r}; give {key}=VALUE")
        numbers[key] = _value(value)
    return from_numbers(style, text, **numbers)


def _value(text: str) -> Any:
    """A whole number, a number, yes or no, counts such as 3-4-6-3, or the text itself."""
    if text in ("yes", "no", "true", "false"):
        return text in ("yes", "true")
    if re.fullmatch(r"\d+(-\d+)+", text):
        return [int(count) for count in text.split("-")]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
