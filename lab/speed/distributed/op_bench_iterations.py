"""Whole training iterations that ``op_bench.py`` measured on one H200, against `predict-model distributed`.

All on the same rows. ``usual``: as shipped, which saw operators of an H200 and none of its iterations. The trivial ones take
FLOPs over the data sheet's peak times the median efficiency of the other models' rows, of all precisions or of the row's own. A
slice of a model by tensor ranks ran alone, so exchanges do not count.

Run: python -m lab.speed.distributed.op_bench_iterations
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import torch

from epochcast.analyzer.backends.distributed.answer import DistributedAnswer
from epochcast.analyzer.backends.distributed.backend import Distributed
from epochcast.analyzer.backends.distributed.plan.job import peak_flops, precision_named
from epochcast.analyzer.backends.distributed.question import DistributedQuestion
from epochcast.analyzer.plugins import Settings
from epochcast.regressor import Gpu, load_catalog
from lab.campaign import networks
from lab.speed.page import ROOT, markdown_table, options

H200 = ROOT / "data" / "h200"
MODELS = {
    "bert-large": "bert:hidden=1024,layers=24,heads=16,tied=false",
    "llama-8b": "llama:hidden=4096,layers={layers:.0f},heads=32,kv_heads=8,ffn=14336",
    "vgg16": f"{__name__ if __name__ != '__main__' else 'lab.speed.distributed.op_bench_iterations'}:vgg16",
}
"""The script's names -> the same sizes for `--model`; its BERT has no dense layer before the head."""
INSIDE = "usual: inside the interval"


class WithLoss(torch.nn.Module):
    """A classifier that answers its loss."""

    def __init__(self, body: torch.nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """``x`` (batch, …) and ``labels`` (batch,) to a scalar."""
        return torch.nn.functional.cross_entropy(self.body(x), labels)


def vgg16(batch: int = 1) -> tuple[torch.nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """The network with its loss, images and labels, as `--model` takes them."""
    return WithLoss(networks.build("VGG16", 224, 1000)), (torch.empty(batch, 3, 224, 224), torch.zeros(batch, dtype=torch.long))


def answer_to(row: Mapping[str, Any], gpu: Gpu) -> DistributedAnswer:
    """The product's answer for a row."""
    tokens = {} if row["model"] == "vgg16" else {"sequence_length": row["size"]}
    answer = Distributed(Settings()).answer(
        DistributedQuestion(
            model=MODELS[row["model"]].format(**row),
            gpu=[gpu.name],
            tp=row["tp"],
            micro_batch=row["batch"],
            global_batch=row["batch"],
            precision=[row["precision"]],
            optimizer="sgd" if row["optimizer"].startswith("sgd") else "adam",
            recomputation="full" if row["checkpoint"] else "none",
            attention="eager" if row["attention"] == "eager" else "fused",
            master_weights=False,
            **tokens,
        )
    )
    assert isinstance(answer, DistributedAnswer)
    return answer


def predicted(row: Mapping[str, Any], gpu: Gpu) -> dict[str, float]:
    """Seconds by way, and whether the measured ones lie in the interval of the usual one."""
    answer = answer_to(row, gpu)
    seconds = answer.seconds - answer.parts.tensor_parallel
    assert answer.parts_low is not None
    factor = answer.parts.optimizer / answer.parts_low.optimizer
    return {"usual": seconds, INSIDE: float(1 / factor <= row["total_ms"] / 1e3 / seconds <= factor)}


def by_efficiency(rows: pd.DataFrame, gpu: Gpu) -> pd.DataFrame:
    """Seconds by FLOPs alone."""
    precisions = [precision_named(name) for name in rows["precision"]]
    peak = [peak_flops(gpu, one.products) for one in precisions]
    efficiency = rows["flops"] / (rows["total_ms"] / 1e3) / peak
    others = [efficiency[rows["model"] != row.model] for row in rows.itertuples()]
    same = [own[rows["precision"] == row.precision] for own, row in zip(others, rows.itertuples(), strict=True)]
    ways = {"one efficiency": others, "one by precision": same}
    return pd.DataFrame({way: rows["flops"] / peak / [own.median() for own in known] for way, known in ways.items()})


def lines() -> Iterator[str]:
    """Errors by precision and by model, then every row."""
    gpu = load_catalog()["H200 SXM"]
    rows = pd.read_csv(H200 / "op_bench" / "iterations.csv")
    rows = rows[(rows["status"] == "ok") & (rows["pp"] == 1) & rows["model"].isin(list(MODELS))].reset_index(drop=True)
    seconds = pd.DataFrame(
        [predicted(dict(zip(rows.columns, row, strict=True)), gpu) for row in rows.to_numpy(dtype=object).tolist()]
    )
    inside = seconds.pop(INSIDE)
    seconds = seconds.join(by_efficiency(rows, gpu))
    errors = 100 * (seconds.div(rows["total_ms"] / 1e3, axis=0) - 1)
    yield f"{gpu.name}: MAPE / median / worst in percent"
    yield ""
    table = []
    groups = [("all", rows), *rows.groupby("precision", sort=False), *rows.groupby("model", sort=False)]
    for name, own in groups:
        off = errors.loc[own.index].abs()
        figures = (f"{off[way].mean():.1f} / {off[way].median():.1f} / {off[way].max():.1f}" for way in errors)
        table.append((str(name), str(len(off)), *figures, f"{inside[off.index].sum():.0f}"))
    yield from markdown_table(("rows", "n", *errors, "inside 90 %"), table)
    yield ""
    yield "Each row: measured ms, then predicted over measured minus 1 in percent"
    yield ""
    each = [
        (f"{row.model} {row.precision}", f"{row.total_ms:.1f}", *(f"{error:+.0f}" for error in own))
        for row, own in zip(rows.itertuples(), errors.to_numpy(), strict=True)
    ]
    yield from markdown_table(("row", "measured", *errors), each)


if __name__ == "__main__":
    options(__doc__, page=False).parse_args()
    print(*lines(), sep="\n")
