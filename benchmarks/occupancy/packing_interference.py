"""Rules that predict how much measured pairs of jobs slow down, and packing by them (Gavel's pairs: K80, P100; no occupancy).

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.occupancy.packing_interference [--write]
    (fills docs/occupancy.md, part interference)
"""

import argparse
import sys
from collections.abc import Sequence

from epochcast.analyzer.backends.occupancy.packing.experiment import Cluster, compare, summarise
from epochcast.analyzer.backends.occupancy.packing.gavel_pairs import GavelPairs, read_gavel_pairs
from epochcast.analyzer.backends.occupancy.packing.interference import PROTOCOLS, RULES, left_out, score
from epochcast.analyzer.backends.occupancy.packing.job_stream import StreamShape

from .packing_parts import GAVEL, GPUS, RUNS, SEED, markdown_table, with_interval, write_part
from .pair_experiment import measured_slowdown, pair_policies, pair_streams

LONG = 200
LONG_RUNS = 30
PACKED_BY = ("step rates", "model", "self-pair")


def main() -> None:
    """Print the part; --write puts it into docs/occupancy.md."""
    write_part("interference", __doc__, part)


def part(options: argparse.Namespace) -> Sequence[str]:
    """Markdown of the part."""
    if not GAVEL.exists():
        sys.exit(f"{GAVEL} is not there; set EPOCHCAST_SHARED")
    measured = read_gavel_pairs(GAVEL)
    lines = []
    for pairs in measured:
        reasons = ", ".join(f"{count} {reason}" for reason, count in pairs.left_out.items())
        lines += [
            f"- {pairs.gpu.upper()}: {len(pairs.views)} views of {_unordered(pairs)} pairs of {len(pairs.types)} types; "
            f"left out of the table's rows: {reasons}."
        ]
    lines += ["", *_rules(measured), "", *_packing(measured)]
    return lines


def _rules(measured: Sequence[GavelPairs]) -> list[str]:
    """How well each rule tells pairs that it did not see."""
    rows = []
    for pairs in measured:
        for protocol in PROTOCOLS:
            for rule in RULES:
                found = score(pairs.views, left_out(pairs.views, rule, protocol))
                chosen = f"{found.chosen:.3f} ({found.chosen_pairs})" if found.chosen_pairs else "none"
                rows.append(
                    (
                        f"{pairs.gpu.upper()}, {protocol}: {rule}",
                        f"{found.n}",
                        f"{found.mape:.1f}",
                        f"{found.median_ape:.1f}",
                        f"{found.rmse:.3f}",
                        f"{100 * found.gains:.0f} %",
                        f"{100 * found.decided:.0f} %",
                        chosen,
                    )
                )
    header = (
        "left out: rule",
        "n",
        "MAPE %",
        "median %",
        "RMSE of rate",
        "pairs that gain",
        "told rightly",
        "throughput of chosen",
    )
    return markdown_table(header, rows)


def _packing(measured: Sequence[GavelPairs]) -> list[str]:
    """What packing by the rules gains; streams of pairs of which no rule saw either type, or either model."""
    rows = []
    for pairs in measured:
        slowdown, cluster = {"measured": measured_slowdown(pairs)}, Cluster(GPUS, 1.0)
        for protocol in ("types", "models"):
            policies = pair_policies(pairs, PACKED_BY, protocol, SEED)
            short = summarise(compare(pair_streams(pairs, StreamShape(), RUNS, SEED), cluster, policies, slowdown))
            queue = pair_streams(pairs, StreamShape(jobs=LONG), LONG_RUNS, SEED)
            long = {one.policy: one for one in summarise(compare(queue, cluster, policies, slowdown))}
            for one in short:
                other = long[one.policy]
                assert one.run_gain is not None
                assert other.run_gain is not None
                if one.policy != "slot" and (one.policy in PACKED_BY or protocol == "types"):
                    rows.append(
                        (
                            f"{pairs.gpu.upper()}, {protocol}: {one.policy}"
                            if one.policy in PACKED_BY
                            else f"{pairs.gpu.upper()}: {one.policy}",
                            with_interval(one.run_gain, 100),
                            f"{100 * one.run_gain.sd:.1f}",
                            f"{100 * (1 - one.figures['jct'].mean / short[0].figures['jct'].mean):+.1f}",
                            with_interval(other.run_gain, 100),
                            f"{100 * other.run_gain.sd:.1f}",
                            f"{100 * (1 - other.figures['jct'].mean / long['slot'].figures['jct'].mean):+.1f}",
                        )
                    )
    header = (
        "left out: policy",
        f"{StreamShape().jobs} jobs: makespan",
        "sd",
        "mean JCT",
        f"{LONG} jobs: makespan",
        "sd",
        "mean JCT",
    )
    return [
        f"Gain over slot-packing, per cent, on {GPUS} GPUs; all jobs arrive at once, {RUNS} streams of {StreamShape().jobs} "
        f"and {LONG_RUNS} of {LONG}:",
        "",
        *markdown_table(header, rows),
    ]


def _unordered(pairs: GavelPairs) -> int:
    return len({frozenset(names) for names in zip(pairs.views["job"], pairs.views["other"], strict=True)})


if __name__ == "__main__":
    main()
