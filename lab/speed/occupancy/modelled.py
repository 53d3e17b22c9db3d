"""Modelled launches against counters: how wide the ranges of what was not measured must be; part `modelled` of the page.

Counters are DCGM's of trainings of random networks on an A100, and GPM's of known networks on an H200 (``data/h200``):
inference in FP32, and trainings in FP32, TF32 and mixed precision (their steps, without setup). Left out are a training that
waits for its loader, two that share the GPU, and networks that no library has.
MLPs have a range of their own; the other three kinds share one, each with the same weight. That of the others alone is tried on
each.

Run: python -m lab.speed.occupancy.modelled [--write]
"""

import json
from collections.abc import Iterator

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.occupancy.modelled import model_sm_use
from epochcast.analyzer.backends.occupancy.networks import NetworkConfiguration, Sample, graph_of
from epochcast.analyzer.backends.occupancy.peak_memory import base_memory, estimate
from epochcast.regressor import load_catalog
from lab.occupancy.training_jobs import read_training_jobs
from lab.speed.occupancy.measured import TABLES, jobs_of
from lab.speed.page import OCCUPANCY, ROOT, markdown_table, options, public, publish

SHARE = 0.9
H200 = ROOT / "data" / "h200"
GPU = load_catalog().resolve("H200 SXM")
FP32 = {"fp32": "fp32", "tf32": "fp32", "amp-bf16": "bf16", "amp-fp16": "fp16"}
"""How a recorded training computes -> what is asked."""
LEFT_OUT = ("gpt", "lstm")
"""Networks of the recording script that no library has."""
SETTLE = 0.15  # s, more than a counter's 0.1 s: the reading after the start of a phase still holds what was before


def inference() -> Iterator[tuple[NetworkConfiguration, float, float]]:
    """Configurations with SM occupancy and activity as GPM counted them."""
    for row in (
        pd.read_csv(H200 / "occupancy_bench" / "occupancy.csv")
        .query("status == 'ok' and family != 'multimodal'")
        .to_dict("records")
    ):
        sizes = [row[name] for name in ("model", "batch", "image", "seq")]  # channels vary, which only a first layer sees
        yield NetworkConfiguration(*sizes), row["gpm_sm_occupancy"] / 100, row["gpm_sm_util"] / 100


def trainings() -> Iterator[tuple[NetworkConfiguration, float, float, float]]:
    """Configurations with SM occupancy, activity and torch's peak of memory in MiB, NaN where it was not read."""
    for row in pd.read_csv(H200 / "benchmark" / "occupancy.csv").to_dict("records"):
        configuration = NetworkConfiguration(row["network"], row["batch"], row["image_size"])
        yield configuration, row["sm_occupancy"], row["sm_active"], np.nan
    readings = pd.read_csv(H200 / "record_epochs" / "telemetry.csv.gz")
    for run in json.loads((H200 / "record_epochs" / "runs.json").read_text())["runs"]:
        spec = run["spec"]
        alone = not spec["name"].startswith("pair") and spec["data"] != "loader" and spec["model"] not in LEFT_OUT
        if run["status"] != "ok" or spec["kind"] not in ("train", "overhead") or not alone:
            continue
        phases = [phase for phase in run["phases"] if phase["kind"] not in ("setup", "warmup", "val", "checkpoint")]
        own = np.any([readings["time"].between(each["start"] + SETTLE, each["end"]) for each in phases], axis=0)
        network = {"vit_tiny": "vit_tiny_patch16_224"}.get(spec["model"], spec["model"])
        configuration = NetworkConfiguration(network, spec["batch"], spec["size"], precision=FP32[spec["precision"]])
        yield configuration, readings["SMOCC"][own].mean(), readings["SMACT"][own].mean(), run["peak_mib"]


