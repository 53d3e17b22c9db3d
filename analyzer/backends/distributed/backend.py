"""The backend ``distributed``: one training iteration on many GPUs, from the model alone."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, ClassVar

from epochcast.analyzer.backends.distributed.answer import DistributedAnswer
from epochcast.analyzer.backends.distributed.question import DistributedQuestion
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins import Plugin, Settings
from epochcast.extras import how_to_install

if TYPE_CHECKING:
    from epochcast.analyzer.backends.distributed.comparison import ComparisonAnswer
    from epochcast.analyzer.backends.distributed.search import SearchAnswer


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
        from epochcast.analyzer.backends.distributed.resolved import Resolved

        resolved = Resolved(question, self._settings)
        if question.search:
            from epochcast.analyzer.backends.distributed.search import search_all

            return search_all(resolved)
        if question.compare:
            from epochcast.analyzer.backends.distributed.comparison import compare

            return compare(resolved)
        return resolved.prediction()


def require_torch() -> None:
    """Raise InputError, which says what to install, where torch is missing."""
    if importlib.util.find_spec("torch") is None:
        raise InputError(f"models are traced with torch, which is not installed here; {how_to_install('torch')}")
