"""Packing of jobs whose slowdown beside each other was measured: what a rule that predicts it gains, and what knowing it would.

There is no occupancy and no utilisation in these measurements, so the policies of the paper have nothing to go by here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from epochcast.analyzer.backends.occupancy.packing.experiment import BASELINE
from epochcast.analyzer.backends.occupancy.packing.gavel_pairs import GavelPairs
from epochcast.analyzer.backends.occupancy.packing.interference import left_out, pair_slowdown
from epochcast.analyzer.backends.occupancy.packing.job import Job
from epochcast.analyzer.backends.occupancy.packing.job_kinds import JobKind
from epochcast.analyzer.backends.occupancy.packing.job_stream import StreamShape, job_stream
from epochcast.analyzer.backends.occupancy.packing.policies import POLICIES, Policy, by_gain, random_pair
from epochcast.analyzer.backends.occupancy.packing.slowdown import Slowdown


def pair_streams(pairs: GavelPairs, shape: StreamShape, runs: int, seed: int) -> list[Sequence[Job]]:
    """Streams of the types that run alone on this GPU, drawn evenly; what was not measured of them is 0."""
    types = [JobKind(name, occupancy=0.0, nvml_utilisation=0.0, memory=0.0) for name in pairs.types]
    return [job_stream(types, shape, np.random.default_rng([seed, run])) for run in range(runs)]


def pair_policies(
    pairs: GavelPairs, rules: Sequence[str], protocol: str, seed: int
) -> Mapping[str, Callable[[Slowdown], Policy]]:
    """Slot-packing, random pairs, packing by each rule and by the measured slowdown itself (``oracle``).

    Each pair's prediction comes from a fit that left it and its like out, so that a stream holds no pair that a rule saw.
    """

    def by_rule(rule: str) -> Callable[[Slowdown], Policy]:
        policy = by_gain(pair_slowdown(pairs.views, left_out(pairs.views, rule, protocol)))
        return lambda measured: policy

    return {
        BASELINE: POLICIES[BASELINE],
        "random pairs": lambda measured: random_pair(measured, np.random.default_rng(seed)),
        **{rule: by_rule(rule) for rule in rules},
        "oracle": POLICIES["oracle"],
    }


def measured_slowdown(pairs: GavelPairs) -> Slowdown:
    """The slowdowns as they were measured."""
    return pair_slowdown(pairs.views, pairs.views["slowdown"].to_numpy(dtype=float))
