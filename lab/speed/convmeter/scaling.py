"""Speed-ups from one GPU to 2, 4 and 8 of a machine, by public rates of ConvNets; fits `scaling.HOST_SHARE`; part `scaling`.

Run: python -m lab.speed.convmeter.scaling [--write]

Each training job leaves in turn: its speed-ups are predicted with the share that the others have.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar

from epochcast.analyzer.backends.convmeter import scaling
from epochcast.analyzer.backends.distributed.communication.cluster import cluster_for
from epochcast.regressor import load_catalog
from epochcast.regressor.scoring import conformal_quantile
from lab.speed.page import CONVMETER, markdown_table, options, public, publish

JOBS = {
    "RN50v1.5": (25.6e6, 256),
    "resnet50": (25.6e6, 256),
    "efficientnet-b0": (5.3e6, 256),
    "efficientnet-b4": (19.3e6, 64),
    "efficientnet-widese-b0": (5.3e6, 256),
    "efficientnet-widese-b4": (19.3e6, 64),
    "se-resnext101": (49.0e6, 128),
    "resnext101": (44.2e6, 128),
    "nnUNet": (31e6, 64),
    "UNet_3D": (19e6, 4),
    "MaskRCNN": (44.4e6, 3),
    "UNet_Medical": (31e6, 4),
}
"""Weights, and images per GPU and step where the table does not say (halved in FP32), by a part of the job's name."""

_OUTLIER = 0.05  # errors beyond count linearly, by choice


def speed_ups() -> pd.DataFrame:
    """A row per job, GPU, precision and number of GPUs: measured speed-up, seconds of a step on one, weights."""
    tables = pd.concat([pd.read_csv(public(f"cross_gpu/{name}.csv.gz")) for name in ("rates", "rates_2")])
    tables, rows = tables[tables["source"].isin(["lambda", "nvidia_examples"])].fillna({"release": ""}), []
    for (source, _, job, precision, gpu), own in tables.groupby(["source", "release", "workload", "precision", "gpu"]):
        name = next((name for name in JOBS if name in str(job)), None)
        by = own.groupby("gpus")[["rate", "batch"]].median()
        if name is None or 1 not in by.index:
            continue
        weights, usual = JOBS[name]
        batch = by["batch"][1] if np.isfinite(by["batch"][1]) else usual / (2 if precision == "single" else 1)
        seconds, rates = batch / by["rate"][1], by["rate"].drop(1)
        rows += [(source, job, gpu, precision, gpus, rate / by["rate"][1], seconds, weights) for gpus, rate in rates.items()]
    return pd.DataFrame(rows, columns=["source", "job", "gpu", "precision", "gpus", "measured", "seconds", "weights"])


def predicted(rows: pd.DataFrame, share: float) -> np.ndarray:
    """Speed-ups with a share of the host, shape (n,)."""
    catalog, answer = load_catalog(), []
    scaling.HOST_SHARE = share
    for gpu, gpus, seconds, weights in rows[["gpu", "gpus", "seconds", "weights"]].itertuples(index=False):
        cluster = cluster_for(catalog.resolve(gpu), int(gpus))
        step, _ = scaling.on_several(np.full(3, seconds), scaling.BACKWARD_SHARE * seconds, 4 * weights, cluster, int(gpus))
        answer.append(gpus * seconds / step[0])
    return np.array(answer)


def fitted(rows: pd.DataFrame) -> float:
    """The share with the least error, large ones counted linearly."""

    def loss(share: float) -> float:
        errors = np.log(predicted(rows, share) / rows["measured"].to_numpy()) / _OUTLIER
        return float(np.sum(np.sqrt(1 + errors**2)))

    return float(minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-4}).x)


def lines() -> Iterator[str]:
    """Errors by number of GPUs, next to no share of the host and to perfect scaling."""
    rows = speed_ups()
    own = np.zeros(len(rows))
    for job in rows["job"].unique():
        out = (rows["job"] == job).to_numpy()
        own[out] = predicted(rows[out], fitted(rows[~out]))
    ways = {"with the hosts' share": own, "exchange alone": predicted(rows, 0.0), "perfect scaling": rows["gpus"].to_numpy()}
    yield (
        f"{len(rows)} speed-ups of {rows['job'].nunique()} jobs from one GPU to several of its machine, each job left out; "
        f"MAPE in percent. The share fitted on all is {fitted(rows):.4f}; nine of ten are within x "
        f"{np.exp(conformal_quantile(np.log(own / rows['measured'].to_numpy()))):.2f}, half within "
        f"{np.median(np.abs(100 * (own / rows['measured'] - 1))):.1f} %."
    )
    yield ""
    errors = pd.DataFrame({name: np.abs(100 * (way / rows["measured"] - 1)) for name, way in ways.items()})
    by = errors.groupby(rows["gpus"]).mean()
    table = [(f"{gpus}", str((rows["gpus"] == gpus).sum()), *(f"{one:.1f}" for one in by.loc[gpus])) for gpus in by.index]
    yield from markdown_table(("GPUs", "n", *ways), [*table, ("all", str(len(rows)), *(f"{one:.1f}" for one in errors.mean()))])
    worst = errors.iloc[:, 0].groupby(rows["job"]).mean().sort_values(ascending=False).head(3)
    yield ""
    yield "Farthest off: " + ", ".join(f"{job} ({error:.0f} %)" for job, error in worst.items()) + "."


if __name__ == "__main__":
    publish(CONVMETER, "scaling", lines(), write=options(__doc__).parse_args().write)
