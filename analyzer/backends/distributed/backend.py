"""The backend ``distributed``: one training iteration on many GPUs, from the model alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from ...errors import InputError
from ...plugins import Settings
from ...plugins.question import Body
from ...plugins.types import GpuName, Name
from .graph import Extraction
from .http_answer import DistributedAnswer
from .job import Attention, Recomputation, ScheduleName
from .models.architecture import Architecture
from .models.huggingface import MODEL_TYPES, read_content
from .models.named import NAMED, named
from .precision import PRECISIONS, precision_named
from .question import require_torch

Degree = Annotated[int, Field(ge=1, le=4096)]

# Far beyond any model that is trained; what is larger takes a worker's time and memory for nothing.
_MOST = {
    "hidden": 2**17,
    "layers": 1000,
    "heads": 2**12,
    "kv_heads": 2**12,
    "head_dim": 2**13,
    "ffn": 2**20,
    "vocab": 2**24,
    "positions": 2**24,
    "image_size": 2**13,
    "patch": 2**13,
    "classes": 2**20,
}

# No model's configuration is, and what is nested deeper cannot be written as JSON again.
_MOST_DEPTH = 20

# Pipeline slots that are simulated one by one: 2**18 take seconds.
_MOST_SLOTS = 2**18

# Keys by which a configuration asks transformers to run code that comes with a model: what that builds is not read here.
_OF_CODE = ("auto_map", "custom_pipelines", "trust_remote_code")

_EXAMPLES: list[Any] = [
    {"model": "LLaMA-3.1-8B", "gpu": "A100 SXM4 80GB", "dp": 8, "tp": 4, "pp": 2, "global_batch": 256, "recomputation": "full"},
    {
        "config": {
            "model_type": "llama",
            "hidden_size": 2048,
            "num_hidden_layers": 22,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "intermediate_size": 5632,
            "vocab_size": 32000,
        },
        "gpu": "H100 SXM5",
        "dp": 8,
        "micro_batch": 4,
        "iterations": 100000,
    },
]


class DistributedQuestion(Body):
    """A model, the GPUs that train it, and how it is spread over them.

    The model is a built-in one (``model``) or the content of a Hugging Face ``config.json`` (``config``).
    """

    model_config = ConfigDict(json_schema_extra={"examples": _EXAMPLES})

    model: Annotated[str | None, Field(min_length=1, max_length=100, description=f"A built-in model: {', '.join(NAMED)}.")] = (
        None
    )
    config: Annotated[
        dict[str, Any] | None,
        Field(
            max_length=1000,
            description=f"What a Hugging Face config.json holds; model types {', '.join(MODEL_TYPES)}.",
        ),
    ] = None
    gpu: GpuName
    dp: Annotated[Degree, Field(description="Data-parallel ranks.")] = 1
    tp: Annotated[Degree, Field(description="Tensor-parallel ranks.")] = 1
    pp: Annotated[Degree, Field(description="Pipeline stages.")] = 1
    micro_batch: Annotated[int, Field(ge=1, le=2**16, description="Samples that a rank computes at once.")] = 1
    global_batch: Annotated[
        int | None, Field(ge=1, le=2**24, description="Samples per iteration; null: dp x pp micro-batches.")
    ] = None
    sequence_length: Annotated[
        int | None, Field(ge=1, le=2**24, description="Tokens per sample; null: 2048, or the model's most.")
    ] = None
    precision: Annotated[
        Literal["fp32", "tf32", "fp16", "bf16", "amp-fp16", "amp-bf16"] | None,
        Field(description="Null: mixed precision as the GPU has it."),
    ] = None
    schedule: ScheduleName = "1f1b"
    virtual_stages: Annotated[int, Field(ge=1, le=64, description="Chunks of layers per stage (interleaved 1F1B).")] = 1
    layers_per_stage: Annotated[
        list[Annotated[int, Field(ge=0, le=1000)]] | None, Field(max_length=4096, description="Null: balanced.")
    ] = None
    recomputation: Recomputation = "none"
    sequence_parallel: bool = False
    zero: Annotated[Literal[0, 1], Field(description="Stage of ZeRO.")] = 0
    optimizer: Literal["adam", "sgd"] = "adam"
    master_weights: Annotated[bool, Field(description="FP32 copies of 16-bit weights.")] = True
    attention: Attention = "fused"
    fused_kernels: Annotated[bool, Field(description="Neighbouring one-pass operators run as one.")] = False
    overlap: Annotated[bool, Field(description="Gradients are reduced beside the backward pass.")] = False
    tensor_overlap: Annotated[bool, Field(description="Tensor ranks exchange beside weight gradients.")] = False
    gpus_per_node: Annotated[Degree | None, Field(description="Null: 8 or all.")] = None
    intra: Annotated[Name | None, Field(description="Link within a host, as PCIe 4 x16; null: the GPU's own.")] = None
    inter: Annotated[Name | None, Field(description="Link between hosts, as 4x InfiniBand HDR; null: usual for the GPU.")] = (
        None
    )
    operators: Annotated[
        Literal["usual", "calibrated", "learned"],
        Field(description="Operator times: calibrated roofline, learned on other GPUs, or the closer one for such a question."),
    ] = "usual"
    graph: Annotated[
        Extraction, Field(description="How the operators are found: recorded below torch's dispatcher, or by torch.fx.")
    ] = "recording"
    iterations: Annotated[int | None, Field(ge=1, le=10**12, description="Adds time and cost of so many.")] = None

    @field_validator("precision", mode="before")
    @classmethod
    def _is_measured(cls, precision: Any) -> Any:
        if isinstance(precision, str) and precision not in PRECISIONS:
            precision_named(precision)
        return precision

    @field_validator("config")
    @classmethod
    def _is_flat(cls, config: dict[str, Any] | None) -> dict[str, Any] | None:
        level: list[Any] = [config]
        for _ in range(_MOST_DEPTH):
            level = [part for one in level if isinstance(one, (dict, list)) for part in _parts(one)]
        if level:
            raise ValueError(f"the config is nested more than {_MOST_DEPTH} deep; send it as transformers writes it")
        return config

    @model_validator(mode="after")
    def _of_one_model(self) -> DistributedQuestion:
        if (self.model is None) == (self.config is None):
            raise ValueError("name a built-in model by model, or give the content of a config.json as config, one of them")
        slots = (self.global_batch or self.dp * self.pp * self.micro_batch) // (self.dp * self.micro_batch)
        slots *= self.pp * self.virtual_stages
        if slots > _MOST_SLOTS:
            raise ValueError(
                f"an iteration has {slots} micro-batches times stages; ask for {_MOST_SLOTS} at most, with larger micro-batches"
            )
        return self


class Distributed:
    """Predicts by operators, links and a simulated schedule; see ``docs/distributed.md``."""

    name: ClassVar[str] = "distributed"
    summary: ClassVar[str] = (
        "Time, memory and cost of a training iteration on many GPUs, with data, tensor and pipeline parallelism, "
        "for a built-in model or a Hugging Face configuration. Needs no run."
    )
    Question: ClassVar[type[DistributedQuestion]] = DistributedQuestion
    Answer: ClassVar[type[DistributedAnswer]] = DistributedAnswer

    def __init__(self, settings: Settings) -> None:
        require_torch()
        self._settings = settings

    def answer(self, question: DistributedQuestion) -> DistributedAnswer:
        """Answer as ``epochcast predict-model distributed --json`` does; raises InputError."""
        from ....regressor import load_catalog
        from ...instances import load_instances
        from .communication import link_named
        from .fitted_model import FittedModel
        from .graphs import ModelGraphs
        from .predictor import Predictor
        from .question import Question, answer_json

        architecture = _architecture(question)
        catalog = load_catalog(self._settings.gpus)
        gpu = catalog.resolve(question.gpu)
        intra, inter = (link_named(name) if name else None for name in (question.intra, question.inter))
        predictor = Predictor(
            ModelGraphs(architecture, extraction=question.graph),
            fitted=FittedModel.load(),
            operators=question.operators,
            gpus_per_node=question.gpus_per_node,
            intra=intra,
            inter=inter,
        )
        instances, _ = load_instances(self._settings.prices, catalog)
        asked = Question(predictor, catalog, (gpu,), _options(question))
        return DistributedAnswer.model_validate(answer_json(asked, instances, question.iterations))


def _parts(one: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return one.values() if isinstance(one, dict) else one


def _architecture(question: DistributedQuestion) -> Architecture:
    if question.config is None:
        return named(question.model or "")
    if found := [key for key in _OF_CODE if key in question.config]:
        raise InputError(f"the config has {found[0]}, which asks for code of the model's own; none is run here, leave it out")
    kind = question.config.get("model_type")
    name = kind if isinstance(kind, str) else "config"
    architecture = read_content(question.config, name, "the config", "ask the command line, where the model's code is")
    for field, most in _MOST.items():
        if (value := getattr(architecture, field)) > most:
            raise InputError(f"the config has {field} {value}, more than any model that is trained; give {most} at most")
    return architecture


def _options(question: DistributedQuestion) -> dict[str, Any]:
    """The question under the names of the command line's options."""
    given = question.model_dump(exclude={"dp", "tp", "pp", "config", "gpu", "precision", "master_weights"})
    layers = question.layers_per_stage
    return given | {
        "data": question.dp,
        "tensor": question.tp,
        "pipeline": question.pp,
        "precisions": [question.precision] if question.precision else [],
        "layers_per_stage": None if layers is None else tuple(layers),
        "no_master_weights": not question.master_weights,
    }
