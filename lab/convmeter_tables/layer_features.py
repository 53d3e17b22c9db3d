"""timm_layer_features.csv.gz: counts of timm's networks for one image, by kind of layer."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, COMPUTING_KINDS, KINDS
from epochcast.analyzer.traces.csv_text import numeric_column, parse_csv, read_text

_SHORT = {
    "spatial": "sp",
    "pointwise": "pw",
    "grouped": "grp",
    "depthwise": "dw",
    "linear": "lin",
    "attention": "att",
    "elementwise": "ew",
    "normalisation": "bn",
    "pooling": "pool",
    "concatenation": "cat",
}
_THEIRS = {
    "flops": "F",
    "conv_inputs": "conv_in",
    "conv_outputs": "conv_out",
    "narrow_flops": "F_smallK",
    "weights": "W",
    "conv_weights": "convW",
    "layers": "L",
    "operators": "ops",
    **{f"{kind}_flops": f"F_{_SHORT[kind]}" for kind in COMPUTING_KINDS},
    **{f"{kind}_traffic": f"IO_{_SHORT[kind]}" for kind in KINDS},
    **{f"{kind}_operators": f"n_{_SHORT[kind]}" for kind in KINDS},
}
"""Our name of each of their columns; a table of networks without a kind may lack its columns."""


def read_layer_features(path: Path) -> pd.DataFrame:
    """Metrics by ``network``, ``block`` (empty: whole networks) and ``image_size``, in the columns of ``metrics.py``."""
    table = parse_csv(read_text(path), str(path))
    keys = pd.DataFrame(
        {
            "network": table["model"].astype(str),
            "block": "",
            "image_size": numeric_column(table["img"], "img", str(path)),
        }
    )
    metrics = metrics_of(table.assign(np=table["nparam"]), path)
    return pd.concat([keys, metrics], axis=1).drop_duplicates(["network", "image_size"])


def metrics_of(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Our metrics of each row of a table in these columns (``np``: tensors of parameters), ``path`` for messages."""
    absent = pd.Series(0.0, table.index)

    def column(name: str) -> pd.Series[float]:
        return numeric_column(table[name], name, str(path)).fillna(0.0) if name in table else absent

    ours = {name: column(theirs) for name, theirs in _THEIRS.items()}
    ours["parameter_tensors"] = column("np")
    # Theirs counts the weights that a dense layer reads as traffic; ours keeps them apart. On one vector a dense layer has two
    # FLOPs per weight; on many (tokens, pixels) all weights but the convolutions' kernels are its own, norms and biases aside.
    once, rest = ours["linear_flops"] / 2, ours["weights"] - ours["conv_weights"]
    ours["linear_weights"] = once.clip(upper=rest.clip(lower=0))
    ours["linear_traffic"] = (ours["linear_traffic"] - ours["linear_weights"]).clip(lower=0)
    # Theirs counts a tensor that every batch norm allocates, and never fills, as an elementwise operator. Networks with dense
    # layers on many vectors normalise by layer, which allocates none.
    allocated = ours["normalisation_operators"].where(once <= rest, 0.0).clip(upper=ours["elementwise_operators"])
    ours["elementwise_operators"] = ours["elementwise_operators"] - allocated
    ours["operators"] = ours["operators"] - allocated
    return pd.DataFrame(ours)[list(COLUMNS)]
