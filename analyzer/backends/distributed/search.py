"""All ways to spread one training over a number of GPUs that fit into their memory, the fastest or cheapest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from epochcast.analyzer.backends.distributed.plan.job import Recomputation, TrainingConfiguration, ZeroStage
from epochcast.analyzer.backends.distributed.precision import PRECISIONS, precision_named, require
from epochcast.analyzer.backends.distributed.prediction import Iteration
from epochcast.analyzer.backends.distributed.predictor import IterationPredictor
from epochcast.analyzer.backends.rent import Rent
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Gpu

RECOMPUTATIONS: tuple[Recomputation, ...] = ("none", "selective", "full")


@dataclass(frozen=True)
class SearchSpace:
    """What is tried; None: everything.

    Attributes:
        data, tensor, pipeline, micro_batch: given degrees and samples.
        precisions: empty: all that the GPU has.
        recomputation: None: the least that fits, as more is only slower.
        zero: stage of sharding; None: the fastest that fits.
    """

    data: int | None = None
    tensor: int | None = None
    pipeline: int | None = None
    micro_batch: int | None = None
    precisions: tuple[str, ...] = ()
    recomputation: Recomputation | None = None
    zero: ZeroStage | None = None


@dataclass(frozen=True)
class Candidate:
    """One configuration that fits."""

    gpu: Gpu
    job: TrainingConfiguration
    iteration: Iteration
    rent: Rent | None

    @property
    def usd(self) -> float | None:
        """USD per iteration; None where no price is known."""
        return None if self.rent is None else self.rent.usd(self.iteration.seconds)


@dataclass
class SearchResult:
    """What a search found.

    Attributes:
        candidates: what fits, ranked.
        too_large: configurations that do not fit into memory; of larger micro-batches than one of them none was tried.
        refused: the first reason why others are impossible, by what is refused.
    """

    candidates: list[Candidate] = field(default_factory=list)
    too_large: int = 0
    refused: dict[str, str] = field(default_factory=dict)

    def rank(self, by: Literal["time", "cost"]) -> None:
        """Sort the candidates; by cost those with a stale price come after the others, and those without one last."""

        def key(candidate: Candidate) -> tuple[bool, bool, float]:
            if by == "time":
                return False, False, candidate.iteration.seconds
            return candidate.rent is None, candidate.rent is not None and candidate.rent.is_stale, candidate.usd or 0.0

        self.candidates.sort(key=key)


def search(
    predictor: IterationPredictor,
    template: TrainingConfiguration,
    gpus: Sequence[tuple[Gpu, int]],
    space: SearchSpace,
    rent_of: Callable[[Gpu, int], Rent | None] = lambda gpu, count: None,
    progress: Callable[[int], object] | None = None,
) -> SearchResult:
    """Predict every configuration of ``space`` on each (GPU, count) that fits into memory, in no order yet.

    Degrees are all d x t x p of the count, micro-batches all divisors of a data rank's share of the global batch up to the
    first that does not fit (memory grows with them); everything else is as in ``template``.

    Raises:
        InputError: every configuration is impossible, with the first reason.
    """
    found = _Search(predictor, template, space)
    for gpu, count in gpus:
        try:
            rent = rent_of(gpu, count)
            for job in found.outlines(gpu, count):
                found.fill(gpu, job, rent)
                if progress is not None:
                    progress(len(found.result.candidates))
        except InputError as error:
            if len(gpus) == 1:
                raise
            found.result.refused.setdefault(f"{count} {gpu.name}", str(error))
    result = found.result
    if not result.candidates and not result.too_large:
        raise InputError(next(iter(result.refused.values()), "the search has nothing to try; free a degree of parallelism"))
    return result


@dataclass
class _Search:
    predictor: IterationPredictor
    template: TrainingConfiguration
    space: SearchSpace
    result: SearchResult = field(default_factory=SearchResult)

    def outlines(self, gpu: Gpu, count: int) -> Iterator[TrainingConfiguration]:
        """Jobs of one sample per micro-batch, one for each precision and (d, t, p) that is possible at all."""
        self.predictor.cluster(gpu, count)
        for tensor, precision in self._slices(gpu, count):
            for pipeline in divisors(count // tensor):
                data = count // (tensor * pipeline)
                if self.space.pipeline not in (None, pipeline) or self.space.data not in (None, data):
                    continue
                try:
                    job = replace(
                        self.template,
                        data=data,
                        tensor=tensor,
                        pipeline=pipeline,
                        precision=precision,
                        micro_batch=1,
                        zero=self.space.zero or 0,
                    )
                    self.predictor.prepared(gpu, job)
                except InputError as error:
                    self.result.refused.setdefault(f"({data}, {tensor}, {pipeline})", str(error))
                    continue
                yield job

    def _slices(self, gpu: Gpu, count: int) -> Iterator[tuple[int, str]]:
        """Tensor ranks over which the model divides, with each precision that the GPU has."""
        for name in self.space.precisions:
            require(gpu, precision_named(name))
        precisions = self.space.precisions or available(gpu)
        unsplit = replace(self.template, data=1, pipeline=1, micro_batch=1)
        for tensor in divisors(count):
            if self.space.tensor not in (None, tensor):
                continue
            for name in precisions:
                try:
                    self.predictor.graphs.graph(replace(unsplit, tensor=tensor, precision=name))
                except InputError as error:
                    self.result.refused.setdefault(f"{tensor} tensor ranks", str(error))
                    break
                yield tensor, name

    def fill(self, gpu: Gpu, outline: TrainingConfiguration, rent: Rent | None) -> None:
        """Every micro-batch of an outline, with the least recomputation that fits."""
        choices = RECOMPUTATIONS if self.space.recomputation is None else (self.space.recomputation,)
        for micro_batch in divisors(outline.global_batch // outline.data):
            if self.space.micro_batch not in (None, micro_batch):
                continue
            job = self._fitting(gpu, replace(outline, micro_batch=micro_batch), choices)
            if not self.predictor.prepared(gpu, job).memory.fits:
                self.result.too_large += 1
                return
            self.result.candidates.append(Candidate(gpu, job, self.predictor.iteration(gpu, job), rent))
            # What a smaller micro-batch had no room for, a larger one has not either.
            choices = choices[choices.index(job.recomputation) :]

    def _fitting(self, gpu: Gpu, job: TrainingConfiguration, choices: Sequence[Recomputation]) -> TrainingConfiguration:
        if self.space.zero is None:
            return self.predictor.sharded(gpu, job, choices)
        jobs = [replace(job, recomputation=choice) for choice in choices]
        return next((job for job in jobs if self.predictor.prepared(gpu, job).memory.fits), jobs[-1])


def degrees(count: int) -> Iterator[tuple[int, int, int]]:
    """All (data, tensor, pipeline) whose product is ``count``."""
    for tensor in divisors(count):
        for pipeline in divisors(count // tensor):
            yield count // (tensor * pipeline), tensor, pipeline


def divisors(number: int) -> list[int]:
    """Divisors, ascending."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def available(gpu: Gpu) -> tuple[str, ...]:
    """The precisions that a GPU computes in."""
    able = []
    for name, precision in PRECISIONS.items():
        with suppress(InputError):
            require(gpu, precision)
            able.append(name)
    return tuple(able)
