"""What errors of predicted occupancy cost packing: gains over slot-packing where predictions are off by 0 to 50 % on average.

Run: python -m benchmarks.occupancy.packing_error [--configurations CSV] [--gpu NAME] [--write]
    (fills docs/occupancy.md, part packing_error)
"""

import argparse
from collections.abc import Sequence

import numpy as np

from epochcast.analyzer.backends.occupancy.packing.experiment import Cluster, Mean, chosen, compare, streams, summarise
from epochcast.analyzer.backends.occupancy.packing.job_stream import StreamShape
from epochcast.analyzer.figures.packing import gain_figure

from .packing_parts import GPUS, PAGE, RUNS, SEED, curves, markdown_table, with_interval, workload, write_part

ERRORS = (0.0, 0.1, 0.2, 0.5)
POLICIES = ("occu", "interference")


def main() -> None:
    """Print the part; --write puts it and its picture into docs/occupancy.md."""
    write_part("packing_error", __doc__, part)


def part(options: argparse.Namespace) -> Sequence[str]:
    """Markdown of the part."""
    work = workload(options.configurations, options.gpu)
    cluster = Cluster(GPUS, work.memory)
    gains: dict[tuple[str, str], list[Mean]] = {}
    slowed: dict[tuple[str, str], list[Mean]] = {}
    for error in ERRORS:
        found = summarise(compare(streams(work.kinds, StreamShape(), RUNS, SEED, error), cluster, chosen(POLICIES), curves()))
        for one in found:
            if one.policy in POLICIES and one.run_gain is not None:
                gains.setdefault((one.slowdown, one.policy), []).append(one.run_gain)
                slowed.setdefault((one.slowdown, one.policy), []).append(one.figures["run_slowdown"])
    lines = [
        f"Gain in makespan over slot-packing run by run, per cent, and how many times as long a job runs as alone; {RUNS} "
        f"streams as above ({work.told}), by the mean relative error of predicted occupancy:",
        "",
        *markdown_table(
            ("slowdown: policy", *(f"{100 * error:.0f} %" for error in ERRORS)),
            [
                (
                    f"{curve}: {policy}",
                    *(
                        f"{with_interval(gain, 100)}; x {slow.mean:.2f}"
                        for gain, slow in zip(gains[curve, policy], slowed[curve, policy], strict=True)
                    ),
                )
                for curve, policy in gains
            ],
        ),
    ]
    if options.write:
        drawn = {
            curve: {policy: np.array([(one.mean, one.low, one.high) for one in gains[curve, policy]]) for policy in POLICIES}
            for curve in curves()
        }
        lines += ["", f"![Gain by error of prediction]({PAGE.save_picture(gain_figure(ERRORS, drawn), 'packing_error')})"]
    return lines


if __name__ == "__main__":
    main()
