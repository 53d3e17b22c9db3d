"""What may be asked about distributed training: on the command line and over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from epochcast.analyzer.backends.distributed.models.configuration import NAMED, named
from epochcast.analyzer.backends.distributed.plan.job import PRECISIONS, Attention, Recomputation, ScheduleName, ZeroStage
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.question import Body, GpuName, Http, Name, Option, Question

RecipeName = Literal["default", "paper"]

# No model's configuration is, and what is nested deeper cannot be written as JSON again.
_MOST_DEPTH = 20

# Pipeline slots that are simulated one by one for a request: 2**18 take seconds.
_MOST_SLOTS = 2**18

_EXAMPLES: list[Any] = [
    {"model": "LLaMA-3.1-8B", "gpu": "A100 SXM4 80GB", "dp": 8, "tp": 4, "pp": 2, "global_batch": 256, "recomputation": "full"},
    {
        "config": {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 22},
        "gpu": "H100 SXM5",
        "dp": 8,
        "micro_batch": 4,
        "iterations": 100000,
    },
]


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _flat(config: Any, depth: int = _MOST_DEPTH) -> Any:
    for part in config.values() if isinstance(config, dict) else config if isinstance(config, list) else ():
        if not depth:
            raise ValueError(f"the config is nested more than {_MOST_DEPTH} deep; send it as transformers writes it")
        _flat(part, depth - 1)
    return config


Degree = Annotated[int, Field(ge=1, le=4096)]
_N = Option(metavar="N")
_ONLY_HTTP = Http(only=True)
_FILE = Option(metavar="FILE")
_Path = Annotated[Path | None, _FILE]
_HttpModel = Annotated[str | None, Field(min_length=1, max_length=100, description=f"A built-in model: {', '.join(NAMED)}.")]
_HttpPrecision = Annotated[
    Literal["fp32", "tf32", "fp16", "bf16", "amp-fp16", "amp-bf16", "fp8"] | None,
    Field(description="Null: the GPU's mixed precision."),
]


class DistributedQuestion(Question):
    """A model, the GPUs that train it, and how it is spread over them.

    The model is a built-in one (``model``) or the content of a Hugging Face ``config.json`` (``config``).
    """

    model_config = ConfigDict(json_schema_extra={"examples": _EXAMPLES})

    model: Annotated[
        str | None,
        Http(_HttpModel),
        Option(metavar="MODEL"),
        Field(description="Model: a built-in name, style:key=value,…, config.json or module:factory."),
    ] = None
    config: Annotated[
        dict[str, Any] | None,
        _ONLY_HTTP,
        Field(max_length=1000, description="What a Hugging Face config.json holds, of a model that transformers has."),
        AfterValidator(_flat),
    ] = None
    recipe: Annotated[
        RecipeName,
        Http(),
        Field(description="Method of prediction: ours, or the paper's (torch.fx, Algorithm 1, equations 1 to 4)."),
    ] = "default"
    calibration: Annotated[
        Path | None,
        Option(metavar="DIR", default="the shipped one"),
        Field(description="Folder of a fitted model."),
    ] = None
    corpus: Annotated[
        Path | None,
        Option(metavar="PATH"),
        Field(description="Operators that you measured on that GPU, instead of learned times."),
    ] = None

    gpu: Annotated[
        list[GpuName],
        Http(GpuName, required=True),
        Option(metavar="NAME"),
        BeforeValidator(_list),
        Field(default_factory=list, description="GPU to predict for; several with --search."),
    ]
    gpus_per_node: Annotated[
        Degree | None, Http(), Option(metavar="N", default="8, or all if fewer"), Field(description="Number of GPUs in a host.")
    ] = None
    intra: Annotated[
        Name | None,
        Http(),
        Option(metavar="LINK", default="the GPU's own"),
        Field(description="Link within a host, e.g. 'PCIe 4 x16'."),
    ] = None
    inter: Annotated[
        Name | None,
        Http(),
        Option(metavar="LINK", default="usual for the GPU"),
        Field(description="Link between hosts, e.g. '4x InfiniBand HDR'."),
    ] = None
    links: Annotated[_Path, Field(description="TOML file with your own links, for --intra and --inter.")] = None

    dp: Annotated[Degree, Http(), _N, Field(description="Data-parallel ranks.")] = 1
    tp: Annotated[Degree, Http(), _N, Field(description="Tensor-parallel ranks.")] = 1
    pp: Annotated[Degree, Http(), _N, Field(description="Pipeline stages.")] = 1
    cp: Annotated[Degree, Http(), _N, Field(description="Context-parallel ranks: parts of the sequence.")] = 1
    micro_batch: Annotated[int, Http(), _N, Field(ge=1, le=2**16, description="Samples that a rank computes at once.")] = 1
    global_batch: Annotated[
        int | None,
        Http(),
        Option(metavar="N", default="dp x pp micro-batches"),
        Field(ge=1, le=2**24, description="Samples per iteration."),
    ] = None
    sequence_length: Annotated[
        int | None,
        Http(),
        Option(metavar="N", default="2048, or the model's most"),
        Field(ge=1, le=2**24, description="Tokens per sample."),
    ] = None
    precision: Annotated[
        list[str] | None,
        Http(_HttpPrecision),
        Option(
            metavar="NAME", default="amp-bf16, else amp-fp16, else fp32; all that the GPU supports for --compare and --search"
        ),
        BeforeValidator(_list),
        Field(description=f"Precision: {', '.join(PRECISIONS)}; several for --compare and --search."),
    ] = None
    schedule: Annotated[ScheduleName, _ONLY_HTTP, Field(description="Order of micro-batches in the pipeline.")] = "1f1b"
    virtual_stages: Annotated[
        int,
        _ONLY_HTTP,
        Field(ge=1, le=64, description="Chunks of layers per stage (interleaved 1F1B)."),
    ] = 1
    layers_per_stage: Annotated[
        list[Annotated[int, Field(ge=0, le=1000)]] | None,
        _ONLY_HTTP,
        Option(default="balanced"),
        Field(max_length=4096, description="Layers of each chunk."),
    ] = None
    recomputation: Annotated[
        Recomputation,
        Http(),
        Option(default="none; with --search the fewest that fit"),
        Field(description="Activations to recompute."),
    ] = "none"
    sequence_parallel: Annotated[bool, _ONLY_HTTP, Field(description="Split norms and dropout along the sequence.")] = False
    zero: Annotated[
        ZeroStage | None,
        Http(),
        Option(default="the fastest that fits"),
        Field(description="What data ranks shard: 1 optimizer states, 2 gradients too, 3 weights too (FSDP)."),
    ] = None
    optimizer: Annotated[Literal["adam", "sgd"], _ONLY_HTTP, Field(description="Optimizer (adam includes AdamW).")] = "adam"
    master_weights: Annotated[bool, _ONLY_HTTP, Field(description="Keep FP32 copies of 16-bit weights.")] = True
    attention: Annotated[
        Attention, _ONLY_HTTP, Field(description="Attention as one (flash) kernel, or as matrix products and softmax.")
    ] = "fused"
    fused_kernels: Annotated[
        bool, _ONLY_HTTP, Field(description="Fuse neighbouring one-pass operators (Megatron-LM, torch.compile).")
    ] = False
    overlap: Annotated[bool, _ONLY_HTTP, Field(description="Reduce gradients during the backward pass (torch DDP).")] = False
    tensor_overlap: Annotated[
        bool, _ONLY_HTTP, Field(description="Overlap the exchange between tensor ranks with weight gradients (Megatron-LM).")
    ] = False

    prices: Annotated[_Path, Field(description="Your own price table (CSV) instead of the built-in one.")] = None
    iterations: Annotated[
        int | None, Http(), _N, Field(ge=1, le=10**12, description="Iterations in the whole training; adds its time and cost.")
    ] = None
    search: Annotated[
        bool,
        Field(description="Rank all parallel degrees, micro-batches and precisions that fit; given options stay fixed."),
    ] = False
    gpus_total: Annotated[
        list[Annotated[int, Field(ge=1)]],
        _N,
        Field(default_factory=list, description="Number of GPUs for --search or --compare."),
    ]
    compare: Annotated[bool, Field(description="Compare times by precision and parallelism (Fig. 1 of the paper).")] = False
    plot: Annotated[_Path, Field(description="Draw the comparison of --compare (PNG, SVG, PDF).")] = None

    @classmethod
    def of_body(cls, body: Body, models: Mapping[str, Path], **more: Any) -> Self:
        """See :meth:`Question.of_body`: a model is named or its configuration is sent, and an iteration is not too long."""
        question = super().of_body(body, models, **more)
        if question.model is not None:
            named(question.model)
        micro_batches = (question.global_batch or question.pp * question.dp * question.micro_batch) // (
            question.dp * question.micro_batch
        )
        slots = micro_batches * question.pp * question.virtual_stages
        if slots > _MOST_SLOTS:
            raise InputError(
                f"an iteration has {slots} micro-batches times stages; use larger micro-batches for at most {_MOST_SLOTS}"
            )
        return question

    @model_validator(mode="after")
    def _of_one_answer(self) -> Self:
        if (self.model is None) == (self.config is None):
            raise ValueError("give either model (a built-in name) or config (the content of a config.json)")
        if not self.gpu:
            raise ValueError("no GPU is named; give --gpu NAME")
        if self.search and self.compare:
            raise ValueError("--search and --compare exclude each other; give one of them")
        if self.plot is not None and not self.compare:
            raise ValueError("--plot applies only to --compare; add it or leave it out")
        for option, times, allowed, need in (
            ("--gpu", len(self.gpu), self.search, "--search"),
            ("--gpus-total", len(self.gpus_total), self.search, "--search"),
            ("--precision", len(self.precision or ()), self.search or self.compare, "--compare and --search"),
        ):
            if times > 1 and not allowed:
                raise ValueError(f"{option} is given {times} times; several need {need}: give one")
        if self.search or self.compare:
            self._check_many("--search" if self.search else "--compare")
        elif self.gpus_total:
            raise ValueError("--gpus-total applies only to --search and --compare; one job has --dp x --tp x --pp x --cp GPUs")
        return self

    def _check_many(self, how: str) -> None:
        if not self.gpus_total:
            raise ValueError(f"{how} needs the number of GPUs: --gpus-total N")
        if self.global_batch is None:
            raise ValueError(f"{how} splits one global batch in every way; give --global-batch N")
        if self.cp > 1 or self.virtual_stages > 1 or self.layers_per_stage:
            raise ValueError(f"{how} varies data, tensor and pipeline ranks alone; leave out context ranks and chunks")