def counted() -> pd.DataFrame:
    """``kind``, ``network``, ``precision``, and of each label the counter over what is modelled."""
    rows = []
    for kind, configurations in (("H200, inference", inference()), ("H200, training", trainings())):
        for configuration, *counters in configurations:
            use = model_sm_use(graph_of(configuration), GPU, configuration.precision)
            rows.append(
                (kind, configuration.network, configuration.precision, counters[0] / use.occupancy, counters[1] / use.active)
            )
    for table in TABLES:
        jobs = jobs_of(table)
        for sample, occupancy, active in zip(jobs.samples, jobs.points["sm_occupancy"], jobs.points["sm_active"], strict=True):
            use = model_sm_use(sample.graph, sample.gpu, "fp32")
            rows.append((f"A100, training {table}s", "random", "fp32", occupancy / use.occupancy, active / use.active))
    return pd.DataFrame(rows, columns=["kind", "network", "precision", "sm_occupancy", "sm_active"])


def factor(rows: pd.DataFrame, label: str) -> float:
    """That nine of ten counters are within, up or down, each kind with the same weight."""
    off = np.abs(np.log(rows[label])).sort_values()
    weights = (1 / rows.groupby("kind")[label].transform("size"))[off.index].cumsum()
    return float(np.exp(off[weights >= SHARE * weights.iloc[-1]].iloc[0]))


def lines() -> Iterator[str]:
    """Ranges by kind, and memory."""
    rows = counted()
    mlps = rows["kind"] == "A100, training MLPs"
    parts = {str(kind): rows["kind"] == kind for kind in rows["kind"].unique()}
    parts["H200, transformers"] = rows["network"].str.contains("vit|swin|bert")
    parts["H200, 16 bits"] = rows["precision"] != "fp32"
    table = []
    for name, own in parts.items():
        cells = [name, str(own.sum())]
        for label in ("sm_occupancy", "sm_active"):
            others = factor(rows[~own & ~mlps], label)
            inside = 100 * (np.abs(np.log(rows[label][own])) <= np.log(others)).mean()
            low, middle, high = rows[label][own].quantile([0.05, 0.5, 0.95])
            cells += [f"{middle:.2f} ({low:.2f} to {high:.2f})", f"x {others:.2f}: {inside:.0f} %"]
        table.append(cells)
    columns = [cell for name in ("SMOCC", "SMACT") for cell in (f"{name} / modelled (5 to 95 %)", "range of others: inside")]
    yield from markdown_table(("kind", "n", *columns), table)
    yield ""
    for name, own in (("MLPs", mlps), ("All others", ~mlps)):
        ranges = (f"{label} x {factor(rows[own], label):.2f}" for label in ("sm_occupancy", "sm_active"))
        yield f"{name}, nine of ten within: {', '.join(ranges)}."
    yield ""
    yield from memory()


def memory() -> Iterator[str]:
    """Nine of ten measured peaks over the estimate from shapes, and mixed trainings over FP32's estimate."""
    said = []
    for name, table in TABLES.items():
        jobs = read_training_jobs([public(f"occupancy/{table}.csv.gz")], load_catalog()).labelled("peak_memory")
        off = np.abs(np.log(jobs.points["peak_memory"].to_numpy() / [estimate(sample).peak for sample in jobs.samples]))
        said.append(f"{name}s x {np.exp(np.quantile(off, SHARE)):.2f} (n = {len(off)})")
    yield f"Peak memory from shapes, nine of ten measured on the A100 within: {', '.join(said)}."
    shares = []
    for configuration, _, _, peak in trainings():
        if configuration.precision != "fp32":
            sample = Sample(configuration, graph_of(configuration).in_training(), GPU)
            weights = 8 * sample.graph.column("weights").sum() if "vit" not in configuration.network else 0  # SGD, not Adam
            live = estimate(sample).live - base_memory(sample) - weights
            shares.append(f"{configuration.network} {peak * 2**20 / live:.2f}")
    yield f"Mixed trainings on the H200, torch's peak over FP32's from shapes: {', '.join(shares)}."


if __name__ == "__main__":
    publish(OCCUPANCY, "modelled", lines(), write=options(__doc__).parse_args().write)
