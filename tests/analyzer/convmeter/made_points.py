"""Points of made-up networks, whose seconds follow a known rule."""

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, COMPUTING_KINDS, KINDS, TIMES


def made_points(networks: int = 40, families: int = 8, seed: int = 0, devices: int = 1) -> pd.DataFrame:
    """Shape (networks, …): networks that differ in which kinds of layers they have, and in size."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(0.0, index=range(networks), columns=list(COLUMNS))
    for kind in KINDS:
        there = rng.random(networks) < 0.7 if kind not in ("spatial", "elementwise") else np.ones(networks, dtype=bool)
        table[f"{kind}_traffic"] = there * rng.lognormal(14, 1, networks)
        table[f"{kind}_operators"] = there * rng.integers(1, 60, networks)
        if kind in COMPUTING_KINDS:
            table[f"{kind}_flops"] = table[f"{kind}_traffic"] * rng.lognormal(4, 0.5, networks)
    table["flops"] = sum(table[f"{kind}_flops"] for kind in COMPUTING_KINDS)
    convolutions = table[[f"{kind}_traffic" for kind in ("spatial", "pointwise", "grouped", "depthwise")]].sum(axis=1)
    share = rng.uniform(0.3, 0.7, networks)
    table["conv_inputs"], table["conv_outputs"] = share * convolutions, (1 - share) * convolutions
    table["weights"] = rng.lognormal(16, 1, networks)
    table["conv_weights"] = 0.9 * table["weights"]
    table["operators"] = table[[f"{kind}_operators" for kind in KINDS]].sum(axis=1)
    table["layers"], table["parameter_tensors"] = rng.integers(8, 200, networks), rng.integers(16, 400, networks)
    table = table.astype(float)
    return table.assign(
        device="made",
        precision="fp32",
        network=[f"net{number}" for number in range(networks)],
        block="",
        family=[f"family{number % families}" for number in range(networks)],
        image_size=224.0,
        batch=rng.choice([1.0, 8.0, 64.0], networks),
        devices=float(devices),
        nodes=1.0,
        **dict.fromkeys(TIMES, np.nan),
    )
