"""Which of the counters of a recording show the epochs: the processes' own, those without what is written, the machine's.

Run: python -m benchmarks.detector.process_counters [--data data/process_training]
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from epochcast.analyzer.traces.labels import labelled_traces
from epochcast.detector.evaluation import TraceScore, evaluate_trace

WRITTEN = ("process_write", "process_disk_write")  # a print or a checkpoint per epoch shows here
CHOICES: dict[str, Callable[[str], bool]] = {
    "processes": lambda name: True,
    "processes, without writes": lambda name: name not in WRITTEN,
    "the machine": lambda name: not name.startswith("process_"),
}


def verdict(score: TraceScore) -> str:
    """What the answer is worth, with its confidence."""
    if score.error is None:
        return f"none ({score.confidence:.2f})"
    return f"{'right' if score.right else 'wrong'} ({score.confidence:.2f}, {score.error:.1f} %)"


def main() -> None:
    """Score and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data/process_training"), help="folder of labelled traces")
    data = parser.parse_args().data
    print(f"| run | {' | '.join(CHOICES)} |\n|---|{'---|' * len(CHOICES)}")
    for name, trace, labels in labelled_traces(data):
        metrics = trace.metrics()
        cells = []
        for choose in CHOICES.values():
            chosen = {metric: values for metric, values in metrics.items() if choose(metric)}
            cells.append(verdict(evaluate_trace(name, trace.time, chosen, labels)))
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
