"""A model by its Hugging Face configuration: built by transformers without weights, in training, with its loss.

Neither the model's own code is run nor a hub asked: the classes are those of the transformers that is installed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from epochcast.analyzer.backends.network.factory import type_and_text
from epochcast.analyzer.errors import InputError
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
