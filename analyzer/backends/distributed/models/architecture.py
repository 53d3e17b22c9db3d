"""The dimensions of a built-in model, checked; nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from epochcast.analyzer.errors import InputError

Style = Literal["llama", "gpt2", "opt", "bert", "vit", "resnet"]
Activation = Literal["silu", "gelu", "gelu_tanh", "relu"]

STYLES: tuple[Style, ...] = get_args(Style)
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)

RESNET_WIDTHS = (64, 128, 256, 512)
"""Channels of the 3 x 3 convolutions of a ResNet's four stages (He et al. 2016, table 1)."""
BOTTLENECK = 4
"""How many times wider a bottleneck's last convolution is (the same table)."""
OPT_SPARE_POSITIONS = 2
"""Rows of OPT's table of positions that no position uses (Zhang et al. 2022; the released weights have them)."""
BERT_TYPES = 2
"""Kinds of segment that BERT distinguishes (Devlin et al. 2019, section 3)."""

_LARGEST = 10**8


@dataclass(frozen=True)
class Architecture:
    """A transformer or a ResNet by its numbers.

    Attributes:
        style: which layers it is made of: ``llama`` (RMSNorm before each part, rotary positions, gated MLP, no biases),
            ``gpt2`` and ``opt`` (LayerNorm before each part, learned positions), ``bert`` (LayerNorm after each part, head for
            masked tokens), ``vit`` (patches of an image, class token) or ``resnet``.
        name: for people.
        hidden: width of the residual stream.
        layers: blocks; of a ResNet the sum of its ``stages``.
        heads, kv_heads: query heads, and key and value heads that groups of them share (0: as many as ``heads``).
        head_dim: width of one head (0: ``hidden / heads``).
        ffn: inner width of the MLP (0: 4 x ``hidden``).
        vocab: tokens.
        positions: longest sequence with learned positions; 0: as long as the job's. Rotary ones have no limit.
        image_size, patch, classes: pixels of a side, pixels of a patch's side, classes of an image model.
        stages: residual blocks of each of a ResNet's four stages.
        bottleneck: whether these are bottlenecks (ResNet-50 and deeper).
        activation: of the MLP.
        dropout: after embedding, attention and MLP.
        attention_dropout: of the attention's probabilities.
        tied: whether the head's matrix is the token embedding.
        qkv_bias: whether a ``llama``'s projections to queries, keys and values have biases (Qwen2).

    Raises:
        InputError: a number that no such model can have.
    """

    style: Style
    name: str = ""
    hidden: int = 0
    layers: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    ffn: int = 0
    vocab: int = 0
    positions: int = 0
    image_size: int = 224
    patch: int = 16
    classes: int = 1000
    stages: tuple[int, ...] = ()
    bottleneck: bool = False
    activation: Activation = "gelu"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    tied: bool = False
    qkv_bias: bool = False

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise InputError(f"unknown style {self.style!r} of model; choose one of {', '.join(STYLES)}")
        if self.style == "resnet":
            self._check_resnet()
            return
        self._at_least_one("hidden", "layers", "heads")
        if self.style == "vit":
            self._at_least_one("image_size", "patch", "classes")
            if self.image_size % self.patch:
                raise InputError(
                    f"{self._what} has images of {self.image_size} pixels in patches of {self.patch}; "
                    "the patch must divide the image"
                )
        else:
            self._at_least_one("vocab")
        if not self.head_dim and self.hidden % self.heads:
            raise InputError(
                f"{self._what} has {self.heads} heads in a width of {self.hidden}; the heads must divide the width"
            )
        for field, value in (("kv_heads", self.heads), ("head_dim", self.hidden // self.heads), ("ffn", 4 * self.hidden)):
            object.__setattr__(self, field, getattr(self, field) or value)
        self._at_least_one("kv_heads", "head_dim", "ffn")
        if self.heads % self.kv_heads:
            raise InputError(
                f"{self._what} has {self.kv_heads} key-value heads for {self.heads} heads; the first must divide the second"
            )
        if self.style == "llama" and self.head_dim % 2:
            raise InputError(f"{self._what} has heads of width {self.head_dim}; rotary positions need an even one")
        if self.style != "llama" and (self.kv_heads != self.heads or self.head_dim * self.heads != self.hidden):
            raise InputError(f"{self._what} has its own kv_heads or head_dim; only the style llama takes them")
        if self.activation not in ACTIVATIONS:
            raise InputError(f"{self._what} has activation {self.activation!r}; choose one of {', '.join(ACTIVATIONS)}")
        for field in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, field) < 1:
                raise InputError(f"{self._what} has a {field} of {getattr(self, field)}; it must be from 0 up to below 1")

    def _check_resnet(self) -> None:
        if len(self.stages) != len(RESNET_WIDTHS) or not all(1 <= blocks <= _LARGEST for blocks in self.stages):
            raise InputError(f"{self._what} has stages {self.stages}; give four counts of blocks such as 3-4-6-3")
        self._at_least_one("classes")
        if self.image_size < 32:
            raise InputError(f"{self._what} has images of {self.image_size} pixels; give 32 or more")
        object.__setattr__(self, "layers", sum(self.stages))

    def _at_least_one(self, *names: str) -> None:
        for name in names:
            if not 1 <= getattr(self, name) <= _LARGEST:
                raise InputError(f"{self._what} has {name}={getattr(self, name)}; give a whole number from 1 to {_LARGEST}")

    @property
    def _what(self) -> str:
        return f"the model {self.name}" if self.name else f"a model of style {self.style}"

    @property
    def images(self) -> bool:
        """Whether it takes images rather than tokens."""
        return self.style in ("vit", "resnet")

    @property
    def causal(self) -> bool:
        """Whether a token sees only those before it."""
        return self.style in ("llama", "gpt2", "opt")

    @property
    def alike(self) -> bool:
        """Whether all blocks are the same, so that one represents all."""
        return self.style != "resnet"
