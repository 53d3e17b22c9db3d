"""Which of the counters of a recording show the epochs: the processes' own, those without what is written, the machine's.

    python -m lab.speed.detector.process_counters [--data data/process_training]

The table is in data/README.md.
"""

from collections.abc import Callable
from pathlib import Path

from lab.evaluate.detection import TraceScore, evaluate_trace
from lab.speed.detector.traces import recorded
from lab.speed.page import ROOT, markdown_table, options

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


if __name__ == "__main__":
    parser = options(__doc__, page=False)
    parser.add_argument("--data", type=Path, default=ROOT / "data/process_training", help="folder of labelled traces")
    rows = []
    for each in recorded(parser.parse_args().data):
        shown = [{name: each.metrics[name] for name in filter(choice, each.metrics)} for choice in CHOICES.values()]
        rows.append([each.name, *(verdict(evaluate_trace(each.name, each.time, some, each.labels)) for some in shown)])
    print("\n".join(markdown_table(["run", *CHOICES], rows)))
