"""Hugging Face configurations: sizes as published, layers as they are, and files that are none."""

import json
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.errors import InputError

pytest.importorskip("torch")
pytest.importorskip("transformers")

from epochcast.analyzer.backends.distributed.models.building import build
from epochcast.analyzer.backends.distributed.models.configuration import Configuration
from epochcast.analyzer.backends.distributed.models.graph import Graph
from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.models.user_module import resolve
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration

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


def _file(folder: Path, config: Any) -> str:
    path = folder / "some-model" / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (LLAMA_8B, 8_030_261_248),
        (MISTRAL_7B, 7_241_732_096),
        # Mistral NeMo: 32 heads of 128 in a width of 5120.
        (
            {**MISTRAL_7B, "hidden_size": 5120, "head_dim": 128, "num_hidden_layers": 40, "vocab_size": 131072},
            12_247_782_400,
        ),
        (QWEN2_HALF_B, 494_032_768),
        (GPT2, 124_439_808),
    ],
    ids=lambda given: given["model_type"] if isinstance(given, dict) else "",
)
def test_a_configuration_gives_the_published_number_of_parameters(
    tmp_path: Path, config: dict[str, Any], parameters: int
) -> None:
    read = resolve(_file(tmp_path, config))
    assert isinstance(read, Configuration)
    assert sum(parameter.numel() for parameter in build(read).parameters()) == parameters
    assert read.name == "some-model"


def _graph(settings: dict[str, Any], length: int = 64, **of_job: Any) -> Graph:
    job = TrainingConfiguration(micro_batch=2, global_batch=2, sequence_length=length, **of_job)
    return ModelGraphs(Configuration("some-model", settings)).graph(job)


TINY = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 96,
}


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma2", "gpt_neox", "olmo", "roberta", "electra"])
def test_any_model_of_transformers_with_attention_is_read_and_split(kind: str) -> None:
    settings = {"model_type": kind, **TINY}
    whole, half = _graph(settings), _graph(settings, tensor=2)
    assert len(whole.blocks) == 4
    flops = {graph: sum(one.flops for block in graph.blocks for one in block.operators) for graph in (whole, half)}
    assert flops[whole] == 2 * flops[half]
    sequence = _graph(settings, tensor=2, sequence_parallel=True)
    assert sum(one.flops for block in sequence.blocks for one in block.operators) == flops[half]
    assert sequence.blocks[0].output is not None and sequence.blocks[0].output.shape == (2, 32, 64)
    assert whole.parameters() <= half.parameters(2) <= 1.01 * whole.parameters()  # rows of words are padded
    causal = kind not in ("roberta", "electra")
    attention = [one for one in whole.blocks[0].forward if one.kind == "attention"]
    assert [one.arguments[-1] for one in attention] == [causal]


def test_keys_and_values_that_query_heads_share_are_not_repeated() -> None:
    of_block = _graph({**LLAMA_8B, "num_hidden_layers": 1}).blocks[0].forward
    (attention,) = [one for one in of_block if one.kind == "attention"]
    assert [tensor.shape[1] for tensor in attention.inputs] == [32, 8, 8]
    assert attention.flops == 2 * 2 * 2 * 32 * 64 * 64 * 128 / 2  # two products for 2 samples of 32 heads, half masked


def test_layers_that_differ_are_each_read() -> None:
    """Gemma 2: every other layer has a window."""
    graph = _graph({"model_type": "gemma2", **TINY})
    assert [id(block) for block in graph.blocks[:2]] == [id(block) for block in graph.blocks[2:]]
    assert id(graph.blocks[0]) != id(graph.blocks[1])


def test_a_base_of_rotations_costs_nothing_and_may_be_any() -> None:
    for base in (1e8, 10**9):
        assert Configuration("mistral", {"model_type": "mistral", "rope_theta": base}).config.num_hidden_layers == 32


def test_positions_are_as_many_as_a_job_has_tokens() -> None:
    def positions(length: int) -> int:
        weights = {weight.name: weight.tensor.shape for weight in _graph({**GPT2, "n_layer": 1}, length).before.weights}
        return weights["model.transformer.wpe.weight"][0]

    assert [positions(length) for length in (512, 4096)] == [1024, 4096]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({**LLAMA_8B, "model_type": "lama"}, "model_type 'lama', which transformers does not train"),
        ({**LLAMA_8B, "model_type": ["llama"]}, "which transformers does not train"),
        ({"model_type": "timm_wrapper", "architecture": "hf_hub:some/model"}, "which transformers does not train"),
        ({"model_type": "t5"}, "which transformers does not train"),
        ([1, 2], "has no model_type"),
        ({**LLAMA_8B, "hidden_size": "4096"}, "is no configuration of a llama: .*hidden_size"),
        ({**LLAMA_8B, "num_attention_heads": 33}, "is no configuration of a llama: .*multiple"),
        ({**LLAMA_8B, "hidden_act": "quick_gel"}, "cannot be built by transformers: .*quick_gel"),
        ({**LLAMA_8B, "num_hidden_layers": 10**4}, "num_hidden_layers 10000, more than any model that is trained; give 1000"),
        ({**LLAMA_8B, "rope_scaling": {"factor": 10**9}}, "factor 1000000000, more than any model"),
        ({**GPT2, "resid_pdrop": float("nan")}, "resid_pdrop nan"),
        ({"model_type": "mamba", "hidden_size": 64}, "layers .*without attention that can be read"),
        ({"model_type": "falcon", "hidden_size": 64, "num_attention_heads": 4}, "without attention that can be read"),
        ({**LLAMA_8B, "model_type": "mixtral"}, "mixture of experts .*give a dense model"),
        ({"model_type": "deepseek_v3"}, "mixture of experts"),
        ({"model_type": "dbrx", "ffn_config": {"moe_num_experts": 16}}, "mixture of experts"),
        (
            {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}},
            "of several models .gemma3.; give its text",
        ),
        ({**LLAMA_8B, "num_hidden_layers": 0}, "has 0 layers; give 1 or more"),
        ("{", "is not JSON"),
        ("\x00", "is not JSON"),
    ],
)
def test_another_file_is_refused_in_one_sentence(tmp_path: Path, config: Any, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        ModelGraphs.of(_file(tmp_path, config)).graph(TrainingConfiguration(sequence_length=64))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "auto_map", "trust_remote_code"])
def test_nothing_that_a_configuration_names_is_fetched_or_run(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(*_: Any, **__: Any) -> None:
        raise AssertionError("asked the network")

    monkeypatch.setattr("socket.socket.connect", fetched)
    settings = {"model_type": "llama", **TINY, key: "kernels-community/flash-attn"}
    assert _graph(settings) == _graph({"model_type": "llama", **TINY})
