"""Hugging Face configurations: dimensions as published, and files that are none."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.backends.distributed.models import Architecture, named, read_config, resolve
from epochcast.analyzer.errors import InputError

# The keys that decide, with the values of the released models; what a file holds besides is not read.
LLAMA_8B = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "hidden_act": "silu",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": False,
    "rope_scaling": {"factor": 8.0},
}
MISTRAL_7B = {**LLAMA_8B, "model_type": "mistral", "vocab_size": 32000, "sliding_window": 4096}
QWEN2_HALF_B = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
    "n_inner": None,
}
OPT = {
    "model_type": "opt",
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "ffn_dim": 8192,
    "vocab_size": 50272,
    "word_embed_proj_dim": 2048,
}
BERT = {
    "model_type": "bert",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 30522,
}
VIT = {
    "model_type": "vit",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "id2label": {str(label): f"class {label}" for label in range(1000)},
}


def _parameters(of: Architecture) -> int:
    pytest.importorskip("torch")
    from epochcast.analyzer.backends.distributed.models.building import build

    return sum(parameter.numel() for parameter in build(of).parameters())


def _file(folder: Path, config: Any) -> Path:
    path = folder / "some-model" / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (LLAMA_8B, 8_030_261_248),
        (MISTRAL_7B, 7_241_732_096),
        (QWEN2_HALF_B, 494_032_768),
        (GPT2, 124_439_808),
        (OPT, 1_315_758_080),
        (BERT, 109_514_298),
        (VIT, 86_567_656),
    ],
    ids=lambda given: given["model_type"] if isinstance(given, dict) else "",
)
def test_a_configuration_gives_the_published_number_of_parameters(
    tmp_path: Path, config: dict[str, Any], parameters: int
) -> None:
    read = resolve(str(_file(tmp_path, config)))
    assert isinstance(read, Architecture)
    assert _parameters(read) == parameters
    assert read.name == "some-model"
    built_in = {"llama": "LLaMA-3.1-8B", "gpt2": "GPT-2-small", "bert": "BERT-base"}.get(config["model_type"])
    assert built_in is None or replace(read, name=built_in) == named(built_in)


def test_a_head_may_be_wider_than_the_width_over_the_heads(tmp_path: Path) -> None:
    """Mistral NeMo: 32 heads of 128 in a width of 5120."""
    config = {**MISTRAL_7B, "hidden_size": 5120, "head_dim": 128, "num_hidden_layers": 40, "vocab_size": 131072}
    read = read_config(_file(tmp_path, config))
    assert _parameters(read) == 12_247_782_400


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({**LLAMA_8B, "model_type": "mamba"}, "model_type 'mamba'; known are llama, mistral, qwen2, gpt2, opt, bert, vit"),
        ({**LLAMA_8B, "model_type": ["llama"]}, "known are llama"),
        ([1, 2], "model_type None"),
        ({key: value for key, value in LLAMA_8B.items() if key != "hidden_size"}, "lacks hidden_size"),
        ({**LLAMA_8B, "hidden_size": "4096"}, "hidden_size=4096 .*valid integer"),
        ({**LLAMA_8B, "hidden_size": 0}, "hidden_size=0"),
        ({**LLAMA_8B, "num_attention_heads": 33}, "33 heads in a width of 4096"),
        ({**LLAMA_8B, "attention_bias": True}, "attention_bias=True .*not built in"),
        ({**LLAMA_8B, "hidden_act": "quick_gelu"}, "hidden_act=quick_gelu"),
        ({**OPT, "do_layer_norm_before": False}, "do_layer_norm_before=False"),
        ({**GPT2, "resid_pdrop": float("nan")}, "resid_pdrop=nan"),
        ({**VIT, "patch_size": 15}, "the patch must divide the image"),
        ("{", "is not JSON"),
        ("\x00", "is not JSON"),
        (" " * 4_000_001, "over 4 MB"),
    ],
)
def test_another_file_is_refused_in_one_sentence(tmp_path: Path, config: Any, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        read_config(_file(tmp_path, config))
    assert "\n" not in str(caught.value)


MIXTRAL = {**LLAMA_8B, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
_QWEN2_MOE = {
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
}
_DEEPSEEK = {"n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1}
_DBRX = {"d_model": 6144, "n_layers": 40, "ffn_config": {"moe_num_experts": 16, "moe_top_k": 4, "ffn_hidden_size": 10752}}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (MIXTRAL, "mixture of 8 experts .*hidden 4096, layers 32, ffn 28672 (experts: 2 x 14336)"),
        ({**MIXTRAL, "model_type": "llama"}, "mixture of 8 experts (model_type llama)"),
        ({**QWEN2_HALF_B, "model_type": "qwen2_moe", **_QWEN2_MOE}, "ffn 11264 (experts: 4 x 1408 and 5632 shared)"),
        ({**LLAMA_8B, "model_type": "deepseek_v3", **_DEEPSEEK}, "ffn 18432 (experts: 8 x 2048 and 2048 shared)"),
        ({"model_type": "dbrx", **_DBRX}, "hidden 6144, layers 40, ffn 43008 (experts: 4 x 10752)"),
        ({"model_type": "llama4", "text_config": {**MIXTRAL, "num_experts_per_tok": 1}}, "ffn 14336 (experts: 1 x 14336)"),
        ({"model_type": "gpt_oss"}, "several experts .*its hidden and layers, ffn as wide as the active experts together"),
    ],
)
def test_a_mixture_of_experts_is_refused_with_the_dense_model_of_its_active_parameters(
    tmp_path: Path, config: Any, says: str
) -> None:
    with pytest.raises(InputError, match=".*".join(map(re.escape, says.split(".*")))) as caught:
        read_config(_file(tmp_path, config))
    assert "not modelled; give a dense llama" in str(caught.value)
