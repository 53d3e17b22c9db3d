"""The backend ``distributed``: one training iteration on many GPUs, from the model alone."""

from __future__ import annotations

import importlib.util
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

from epochcast.analyzer.backends.distributed.answer import DistributedAnswer, Iteration, IterationCost, IterationPrediction
from epochcast.analyzer.backends.distributed.communication.cluster import link_named, load_links
from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.distributed.models.configuration import Configuration
from epochcast.analyzer.backends.distributed.models.user_module import resolve
from epochcast.analyzer.backends.distributed.operator_time.table import Table, read_corpus
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration, available, peak_flops, precision_named
from epochcast.analyzer.backends.distributed.plan.memory import verdict
from epochcast.analyzer.backends.distributed.predictor import IterationPredictor, TimesOf, model_flops
from epochcast.analyzer.backends.distributed.question import DistributedQuestion
from epochcast.analyzer.backends.rent import Rent, cheapest_rent, price_notes
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices import load_instances
from epochcast.analyzer.plugins import Plugin, Settings
from epochcast.extras import how_to_install
from epochcast.regressor import Gpu, load_catalog

if TYPE_CHECKING:
    from epochcast.analyzer.backends.distributed.search import ComparisonAnswer, SearchAnswer


class Distributed(Plugin):
    """Predicts by operators, links and a simulated schedule; see ``docs/distributed.md``."""

    name = "distributed"
    summary = (
        "Time, memory and cost of a training iteration on many GPUs, with data, tensor and pipeline parallelism, "
        "for a built-in model or a Hugging Face configuration. Needs no run."
    )
    manual = """\
    Predict the time of one training iteration on several GPUs, with its parts, memory and cost.

    Over HTTP a question has more fields: schedule, optimizer, attention, overlap and others.

    \b
    Example: epochcast predict-model distributed --model LLaMA-3.1-8B \\
                 --gpu "A100 SXM4 80GB" --dp 8 --tp 4 --pp 2 --global-batch 256 \\
                 --precision amp-bf16 --recomputation full
             epochcast predict-model distributed --model GPT-3-175B \\
                 --gpu "A100 SXM4 80GB" --global-batch 1536 --search \\
                 --gpus-total 512
             epochcast predict-model distributed --model LLaMA-3.1-8B \\
                 --gpu "H100 SXM5" --global-batch 8 --compare \\
                 --gpus-total 8 --plot precisions.png
    """
    Question: ClassVar[type[DistributedQuestion]] = DistributedQuestion
    Answer: ClassVar[type[DistributedAnswer]] = DistributedAnswer

    def __init__(self, settings: Settings) -> None:
        require_torch()
        super().__init__(settings)

    def answer(self, question: DistributedQuestion) -> DistributedAnswer | SearchAnswer | ComparisonAnswer:
        """A prediction of one job; over HTTP always. On the command line also a search or a comparison; raises InputError."""
        resolved = Resolved(question, self._settings)
        if question.search:
            from epochcast.analyzer.backends.distributed.search import search_all

            return search_all(resolved)
        if question.compare:
            from epochcast.analyzer.backends.distributed.search import compare

            return compare(resolved)
        return resolved.prediction()


def require_torch() -> None:
    """Raise InputError, which says what to install, where torch is missing."""
    if importlib.util.find_spec("torch") is None:
        raise InputError(f"models are traced with torch, which is not installed here; {how_to_install('torch')}")


