"""The built-in models: published sizes, the same loss by either attention, and what is refused."""

import pytest

from epochcast.analyzer.backends.distributed.models.configuration import NAMED, from_text, named
from epochcast.analyzer.backends.distributed.models.user_module import resolve
from epochcast.analyzer.errors import InputError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from epochcast.analyzer.backends.distributed.models.building import build, example_inputs, tensor_plan  # noqa: E402
from epochcast.analyzer.backends.distributed.plan.tensor_slicing import slice_for_tensor_parallel  # noqa: E402

SMALL = {
    "llama": "llama:hidden=32,layers=2,heads=4,kv_heads=2,ffn=48,vocab=50",
    "gpt2": "gpt:hidden=32,layers=2,heads=4,vocab=50",
    "opt": "opt:hidden=32,layers=2,heads=4,vocab=50,dropout=0",
    "bert": "bert:hidden=32,layers=2,heads=4,vocab=50,hidden_dropout_prob=0,attention_probs_dropout_prob=0",
    "vit": "vit:hidden=32,layers=2,heads=4,image_size=32,patch=8,classes=7",
    "resnet": "resnet:stages=1-2-1-1,bottleneck=yes,image_size=32,classes=7",
}

# Trainable parameters of the released weights, as their model cards and torchvision's documentation count them. BERT has the
# head for masked tokens and no pooler, as transformers' BertForMaskedLM: the encoder with its pooler alone has 109,482,240.
PUBLISHED = {
    "LLaMA-3.1-8B": 8_030_261_248,
    "LLaMA-3.1-70B": 70_553_706_496,
    "LLaMA-3.2-1B": 1_235_814_400,
    "LLaMA-2-7B": 6_738_415_616,
    "TinyLlama-1.1B": 1_100_048_384,
    "GPT-2-small": 124_439_808,
    "GPT-2-xl": 1_557_611_200,
    "OPT-1.3B": 1_315_758_080,
    "BERT-base": 109_514_298,
    "ViT-B/16": 86_567_656,
    "ViT-L/16": 304_326_632,
    "ViT-H/14": 632_045_800,
    "ResNet-18": 11_689_512,
    "ResNet-50": 25_557_032,
    "ResNet-152": 60_192_808,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_named_model_has_as_many_parameters_as_published(name: str) -> None:
    assert sum(parameter.numel() for parameter in build(named(name)).parameters()) == PUBLISHED[name]


def test_a_name_is_read_in_any_case_and_with_any_dashes() -> None:
    assert {named(name).name for name in ("llama-3.1-8b", "LLAMA 3.1 8B", "llama3.1_8b")} == {"LLaMA-3.1-8B"}
    assert named("gpt2") is NAMED["GPT-2-small"]


def test_numbers_are_beside_the_defaults_of_their_style() -> None:
    read = from_text("gpt:hidden=12288,layers=96,heads=96,attn_pdrop=0.25,tied=no").config
    assert (read.vocab_size, read.n_inner, read.n_head, read.n_layer) == (51200, 49152, 96, 96)
    assert (read.resid_pdrop, read.attn_pdrop, read.tie_word_embeddings) == (0.0, 0.25, False)
    assert from_text("llama:hidden=64,layers=2,heads=4").config.num_key_value_heads == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lama-3.1-8b", "did you mean LLaMA-3.1-8B"),
        ("gbt:hidden=3", "choose one of llama, gpt2, gpt"),
        ("gpt:hiden=64,layers=2,heads=2", "did you mean hidden"),
        ("gpt:zzz=x", "unknown key 'zzz'"),
        ("gpt:hidden=64,hidden=32", "hidden twice"),
        ("gpt:hidden=,layers=2", "give hidden=VALUE"),
        ("gpt:hidden=big,layers=2", "is no configuration of a gpt2"),
        ("llama:hidden=64,layers=2,heads=3", "is no configuration of a llama"),
        ("resnet:stages=3-x", "is no configuration of a resnet"),
    ],
)
def test_bad_input_is_one_sentence_with_the_remedy(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says.replace("(", r"\(")) as caught:
        build(resolve(text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("style", SMALL)
def test_a_small_one_trains_and_its_two_attentions_agree(style: str) -> None:
    of = from_text(SMALL[style])
    torch.manual_seed(1)
    inputs = example_inputs(of, 3, 12, device="cpu")
    losses, gradients = [], []
    for attention in ("fused", "eager"):
        torch.manual_seed(2)
        module = build(of, attention, device="cpu").double()
        torch.manual_seed(3)
        loss = module(*(tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs))
        loss.backward()
        assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in module.parameters())
        losses.append(loss.item())
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in module.parameters()]))
    assert 0 < losses[0] < 10
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("style", "ranks"), [("llama", 4), ("gpt2", 2), ("opt", 2), ("bert", 2), ("vit", 2)])
def test_tensor_slices_run_unchanged_and_hold_their_share(style: str, ranks: int) -> None:
    """With 4 ranks the llama's 2 key-value heads are shared by two ranks each."""
    of = from_text(SMALL[style])
    whole = build(of)
    sliced = slice_for_tensor_parallel(whole, ranks, plan=tensor_plan(of, whole))
    loss = sliced(*example_inputs(of, 2, 16))
    assert loss.shape == ()
    weights = dict(sliced.get_submodule(whole.blocks).named_parameters())
    for name, weight in whole.get_submodule(whole.blocks).named_parameters():
        if weight.dim() == 2:
            parts = min(ranks, 2) if "k_proj" in name or "v_proj" in name else ranks
            assert weights[name].numel() * parts == weight.numel(), name
