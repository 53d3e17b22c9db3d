"""From what an agent read to the sentence on a job's clocks, as `predict` says it."""

from collections.abc import Mapping, Sequence

import numpy as np

from epochcast.analyzer.jobs.gpu_use import use_of
from epochcast.analyzer.jobs.sources import Source
from epochcast.regressor import load_catalog
from epochcast.regressor.summary import summarise


def reduced_clock(gpu: str, columns: Mapping[str, Sequence[float]]) -> str | None:
    """The sentence on a job of two epochs of ten seconds each, with a row a second."""
    time = 100.5 + np.arange(20)
    profile = summarise(gpu, time, columns, [(100.0, 110.0), (110.0, 120.0)], exclude_first=False)
    return use_of([Source(name="0", profile=profile, gpu=load_catalog()[gpu])], [profile], None).reduced_clock
