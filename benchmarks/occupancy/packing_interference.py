"""Rules that predict how much measured pairs of jobs slow down, and packing by them (Gavel's pairs: K80, P100; no occupancy).

Run: python -m benchmarks.occupancy.packing_interference [--write]      (part `interference` of docs/occupancy.md)

There is no occupancy and no utilisation in these measurements, so the policies of the paper have nothing to go by here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from epochcast.analyzer.backends.occupancy.packing.experiment import BASELINE, Cluster, compare, summarise
from epochcast.analyzer.backends.occupancy.packing.gavel_pairs import GavelPairs, read_gavel_pairs
from epochcast.analyzer.backends.occupancy.packing.interference import PROTOCOLS, RULES, left_out, pair_slowdown, score
from epochcast.analyzer.backends.occupancy.packing.job import Job
from epochcast.analyzer.backends.occupancy.packing.job_kinds import JobKind
from epochcast.analyzer.backends.occupancy.packing.job_stream import StreamShape, job_stream
from epochcast.analyzer.backends.occupancy.packing.policies import POLICIES, Policy, by_gain, random_pair
from epochcast.analyzer.backends.occupancy.packing.slowdown import Slowdown

from ..page import OCCUPANCY, markdown_table, options, public, publish
from .packing import GPUS, LONG, RUNS, SEED, with_interval

LONG_RUNS = 30
PACKED_BY = ("step rates", "model", "self-pair")


def lines() -> Iterator[str]:
    """What is in the table, how well rules do on pairs that they did not see, and what packing by them gains."""
    measured = read_gavel_pairs(public("occupancy/gavel_pairs.csv.gz"))
    for pairs in measured:
        reasons = ", ".join(f"{count} {reason}" for reason, count in pairs.left_out.items())
        unordered = len({frozenset(names) for names in zip(pairs.views["job"], pairs.views["other"], strict=True)})
        yield (
            f"- {pairs.gpu.upper()}: {len(pairs.views)} views of {unordered} pairs of {len(pairs.types)} types; "
            f"left out of the table's rows: {reasons}."
        )
    yield ""
    yield from rules(measured)
    yield ""
    yield f"Gain over slot-packing, per cent, on {GPUS} GPUs; all jobs arrive at once, {RUNS} streams of {StreamShape().jobs} "
    yield f"and {LONG_RUNS} of {LONG}:"
    yield ""
    sizes = (f"{count} jobs: makespan" for count in (StreamShape().jobs, LONG))
    header = [name for size in sizes for name in (size, "sd", "mean JCT")]
    rows = [row for pairs in measured for protocol in ("types", "models") for row in packing(pairs, protocol)]
    yield from markdown_table(("left out: policy", *header), rows)


def rules(measured: Sequence[GavelPairs]) -> Iterator[str]:
    """How well each rule predicts pairs that it did not see."""
    rows = []
    for pairs in measured:
        for protocol in PROTOCOLS:
            for rule in RULES:
                one = score(pairs.views, left_out(pairs.views, rule, protocol))
                rows.append(
                    (
                        f"{pairs.gpu.upper()}, {protocol}: {rule}",
                        f"{one.n}",
                        f"{one.mape:.1f}",
                        f"{one.median_ape:.1f}",
                        f"{one.rmse:.3f}",
                        f"{100 * one.gains:.0f} %",
                        f"{100 * one.decided:.0f} %",
                        f"{one.chosen:.3f} ({one.chosen_pairs})" if one.chosen_pairs else "none",
                    )
                )
    errors = ("MAPE %", "median %", "RMSE of rate", "pairs that gain", "told rightly", "throughput of chosen")
    yield from markdown_table(("left out: rule", "n", *errors), rows)


def packing(pairs: GavelPairs, protocol: str) -> Iterator[tuple[str, ...]]:
    """What packing by the rules gains; streams of pairs of which no rule saw either type, or either model."""
    policies = pair_policies(pairs, PACKED_BY, protocol, SEED)
    cells: dict[str, list[str]] = {}
    for shape, runs in ((StreamShape(), RUNS), (StreamShape(jobs=LONG), LONG_RUNS)):
        queue = pair_streams(pairs, shape, runs, SEED)
        slot, *others = summarise(compare(queue, Cluster(GPUS, 1.0), policies, {"measured": measured_slowdown(pairs)}))
        for one in others:
            sooner = 1 - one.figures["jct"].mean / slot.figures["jct"].mean
            figures = (with_interval(one.run_gain, 100), f"{100 * one.run_gain.sd:.1f}", f"{100 * sooner:+.1f}")
            cells.setdefault(one.policy, []).extend(figures)
    for policy, own in cells.items():
        if policy in PACKED_BY:
            yield f"{pairs.gpu.upper()}, {protocol}: {policy}", *own
        elif protocol == "types":  # no rule: the same for either protocol
            yield f"{pairs.gpu.upper()}: {policy}", *own


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


if __name__ == "__main__":
    publish(OCCUPANCY, "interference", lines(), write=options(__doc__).parse_args().write)
