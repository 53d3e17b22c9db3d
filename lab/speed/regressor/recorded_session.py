"""Runs of a recorded session, predicted for other GPUs: what is said of their precision, and how wide intervals are.

No second GPU was measured, so the seconds there have no truth. The true precision is in ``runs.json``; ``fp32`` is FP32
with TF32 off.

Run: python -m lab.speed.regressor.recorded_session [--data FOLDER]
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from epochcast.analyzer.jobs.job import answer_job
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.jobs.sources import source_of
from epochcast.regressor import LatencyPredictor, load_catalog
from epochcast.regressor.precision import Precision, likely_precisions
from lab.corpus.labelled_traces import labelled_traces
from lab.speed.page import ROOT, markdown_table, options

DATA = ROOT / "data" / "h200" / "record_epochs"
TARGETS = ("H100 SXM5", "A100 SXM4 80GB", "L4")


def truth_of(word: str) -> Precision:
    """The product's word for one of ``runs.json``."""
    return "mixed" if word.startswith("amp") else "fp32" if word == "fp32" else "tf32"


def lines(folder: Path) -> Iterator[str]:
    """A row for each run, then precisions and widths."""
    catalog = load_catalog()
    predictor = LatencyPredictor.load(None, catalog)
    runs = {run["spec"]["name"]: run for run in json.loads((folder / "runs.json").read_text(encoding="utf-8"))["runs"]}
    cells: list[tuple[str, ...]] = []
    verdicts: list[str] = []
    widths: list[tuple[str, float]] = []
    for name, trace, _ in labelled_traces(folder):
        jobs = [runs[part] for part in name.split("+")]
        if jobs[0]["spec"]["kind"] == "idle":
            continue
        source = source_of(trace, name, catalog)
        likely = likely_precisions(source.profile, source.gpu)[0]
        truths = {truth_of(job["precision_used"]) for job in jobs}
        verdict = next(iter(likely)) if len(likely) == 1 else "not known"
        right = "-" if verdict == "not known" else "right" if truths == {verdict} else "wrong"
        verdicts.append(f"{' and '.join(sorted(truths))}: {'not known' if right == '-' else right}")
        answers = answer_job([source], predictor, [], JobQuestion()).predictions
        by_gpu = {answer.gpu: answer for answer in answers}
        widths += [(one.route, one.ratio_high / one.ratio) for one in by_gpu.values() if one.route != "measured"]
        profile = source.profile
        cells.append(
            (
                name,
                ", ".join(job["precision_used"] for job in jobs),
                f"{profile.metrics['tensor_active']['mean']:.3f}, {profile.metrics['fp16_active']['mean']:.3f}",
                f"{verdict}: {right}" if right != "-" else verdict,
                f"{profile.epoch_s:.2f} s a {profile.unit}" if profile.epoch_s else "ratio alone",
                *(f"{one.ratio:.2f} ({one.ratio_low:.2f} to {one.ratio_high:.2f})" for one in map(by_gpu.__getitem__, TARGETS)),
            )
        )
    yield from markdown_table(("run", "precision", "tensor, FP16 pipe", "verdict", "profile", *TARGETS), cells)
    yield ""
    yield "precision " + ", ".join(f"{verdict} {count}" for verdict, count in sorted(Counter(verdicts).items()))
    yield ""
    table = pd.DataFrame(widths, columns=["route", "factor"])
    for route, own in table.groupby("route"):
        least, median, most = own["factor"].quantile([0.0, 0.5, 1.0])
        yield f"{route}: n {len(own)}, upper end over the ratio {median:.2f} in the median, {least:.2f} to {most:.2f}"


if __name__ == "__main__":
    parser = options(__doc__, page=False)
    parser.add_argument("--data", type=Path, metavar="FOLDER", default=DATA)
    print(*lines(parser.parse_args().data), sep="\n")
