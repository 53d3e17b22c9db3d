"""The built-in models: published sizes, the same loss by either attention, and what is refused."""

import pytest

from epochcast.analyzer.backends.distributed.models import NAMED, from_text, named, resolve
from epochcast.analyzer.errors import InputError

SMALL = {
    "llama": "llama:hidden=32,layers=2,heads=4,kv_heads=2,ffn=48,vocab=50,qkv_bias=yes",
    "gpt2": "gpt:hidden=32,layers=2,heads=4,vocab=50,dropout=0,attention_dropout=0",
    "opt": "opt:hidden=32,layers=2,heads=4,vocab=50,dropout=0",
    "bert": "bert:hidden=32,layers=2,heads=4,vocab=50,dropout=0,attention_dropout=0",
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
    pytest.importorskip("torch")
    from epochcast.analyzer.backends.distributed.models.building import build

    assert sum(parameter.numel() for parameter in build(named(name)).parameters()) == PUBLISHED[name]


def test_a_name_is_read_whatever_its_case_and_dashes() -> None:
    assert {named(name).name for name in ("llama-3.1-8b", "LLAMA 3.1 8B", "llama3.1_8b")} == {"LLaMA-3.1-8B"}
    assert named("gpt2") is NAMED["GPT-2-small"]


def test_numbers_stand_beside_the_defaults_of_their_style() -> None:
    read = from_text("gpt:hidden=12288,layers=96,heads=96,dropout=0,tied=no")
    assert (read.style, read.vocab, read.ffn, read.kv_heads, read.head_dim) == ("gpt2", 51200, 49152, 96, 128)
    assert (read.dropout, read.attention_dropout, read.tied) == (0.0, 0.0, False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lama-3.1-8b", "did you mean LLaMA-3.1-8B"),
        ("gbt:hidden=3", "choose one of llama, gpt2, gpt"),
        ("gpt:hiden=64,layers=2,heads=2", "did you mean hidden"),
        ("gpt:name=x", "unknown key 'name'"),
        ("gpt:hidden=64,hidden=32", "hidden twice"),
        ("gpt:hidden=big,layers=2", "give hidden=… with a whole number"),
        ("gpt:hidden=64,layers=2,heads=3", "3 heads in a width of 64"),
        ("gpt:hidden=64,layers=2,heads=2,dropout=1", "dropout of 1"),
        ("gpt:hidden=64,layers=2,heads=2,tied=maybe", "yes or no"),
        ("gpt:hidden=64,layers=2,heads=2,activation=tanh", "silu, gelu, gelu_tanh, relu"),
        ("gpt:hidden=64,layers=2,heads=4,kv_heads=2", "only the style llama"),
        ("llama:hidden=64,layers=2,heads=4,kv_heads=3", "3 key-value heads for 4 heads"),
        ("llama:hidden=12,layers=2,heads=4", "rotary positions need an even one"),
        ("vit:hidden=64,layers=2,heads=4,patch=15", "the patch must divide the image"),
        ("resnet:stages=3-4-6", "four counts of blocks"),
        ("resnet:stages=3-x", "give stages=… with counts such as 3-4-6-3"),
        ("resnet:stages=1-1-1-1,image_size=8", "give 32 or more"),
    ],
)
def test_bad_input_is_one_sentence_with_the_remedy(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says.replace("(", r"\(")) as caught:
        resolve(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("style", SMALL)
def test_a_small_one_trains_and_its_two_attentions_agree(style: str) -> None:
    torch = pytest.importorskip("torch")
    from epochcast.analyzer.backends.distributed.models.building import build, example_inputs

    of = from_text(SMALL[style])
    torch.manual_seed(1)
    inputs = example_inputs(of, 3, 12, device="cpu")
    losses, gradients = [], []
    for attention in ("fused", "eager"):
        torch.manual_seed(2)
        module = build(of, attention, device="cpu").double()
        loss = module(*(tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs))
        loss.backward()
        assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in module.parameters())
        losses.append(loss.item())
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in module.parameters()]))
    assert 0 < losses[0] < 10
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)


def test_a_sequence_must_fit_learned_positions_and_none_of_rotary_ones() -> None:
    pytest.importorskip("torch")
    from epochcast.analyzer.backends.distributed.models.building import example_inputs

    with pytest.raises(InputError, match="2048 tokens is longer than the 1024 positions of GPT-2-small"):
        example_inputs(named("gpt2"), 1, 2048)
    ids, targets = example_inputs(named("llama-3.1-8b"), 2, 300_000)
    assert ids.shape == targets.shape == (2, 300_000)


@pytest.mark.parametrize(("style", "ranks"), [("llama", 4), ("gpt2", 2), ("opt", 2), ("bert", 2), ("vit", 2)])
def test_tensor_slices_run_unchanged_and_hold_their_share(style: str, ranks: int) -> None:
    """Each class says itself what to slice; with 4 ranks the llama's 2 key-value heads are shared by two ranks each."""
    pytest.importorskip("torch")
    from epochcast.analyzer.backends.distributed.models.building import build, example_inputs
    from epochcast.analyzer.backends.distributed.tensor_slicing import slice_for_tensor_parallel

    of = from_text(SMALL[style])
    whole = build(of)
    sliced = slice_for_tensor_parallel(whole, ranks)
    loss = sliced(*example_inputs(of, 2, 16))
    assert loss.shape == ()
    weights = dict(sliced.blocks[0].named_parameters())
    for name, weight in whole.blocks[0].named_parameters():
        if weight.dim() == 2:
            parts = min(ranks, of.kv_heads) if name.startswith(("attention.key", "attention.value")) else ranks
            assert weights[name].numel() * parts == weight.numel(), name
