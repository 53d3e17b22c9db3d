"""An answer is declared once: JSON, text and the HTTP schema come from its fields."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from epochcast.analyzer.plugins.chart import Chart
from epochcast.analyzer.words import count, money


class AnswerPart(BaseModel):
    """A part of an answer; a figure without a value is null."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Answer(AnswerPart):
    """What a backend answers; a field ``notes`` is what a reader has to know about it, a sentence each."""

    @property
    def text(self) -> str:
        """What the command line prints: a line for each field, unless a backend says it better."""
        return "\n".join(f"{name.replace('_', ' ')}: {value}" for name, value in self if name != "notes")

    @property
    def status(self) -> int:
        """Exit code of the command: 1 where what was asked has no answer, which the text or the notes say."""
        return 0

    @property
    def chart(self) -> Chart | None:
        """What ``--plot`` draws, an option of answers that override this; raises InputError where there is too little."""
        return None


class Rented(AnswerPart):
    """The cheapest way to rent the devices of an answer, on demand and whole instances."""

    instance: str
    cloud: str
    region: str
    gpu: str
    gpus_each: int
    count: int
    usd_per_hour: Annotated[float, Field(description="Of all instances.")]
    price_of: Annotated[str, Field(description="Date of the price.")]

    @property
    def where(self) -> str:
        """The instances and their price, for a sentence."""
        region = "" if self.region == "any" else f" in {self.region}"
        instances = f"{self.count} x {self.instance} ({count(self.gpus_each, 'GPU')})"
        return f"{instances} of {self.cloud}{region} at {money(self.usd_per_hour)}/h"
