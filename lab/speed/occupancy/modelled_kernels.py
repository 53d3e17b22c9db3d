"""Modelled kernels held against recorded ones; part `modelled` of docs/occupancy.md.

The launch configurations of the model come from the public traces, and so do the workloads here: there are no others. The
column "without its trace" has configurations from the other traces alone. What the model then still knows of a workload is
its graph. Nothing was fitted to occupancies. The recorded kernel lists were looked at when the rules were written (which
kernels an operator launches, how a grid follows from sizes, that persistent kernels balance their waves).

Run: python -m lab.speed.occupancy.modelled_kernels [--write]
"""

from collections.abc import Iterator
from statistics import fmean

from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.backends.occupancy.graph_of import graph_of
from epochcast.analyzer.backends.occupancy.launch.gpu_limits import limits_of
from epochcast.analyzer.backends.occupancy.modelled_kernels.kernels_of import occupancy_of
from epochcast.analyzer.backends.occupancy.modelled_kernels.launch_configurations import launch_configurations
from epochcast.regressor import load_catalog
from lab.speed.occupancy.launch_configurations import launches, table_text
from lab.speed.occupancy.recorded_workloads import WORKLOADS, Workload
from lab.speed.page import OCCUPANCY, markdown_table, options, publish

SWEPT = {
    "resnet50": NetworkConfiguration("resnet50", 1, channels=3, image_size=224),
    "vit_small_patch16_224": NetworkConfiguration("vit_small_patch16_224", 1, channels=3, image_size=224),
    "bert": NetworkConfiguration("bert", 1, sequence=128),
    "lstm": NetworkConfiguration("lstm", 1, sequence=64, hidden=256, layers=1),
}
GPU = "H200 SXM"
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def lines() -> Iterator[str]:
    """Both tables."""
    yield from against_recorded()
    yield ""
    yield from by_batch()


def against_recorded() -> Iterator[str]:
    """One row per recorded workload."""
    rows, errors = [], []
    for name, workload in WORKLOADS.items():
        graph, summary = workload.graph(), workload.recorded()
        step = occupancy_of(graph, workload.gpu, workload.precision)
        means = (summary.grid.mean, step.mean, without_its_trace(workload, graph))
        errors.append([abs(mean / summary.grid.mean - 1) for mean in means[1:]])
        rows.append(
            (
                name,
                f"{summary.launches:.0f} / {step.kernels}",
                *(f"{100 * mean:.1f}" for mean in means),
                f"{100 * summary.grid.time_mean:.1f} / {100 * step.time_mean:.1f}",
                f"{1e3 * summary.seconds:.2f} / {1e3 * step.step_s * step.nvml_utilisation:.2f}",
            )
        )
    header = ("workload", "launches", "mean %", "modelled", "without its trace", "time mean %", "GPU ms")
    yield from markdown_table(header, rows)
    yield ""
    error, error_without = (100 * fmean(own) for own in zip(*errors, strict=True))
    yield (
        f"Two figures are recorded / modelled. Mean relative error of the mean over {len(rows)} workloads: {error:.1f} %, "
        f"without the workload's own trace {error_without:.1f} %."
    )


def without_its_trace(workload: Workload, graph: ComputationGraph) -> float:
    """The mean occupancy by launch configurations of all other traces."""
    rows, gpu, limits = launches(), workload.gpu, limits_of(workload.gpu)
    own = rows["workload"].str.contains(workload.trace, regex=False)
    if workload.trace == "alexnet":  # the file next to it holds the same kernels
        own |= rows["workload"].str.contains("simple_add", regex=False)
    return occupancy_of(graph, gpu, workload.precision, launch_configurations(limits, table_text(rows[~own]))).mean


def by_batch() -> Iterator[str]:
    """Mean occupancy and NVML utilisation of four networks by batch (Fig. 6 of the paper)."""
    gpu, rows = load_catalog().resolve(GPU), []
    for name, configuration in SWEPT.items():
        graph = graph_of(configuration)
        steps = [occupancy_of(graph.at_batch(batch), gpu, "fp32") for batch in BATCHES]
        rows.append((name, *(f"{100 * step.mean:.0f} ({100 * step.nvml_utilisation:.0f})" for step in steps)))
    yield f"By batch on an {GPU}, fp32: modelled mean occupancy %, in brackets modelled NVML utilisation %:"
    yield ""
    yield from markdown_table(("network", *map(str, BATCHES)), rows)


if __name__ == "__main__":
    publish(OCCUPANCY, "modelled", lines(), write=options(__doc__).parse_args().write)
