"""What is answered about one job: figures, and the text of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field

from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.plugins.answer import Answer, AnswerPart, Rented
from epochcast.analyzer.tables import seconds_text, table
from epochcast.analyzer.words import count, money, number, with_prefix

_EXCHANGES = ("tensor_parallel", "data_parallel", "pipeline_parallel")


class Parts(AnswerPart):
    """What the seconds of an iteration are made of; they add up to it."""

    compute: Annotated[dict[str, float], Field(description="Seconds by kind of operator on the slowest rank.")]
    bubble: Annotated[
        float, Field(title="pipeline bubble", description="Seconds in which that rank waits for others in its pipeline.")
    ]
    tensor_parallel: Annotated[float, Field(title="tensor- and context-parallel communication")]
    data_parallel: Annotated[float, Field(title="data-parallel communication")]
    pipeline_parallel: Annotated[float, Field(title="pipeline communication")]
    optimizer: Annotated[float, Field(title="optimizer step")]

    @property
    def _others(self) -> dict[str, float]:
        return {name: seconds for name, seconds in self if name != "compute"}

    @property
    def seconds(self) -> float:
        """Of the whole iteration."""
        return float(sum((*self.compute.values(), *self._others.values())))

    @property
    def exchanges(self) -> float:
        """Seconds of communication."""
        return self.tensor_parallel + self.data_parallel + self.pipeline_parallel

    def times(self, factor: float, exchange_factor: float) -> Self:
        """All parts multiplied, communication by a factor of its own."""
        others = {name: seconds * (exchange_factor if name in _EXCHANGES else factor) for name, seconds in self._others.items()}
        return self.model_copy(update={"compute": {kind: factor * each for kind, each in self.compute.items()}, **others})

    @property
    def labelled(self) -> dict[str, float]:
        """Kinds of operators, the longest first, then the other parts under their labels."""
        others = {type(self).model_fields[name].title or name: seconds for name, seconds in self._others.items()}
        return dict(sorted(self.compute.items(), key=lambda part: -part[1])) | others


class Memory(AnswerPart):
    """Bytes on the fullest GPU."""

    weights: Annotated[float, Field(title="weights")]
    gradients: Annotated[float, Field(title="gradients")]
    optimizer: Annotated[float, Field(title="optimizer states")]
    activations: Annotated[float, Field(title="activations")]
    total: Annotated[float, Field(title="in all")]
    capacity: Annotated[float, Field(title="available")]
    fits: bool

    @classmethod
    def of(cls, capacity: float, **parts: float) -> Memory:
        """Add up the parts (``weights``, ``gradients``, ``optimizer``, ``activations``) and compare them with the capacity."""
        total = sum(parts.values())
        return cls(**parts, total=total, capacity=capacity, fits=total <= capacity)


@dataclass(frozen=True)
class Iteration:
    """What a recipe says of one training iteration (all micro-batches, gradient reduction, optimizer step).

    Attributes:
        parts: seconds.
        memory: of the fullest GPU.
        notes: what was assumed, a sentence each.
    """

    parts: Parts
    memory: Memory
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Of the whole."""
        return self.parts.seconds


class IterationCost(Rented):
    """The cheapest way to rent the GPUs, on demand and whole instances."""

    usd_per_iteration: float
    usd: Annotated[float | None, Field(description="Of all iterations; null if their number was not given.")]

    def text(self, iterations: int | None) -> str:
        """In a sentence."""
        total = "" if self.usd is None else f", {money(self.usd)} for {iterations} iterations"
        return f"cost: {money(self.usd_per_iteration)} per iteration{total}, on {self.where} (price of {self.price_of})"


