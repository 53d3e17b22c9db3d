"""A question with all that it names looked up, and the answer on one job."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from epochcast.analyzer.backends.distributed.answer import (
    DistributedAnswer,
    IterationCost,
    IterationPrediction,
    Parts,
)
from epochcast.analyzer.backends.distributed.communication.links import link_named, load_links
from epochcast.analyzer.backends.distributed.evidence import Evidence
from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.distributed.models import Configuration, UserModule, resolve
from epochcast.analyzer.backends.distributed.models.graph import Extraction
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.plan.memory import out_of_memory
from epochcast.analyzer.backends.distributed.plan.timeline import write_chrome_trace
from epochcast.analyzer.backends.distributed.prediction import Iteration, Memory
from epochcast.analyzer.backends.distributed.predictor import IterationPredictor, TimesOf, model_flops, utilisation
from epochcast.analyzer.backends.distributed.question import DistributedQuestion
from epochcast.analyzer.backends.distributed.search import available
from epochcast.analyzer.backends.rent import Rent, cheapest_rent, price_notes
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices import load_instances
from epochcast.analyzer.plugins import Settings
from epochcast.regressor import Catalog, Gpu, load_catalog

# Keys by which a configuration asks transformers to run code that comes with a model: what that builds is not read here.
_OF_CODE = ("auto_map", "custom_pipelines", "trust_remote_code")


class Resolved:
    """A question whose GPUs, prices, files and model are at hand; torch is loaded for it.

    Attributes:
        question: as it was asked.
        gpus: those named.
        predictor: of the model.
        instances: with prices.
        notes: on prices that the user gave.
        progress: shows the progress of long work; None: no progress is shown.
    """

    def __init__(self, question: DistributedQuestion, settings: Settings) -> None:
        """Raises InputError: torch is missing, something named is unknown, or a file cannot be read."""
        self.question, self.progress = question, settings.progress
        catalog = load_catalog(settings.gpus)
        self.gpus = [catalog.resolve(name) for name in question.gpu]
        fitted = DistributedModel.load(question.calibration) if question.calibration else DistributedModel.load()
        links = load_links(question.links)
        intra, inter = (link_named(name, links) if name else None for name in (question.intra, question.inter))
        from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs

        extraction: Extraction = "fx" if question.recipe == "paper" else "recording"
        graphs = ModelGraphs(_model(question), extraction=extraction)
        self._model = graphs.model
        times = _times_of(question, catalog)
        self.predictor = IterationPredictor(graphs, question.recipe, fitted, times, question.gpus_per_node, intra, inter)
        self.instances, notes = load_instances(question.prices or settings.prices, catalog)
        self.notes = list(notes) if question.prices else []

    @property
    def name(self) -> str:
        """What the model is called."""
        return getattr(self._model, "name", "") or str(self.question.model)

    @property
    def tokens_per_sample(self) -> int | None:
        """None where samples are no sequences of tokens, or a user's module does not say."""
        return self.sequence_length if isinstance(self._model, Configuration) and not self._model.images else None

    @property
    def sequence_length(self) -> int:
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
        settings = question.model_dump(include={field.name for field in fields(TrainingConfiguration)}) | {
            "global_batch": question.global_batch or degrees["data"] * degrees["pipeline"] * degrees["micro_batch"],
            "sequence_length": self.sequence_length,
            "precision": question.precision[0] if question.precision else self._usual_precision(),
            "layers_per_stage": None if question.layers_per_stage is None else tuple(question.layers_per_stage),
            "zero": question.zero or 0,
        }
        return TrainingConfiguration(**(settings | degrees))

    def sharded(self, gpu: Gpu, job: TrainingConfiguration) -> TrainingConfiguration:
        """The job with the fastest sharding that fits, unless the question says how much."""
        return job if self.question.zero is not None else self.predictor.sharded(gpu, job)

    def _usual_precision(self) -> str:
        """Mixed precision as the first GPU has it; FP32 where it has none."""
        able = available(self.gpus[0])
        return next(name for name in ("amp-bf16", "amp-fp16", "fp32") if name in able)

    def rent(self, gpu: Gpu, count: int) -> Rent | None:
        """The cheapest way to rent so many GPUs."""
        return cheapest_rent(self.instances, gpu.name, count, self.predictor.cluster(gpu, count).gpus_per_node)

    def configuration(
        self, gpu: Gpu, job: TrainingConfiguration, iteration: Iteration, memory: Memory | None, rent: Rent | None
    ) -> IterationPrediction:
        """A job on its GPUs, as it is answered."""
        low, high = interval(iteration, self.predictor.evidence(gpu, job, iteration))
        samples, tokens = job.global_batch / iteration.seconds, self.tokens_per_sample
        return IterationPrediction(
            job=job,
            seconds=iteration.seconds,
            low=low,
            high=high,
            gpu=gpu.name,
            gpus=job.gpus,
            samples_per_second=samples,
            tokens_per_second=None if tokens is None else samples * tokens,
            mfu=utilisation(self.predictor.graphs.graph(job), job, gpu, iteration.seconds),
            parts=Parts.model_validate(iteration),
            memory=memory,
            cost=None if rent is None else _cost(rent, iteration.seconds, self.question.iterations),
        )

    def prediction(self) -> DistributedAnswer:
        """The answer on one job; its timeline is written if requested; raises InputError."""
        gpu, predictor, question = self.gpus[0], self.predictor, self.question
        job = self.sharded(gpu, self.job())
        prepared, rent = predictor.prepared(gpu, job), self.rent(gpu, job.gpus)
        iteration, graph, memory, cluster = (
            predictor.iteration(gpu, job),
            predictor.graphs.graph(job),
            prepared.memory,
            prepared.cluster,
        )
        evidence, parts = self.predictor.evidence(gpu, job, iteration), Parts.model_validate(iteration)
        factors = evidence and (evidence.factor, evidence.exchange_factor)
        assumptions = [*iteration.notes, *(evidence.not_measured if evidence else ())]
        if question.zero is None and job.zero:
            assumptions.insert(0, f"states are sharded by {job.sharding}, the fastest that fits; --zero says otherwise")
        answer = DistributedAnswer(
            **dict(self.configuration(gpu, job, iteration, memory, rent)),
            model=self.name,
            fits=memory.fits,
            verdict=out_of_memory(prepared.stages, job, gpu.memory) or _fitting(memory, job),
            iterations=question.iterations,
            total_seconds=None if question.iterations is None else question.iterations * iteration.seconds,
            model_flops=model_flops(graph, job),
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
        if question.timeline is not None:
            if predictor.recipe != "default":
                raise InputError(f"--timeline needs the recipe default, not {predictor.recipe}; leave one out")
            write_chrome_trace(question.timeline, predictor.timeline(gpu, job), f"{self.name} on {gpu.name}")
        return answer


def interval(iteration: Iteration, evidence: Evidence | None) -> tuple[float | None, float | None]:
    """Seconds that nine of ten such iterations take at least and at most; None without evidence."""
    return (iteration.seconds / evidence.factor, iteration.seconds * evidence.factor) if evidence else (None, None)


def _cost(rent: Rent, seconds: float, iterations: int | None) -> IterationCost:
    """What an iteration of ``seconds`` costs, and all of them."""
    return IterationCost(
        **rent.rented, usd_per_iteration=rent.usd(seconds), usd=None if iterations is None else rent.usd(seconds * iterations)
    )


def _fitting(memory: Memory, job: TrainingConfiguration) -> str:
    which = "the fullest GPU" if job.pipeline > 1 else "each GPU"
    return f"fits: {which} needs {memory.total / 2**30:.1f} of {memory.capacity / 2**30:.1f} GiB"


def _model(question: DistributedQuestion) -> Configuration | UserModule:
    config = question.config
    if config is None:
        return resolve(question.model or "")
    if keys := [key for key in _OF_CODE if key in config]:
        raise InputError(
            f"the config has {keys[0]}, which would run the model's own code; that is not allowed here, leave it out"
        )
    kind = config.get("model_type")
    return Configuration(kind if isinstance(kind, str) else "the config", config)


def _times_of(question: DistributedQuestion, catalog: Catalog) -> TimesOf | None:
    """Operator times that were measured; None for the sources of the predictor's own."""
    if question.corpus is not None:
        from epochcast.analyzer.backends.distributed.operator_time.corpus import read_corpus
        from epochcast.analyzer.backends.distributed.operator_time.table import Table

        rows = read_corpus(question.corpus, catalog)
        return lambda gpu, precision: Table(rows, gpu.name, precision)
    return None
