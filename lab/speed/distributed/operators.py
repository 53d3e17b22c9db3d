"""Operators and whole models on GPUs that the operator model never saw, next to NeuSight's published predictions.

Run: python -m lab.speed.distributed.operators [--write]    (needs torch)
"""

from collections.abc import Iterator
from typing import Any

from epochcast.regressor import load_catalog
from lab.distributed.public_operators import read_operators
from lab.evaluate.distributed_operators import GpuEvaluation, evaluate_by_gpu, read_end_to_end
from lab.evaluate.neusight_workloads import NAMES, operators_of
from lab.speed.page import DISTRIBUTED, markdown_table, options, public, publish

METHODS = {"zero": "ours, GPU left out", "probe": "ours, with a probe", "roofline": "roofline", "neusight": "NeuSight"}
PROBE = 20


def lines() -> Iterator[str]:
    """Errors of single operators, then of whole models, all methods on the same rows."""
    catalog = load_catalog()
    measured = read_end_to_end(public("distributed/neusight_end_to_end.csv"), catalog, NAMES)
    answer = evaluate_by_gpu(read_operators(catalog), measured, operators_of, catalog, PROBE)
    yield from single_operators(answer)
    yield ""
    summary: dict[str, Any] = answer.summary()
    rows = []
    for name, by in (*summary["by"].items(), ("all", summary["methods"])):
        cells = [f"{one['mape']:.1f}" + (f" ± {one['sd']:.1f}" if "sd" in one else "") for one in map(by.get, METHODS)]
        rows.append((name, str(by["zero"]["n"]), *cells))
    yield from markdown_table(("GPU", "n", *METHODS.values()), rows)
    medians = ", ".join(f"{title} {summary['methods'][method]['median_ape']:.1f}" for method, title in METHODS.items())
    left_out = "; ".join(f"{count} rows ({reason})" for reason, count in answer.left_out.items())
    yield ""
    yield f"MAPE in percent; medians of all: {medians}. Left out: {left_out}."


def single_operators(answer: GpuEvaluation) -> Iterator[str]:
    """By GPU and family."""
    probed = f"probe of {answer.probe}: MAPE ± sd over {answer.draws} draws"
    rows = []
    for row in answer.operators.to_dict("records"):
        errors = (f"{row['zero_mape']:.1f}", f"{row['zero_median']:.1f}", f"{row['probe_mape']:.1f} ± {row['probe_sd']:.1f}")
        rows.append((row["gpu"], row["family"], str(row["n"]), *errors))
    yield from markdown_table(("GPU", "operators", "n", "GPU left out: MAPE", "median", probed), rows)


if __name__ == "__main__":
    publish(DISTRIBUTED, "OPERATORS", lines(), write=options(__doc__).parse_args().write)