class Resolved:
    """A question whose GPUs, prices, files and model are at hand; torch is loaded for it.

    Attributes:
        question, settings: as they came.
        gpus: those named.
        predictor: of the model.
        instances: with prices.
        notes: on prices that the user gave.
    """

    def __init__(self, question: DistributedQuestion, settings: Settings) -> None:
        """Raises InputError: torch is missing, something named is unknown, or a file cannot be read."""
        self.question, self.settings = question, settings
        catalog = load_catalog(settings.gpus)
        self.gpus = [catalog.resolve(name) for name in question.gpu]
        fitted = DistributedModel.load(question.calibration) if question.calibration else DistributedModel.load()
        links = load_links(question.links)
        intra, inter = (link_named(name, links) if name else None for name in (question.intra, question.inter))
        from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs

        config = question.config
        if config is None:
            self._model = resolve(question.model or "")
        else:
            kind = config.get("model_type")
            self._model = Configuration(kind if isinstance(kind, str) else "the config", config)
        rows = None if question.corpus is None else read_corpus(question.corpus, catalog)
        times: TimesOf | None = None if rows is None else lambda gpu, precision: Table(rows, gpu.name, precision)
        graphs = ModelGraphs(self._model, extraction="fx" if question.recipe == "paper" else "recording")
        self.predictor = IterationPredictor(graphs, question.recipe, fitted, times, question.gpus_per_node, intra, inter)
        self.instances, notes = load_instances(question.prices or settings.prices, catalog)
        self.notes = list(notes) if question.prices else []

    @property
    def name(self) -> str:
        """What the model is called."""
        return self._model.name

    @property
    def _sequence_length(self) -> int:
        """As given; else 2048, or the longest that the model has positions for."""
        return self.question.sequence_length or min(2048, getattr(self._model, "positions", 0) or 2048)

    def job(self, **changes: Any) -> TrainingConfiguration:
        """The job of the question, with ``changes``; raises InputError for what does not divide."""
        question = self.question
        degrees = {
            "data": question.dp,
            "tensor": question.tp,
            "pipeline": question.pp,
            "context": question.cp,
            "micro_batch": question.micro_batch,
        } | changes
        able = available(self.gpus[0])
        usual = next(name for name in ("amp-bf16", "amp-fp16", "fp32") if name in able)
        settings = question.model_dump(include={field.name for field in fields(TrainingConfiguration)}) | {
            "global_batch": question.global_batch or degrees["data"] * degrees["pipeline"] * degrees["micro_batch"],
            "sequence_length": self._sequence_length,
            "precision": question.precision[0] if question.precision else usual,
            "layers_per_stage": None if question.layers_per_stage is None else tuple(question.layers_per_stage),
            "zero": question.zero or 0,
        }
        return TrainingConfiguration(**(settings | degrees))

    def sharded(self, gpu: Gpu, job: TrainingConfiguration) -> TrainingConfiguration:
        """The job with the fastest sharding that fits, unless the question says how much."""
        return job if self.question.zero is not None else self.predictor.sharded(gpu, job)

    def rent(self, gpu: Gpu, count: int) -> Rent | None:
        """The cheapest way to rent so many GPUs."""
        return cheapest_rent(self.instances, gpu.name, count, self.predictor.cluster(gpu, count).gpus_per_node)

    def configuration(
        self, gpu: Gpu, job: TrainingConfiguration, iteration: Iteration, rent: Rent | None
    ) -> IterationPrediction:
        """A job on its GPUs, as it is answered."""
        evidence, seconds, iterations = (
            self.predictor.evidence(gpu, job, iteration),
            iteration.seconds,
            self.question.iterations,
        )
        tokens = isinstance(self._model, Configuration) and not self._model.images
        peak = peak_flops(gpu, precision_named(job.precision).products)
        return IterationPrediction(
            job=job,
            seconds=seconds,
            low=seconds / evidence.factor if evidence else None,
            high=seconds * evidence.factor if evidence else None,
            gpu=gpu.name,
            gpus=job.gpus,
            samples_per_second=job.global_batch / seconds,
            tokens_per_second=job.global_batch / seconds * self._sequence_length if tokens else None,
            # Chowdhery et al. 2022, appendix B.
            mfu=model_flops(self.predictor.graphs.graph(job), job) / (seconds * job.gpus * peak),
            parts=iteration.parts,
            memory=iteration.memory,
            cost=IterationCost(
                **rent.rented,
                usd_per_iteration=rent.usd(seconds),
                usd=None if iterations is None else rent.usd(seconds * iterations),
            )
            if rent
            else None,
        )

    def prediction(self) -> DistributedAnswer:
        """The answer on one job; raises InputError."""
        gpu, predictor, question = self.gpus[0], self.predictor, self.question
        job = self.sharded(gpu, self.job())
        prepared, rent, iteration = predictor.prepared(gpu, job), self.rent(gpu, job.gpus), predictor.iteration(gpu, job)
        cluster, parts, evidence = prepared.cluster, iteration.parts, predictor.evidence(gpu, job, iteration)
        factors = evidence and (evidence.factor, evidence.exchange_factor)
        assumptions = [*iteration.notes, *(evidence.not_measured if evidence else ())]
        if question.zero is None and job.zero:
            assumptions.insert(0, f"states are sharded by {job.sharding}, the fastest that fits; --zero says otherwise")
        if question.recipe == "paper" and job.zero:
            assumptions.append("the paper's time knows no sharding: ZeRO counts for the memory alone")
        if 0 < (own := getattr(self._model, "positions", 0) or 0) < job.sequence_length:
            assumptions.append(f"the model has {job.sequence_length} positions, of its own {own}")
        return DistributedAnswer(
            **dict(self.configuration(gpu, job, iteration, rent)),
            model=self.name,
            fits=iteration.memory.fits,
            verdict=verdict(prepared.stages, job, gpu.memory),
            iterations=question.iterations,
            total_seconds=None if question.iterations is None else question.iterations * iteration.seconds,
            model_flops=model_flops(predictor.graphs.graph(job), job),
            parts_low=parts.times(*(1 / factor for factor in factors)) if factors else None,
            parts_high=parts.times(*factors) if factors else None,
            gpus_per_node=cluster.gpus_per_node,
            intra=cluster.intra.name,
            inter=None if cluster.inter is None else cluster.inter.name,
            recipe=predictor.recipe,
            evidence=list(evidence.rests_on) if evidence else [],
            assumptions=assumptions,
            notes=[*self.notes, *price_notes([rent])],
        )