class IterationPrediction(AnswerPart):
    """A job on its GPUs."""

    job: TrainingConfiguration
    seconds: Annotated[float, Field(description="Of one iteration.")]
    low: Annotated[float | None, Field(description="Lower end of the 90 % interval; null if the recipe gives none.")]
    high: Annotated[float | None, Field(description="Upper end of the 90 % interval; null if the recipe gives none.")]

    gpu: str
    gpus: int
    samples_per_second: float
    tokens_per_second: float | None
    mfu: Annotated[float, Field(description="Share of the GPUs' peak that the model's operations use.")]
    parts: Parts
    memory: Memory
    cost: Annotated[IterationCost | None, Field(description="Null where no price is known.")]

    @property
    def interval(self) -> str:
        """For a sentence that says the seconds."""
        known = self.low is not None and self.high is not None
        return f" (90 % interval {seconds_text(self.low)} to {seconds_text(self.high)})" if known else ""


class DistributedAnswer(IterationPrediction, Answer):
    """One training iteration."""

    model: str
    fits: bool
    verdict: Annotated[str, Field(description="Whether it fits into memory, as a sentence.")]
    iterations: int | None
    total_seconds: float | None
    model_flops: float
    parts_low: Parts | None
    parts_high: Parts | None
    gpus_per_node: int
    intra: str
    inter: str | None
    recipe: str
    evidence: Annotated[list[str], Field(description="Measurements that the answer relies on.")]
    assumptions: Annotated[list[str], Field(description="What was not given or not measured.")]
    notes: list[str]

    @property
    def text(self) -> str:
        """The whole answer; what does not fit is said first."""
        unknown = f"cost: no on-demand price of a {self.gpu} is known; give your own table with --prices FILE"
        parts = [
            "" if self.fits else self.verdict,
            self._headline(),
            self._made_of(),
            self._memory(),
            self.cost.text(self.iterations) if self.cost else unknown,
            "\n".join(sentences(self.evidence, self.assumptions)),
        ]
        return "\n\n".join(part for part in parts if part)

    def _headline(self) -> str:
        job = self.job
        where = f"{self.gpus} {self.gpu}"
        if self.inter:
            where += f" in nodes of {self.gpus_per_node}, {self.intra}, {self.inter} between nodes"
        elif self.gpus > 1:
            where += f", {self.intra}"
        rates = [f"{number(self.samples_per_second)} samples/s"]
        if self.tokens_per_second is not None:
            rates.append(f"{number(self.tokens_per_second)} tokens/s")
        flops = self.model_flops / self.seconds / self.gpus
        rate = f"{number(flops / 1e12)} TFLOP/s" if flops >= 1e12 else with_prefix(flops, "FLOP/s")
        lines = [
            f"{self.model} on {where}",
            f"{job.text}; global batch {job.global_batch} in {count(job.micro_batches, 'micro-batch', 'micro-batches')}",
            f"{seconds_text(self.seconds)} per iteration{self.interval}: {', '.join(rates)}; {rate} per GPU, "
            f"{100 * self.mfu:.1f} % of its peak",
        ]
        if self.total_seconds is not None:
            lines.append(f"{self.iterations} iterations: {seconds_text(self.total_seconds)}")
        return "\n".join(lines)

    def _made_of(self) -> str:
        low, high = (each.labelled if each else {} for each in (self.parts_low, self.parts_high))
        shown = []
        for label, seconds in self.parts.labelled.items():
            if seconds > 0:
                interval = [f"{seconds_text(low[label])} to {seconds_text(high[label])}"] if low else []
                shown.append((label, seconds_text(seconds), *interval, f"{100 * seconds / self.seconds:.1f} %"))
        return table(("part", "time", *(["90 % interval"] if low else []), "share"), shown)

    def _memory(self) -> str:
        titles = {name: field.title for name, field in Memory.model_fields.items() if field.title}
        rows = [(title, f"{getattr(self.memory, name) / 2**30:.2f}") for name, title in titles.items()]
        text = table(("memory of the fullest GPU", "GiB"), rows)
        return f"{text}\n{self.verdict}" if self.fits else text


def sentences(evidence: Sequence[str], assumptions: Sequence[str]) -> list[str]:
    """What an answer rests on, a line each."""
    return [*(f"based on: {sentence}" for sentence in evidence), *(f"assumed: {sentence}" for sentence in assumptions)]
