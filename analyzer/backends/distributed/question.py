"""What may be asked about distributed training, and the whole answer on one job, for the command line and the service."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....extras import how_to_install
from ....regressor import Catalog, Gpu
from ...errors import InputError
from ...instances import Instance
from .answer import iteration_json
from .job import Job
from .models import Architecture
from .predictor import Predictor
from .rent import cheapest_rent
from .search import available

_AS_GIVEN = (
    *("schedule", "virtual_stages", "layers_per_stage", "sequence_parallel", "optimizer", "attention"),
    *("fused_kernels", "overlap", "tensor_overlap"),
)


@dataclass(frozen=True)
class Question:
    """What is trained, how it is spread, and what predicts it.

    Attributes:
        predictor: of the model.
        catalog: GPUs, with the user's own.
        gpus: those named.
        options: ``model``, ``operators`` and ``graph`` as they are called, ``precisions``, ``no_master_weights``, and the
            settings of a `.job.Job` by name; None asks for the usual ``data``, ``tensor``, ``pipeline``, ``micro_batch``,
            ``global_batch``, ``sequence_length``, ``recomputation`` or ``zero``.
    """

    predictor: Predictor
    catalog: Catalog
    gpus: tuple[Gpu, ...]
    options: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What the model is called."""
        return getattr(getattr(self.predictor.graphs, "model", None), "name", "") or str(self.options["model"])

    @property
    def tokens_per_sample(self) -> int | None:
        """None where samples are no sequences of tokens, or a user's module does not say."""
        model = getattr(self.predictor.graphs, "model", None)
        return self.sequence_length if isinstance(model, Architecture) and not model.images else None

    @property
    def sequence_length(self) -> int:
        """As given; else 2048, or the longest that the model has positions for."""
        model = getattr(self.predictor.graphs, "model", None)
        most = getattr(model, "positions", 0) or 2048
        return self.options["sequence_length"] or min(2048, most)

    def job(self, **changes: Any) -> Job:
        """The job of the options, with ``changes``; raises InputError for what does not divide."""
        given = self.options
        degrees = {name: given[name] or 1 for name in ("data", "tensor", "pipeline", "micro_batch")} | changes
        settings = {name: given[name] for name in _AS_GIVEN} | {
            "global_batch": given["global_batch"] or degrees["data"] * degrees["pipeline"] * degrees["micro_batch"],
            "sequence_length": self.sequence_length,
            "precision": given["precisions"][0] if given["precisions"] else self._usual_precision(),
            "recomputation": given["recomputation"] or "none",
            "zero": given["zero"] or 0,
            "master_weights": not given["no_master_weights"],
        }
        return Job(**(settings | degrees))

    def _usual_precision(self) -> str:
        """Mixed precision as the first GPU has it; FP32 where it has none."""
        able = available(self.gpus[0])
        return next(name for name in ("amp-bf16", "amp-fp16", "fp32") if name in able)


def answer_json(question: Question, instances: Sequence[Instance], iterations: int | None) -> dict[str, Any]:
    """The answer on one job on the first GPU, as JSON has it.

    Args:
        question: what is asked.
        instances: with prices; may be empty.
        iterations: adds time and cost of so many.

    Raises:
        InputError: the model cannot be traced, the GPU lacks the precision, or something does not divide.
    """
    predictor, job, gpu = question.predictor, question.job(), question.gpus[0]
    rent = cheapest_rent(instances, gpu.name, job.gpus, predictor.cluster(gpu, job.gpus).gpus_per_node)
    answer = iteration_json(predictor, gpu, job, question.tokens_per_sample, rent, iterations)
    sources = {"operators": predictor.source(gpu, job), "graph": question.options["graph"]}
    return {"model": question.name, **sources, **answer}


def require_torch() -> None:
    """Raise InputError, which says what to install, where torch is missing."""
    if importlib.util.find_spec("torch") is None:
        raise InputError(f"models are traced with torch, which is not installed here; {how_to_install('torch')}")
