"""Operators and whole models on GPUs that the operator model never saw, beside NeuSight's published predictions.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.distributed.operators [--probe 20] [--write]    (needs torch)
"""

import argparse
from collections.abc import Iterator

from epochcast.analyzer.backends.distributed.operator_time.evaluation import GpuEvaluation, evaluate_by_gpu, read_end_to_end
from epochcast.analyzer.backends.distributed.operator_time.neusight_workloads import NAMES, operators_of
from epochcast.regressor import load_catalog

from ..page import Page
from .fit_operators import DATA, public_operators

METHODS = {"zero": "ours, GPU left out", "probe": "ours, with a probe", "roofline": "roofline", "neusight": "NeuSight"}


def main() -> None:
    """Print the tables, or put them into docs/distributed.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probe", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    catalog = load_catalog()
    measured = read_end_to_end(DATA / "neusight_end_to_end.csv", catalog, NAMES)
    found = evaluate_by_gpu(public_operators(), measured, operators_of, catalog, options.probe)
    lines = [*operator_lines(found), "", *end_to_end_lines(found)]
    print("\n".join(lines))
    if options.write:
        Page("distributed").fill("OPERATORS", lines)


def operator_lines(found: GpuEvaluation) -> Iterator[str]:
    """Errors of single operators by GPU and family."""
    yield f"| GPU | operators | n | GPU left out: MAPE | median | probe of {found.probe}: MAPE ± sd over {found.draws} draws |"
    yield "|---|---|---:|---:|---:|---:|"
    for row in found.operators.to_dict("records"):
        probed = f"{row['probe_mape']:.1f} ± {row['probe_sd']:.1f}" if found.probe else "–"
        yield f"| {row['gpu']} | {row['family']} | {row['n']} | {row['zero_mape']:.1f} | {row['zero_median']:.1f} | {probed} |"


def end_to_end_lines(found: GpuEvaluation) -> Iterator[str]:
    """Errors of whole models by GPU and mode, all methods on the same rows."""
    summary = found.summary()
    methods = [method for method in METHODS if method in summary["methods"]]
    yield "| GPU | n | " + " | ".join(METHODS[method] for method in methods) + " |"
    yield "|---|---:|" + "---:|" * len(methods)
    for name, by in (*summary["by"].items(), ("all", summary["methods"])):
        cells = [
            f"{by[method]['mape']:.1f}" + (f" ± {by[method]['sd']:.1f}" if "sd" in by[method] else "") for method in methods
        ]
        yield f"| {name} | {by['zero']['n']} | " + " | ".join(cells) + " |"
    medians = ", ".join(f"{METHODS[method]} {summary['methods'][method]['median_ape']:.1f}" for method in methods)
    yield ""
    yield f"MAPE in percent; medians of all: {medians}. Left out: {left_out(found)}."


def left_out(found: GpuEvaluation) -> str:
    """Rows of the file that no method here predicts, with the reason."""
    return "; ".join(f"{count} rows ({reason})" for reason, count in found.left_out.items())


if __name__ == "__main__":
    main()
