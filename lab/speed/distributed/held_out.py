"""How far off predicted iterations are on what was left out: what intervals rest on.

- *products, 32 bits*: NeuSight's measured models (FP32, one GPU). ``new``: operator times without that GPU. ``measured``: with
  it; no iteration is fitted on either way.
- *products, 16 bits*: vTrain's runs and public runs under FSDP. ``measured``: efficiencies are fitted without the model that is
  predicted. ``new``: operators and runs of the GPU are left out; of an H200, of which no run is known, our iterations.
- *convolutions*: torchvision's training steps on three GPUs that nothing was fitted on.
- *operators*: our iterations on a CPU, by their own operators measured one by one.
- *exchanges*: all-reduces within a node. ``measured``: latency and bandwidth fitted without the octave of sizes that is
  predicted; ``new``: the link's data sheet.

An interval is the conformal quantile of the rows of a line. Of GPUs that were not measured it is Student's prediction interval
over the GPUs, whose errors differ: five of them are too few for a quantile.

Run: python -m lab.speed.distributed.held_out [--write]
"""

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from epochcast.analyzer.backends.distributed.fitted_model import TABLE, DistributedModel, HeldOutErrors
from epochcast.analyzer.backends.distributed.models.graph import Graph, Operator
from epochcast.analyzer.backends.distributed.operator_time import OperatorTimes
from epochcast.analyzer.backends.distributed.operator_time.learned import LearnedTimes, OperatorModel
from epochcast.analyzer.backends.distributed.plan.job import precision_named
from epochcast.common.files import write_whole
from epochcast.regressor import Gpu, load_catalog
from epochcast.regressor.scoring import LEVEL, absolute_percentage_errors, conformal_quantile
from lab.distributed.fitting import fit_operators
from lab.distributed.operator_roofline import Roofline
from lab.distributed.public_operators import read_operators
from lab.distributed.runs import MeasuredIteration, public_runs
from lab.evaluate.distributed_operators import read_end_to_end
from lab.evaluate.distributed_protocols import RunEvaluator, by_size
from lab.evaluate.neusight_workloads import NAMES, operators_of
from lab.speed.distributed import all_reduce, cpu_iterations, op_bench_iterations, precision_blindness
from lab.speed.page import DISTRIBUTED, markdown_table, options, public, publish

Floats = NDArray[np.float64]

CATALOG = load_catalog()
OPERATORS = DistributedModel.load().operators


def rows() -> Iterator[tuple[HeldOutErrors, pd.DataFrame]]:
    """Each line of the table, with its rows: measured, predicted and roofline seconds, group."""
    yield from products_in_32_bits()
    yield from products_in_16_bits()
    yield from convolutions()
    yield from own_operators()
    yield from exchanges()


def products_in_32_bits() -> Iterator[tuple[HeldOutErrors, pd.DataFrame]]:
    """NeuSight's measured models."""
    measured = read_end_to_end(public("distributed/neusight_end_to_end.csv"), CATALOG, NAMES).rows
    fp32 = precision_named("fp32")
    operators = [
        [
            operator
            for operator in operators_of(row["model"], row["batch"], row["sequence_length"], row["mode"] == "training")
            if operator.kind != "communication"
        ]
        for row in measured.to_dict("records")
    ]

    def seconds(times_of: Callable[[Gpu], OperatorTimes]) -> Floats:
        each = zip(measured["gpu"], operators, strict=True)
        return np.array([float(times_of(CATALOG[gpu]).seconds(own).sum()) for gpu, own in each])

    table = measured.assign(roofline=seconds(lambda gpu: Roofline(gpu, fp32)))
    without = {gpu: operators_without((gpu,)) for gpu in measured["gpu"].unique()}
    new = table.assign(predicted=seconds(lambda gpu: LearnedTimes(gpu, without[gpu.name], fp32)), group=table["gpu"])
    known = table.assign(predicted=seconds(lambda gpu: LearnedTimes(gpu, OPERATORS, fp32)), group=table["model"])
    what = "measured FP32 passes of transformers on one GPU"
    yield line("products", 32, "new", new, what, "with the GPU left out")
    yield line("products", 32, "measured", known, what, "none of which were fitted on")


@cache
def operators_without(gpus: tuple[str, ...]) -> OperatorModel:
    """Operator times learned from those of all other GPUs."""
    corpus = read_operators(CATALOG)
    return fit_operators(corpus[~corpus["gpu"].isin(gpus)], CATALOG)


def products_in_16_bits() -> Iterator[tuple[HeldOutErrors, pd.DataFrame]]:
    """vTrain's runs, and those under FSDP."""
    runs, evaluator = public_runs(), RunEvaluator(operators=OPERATORS)
    answers = {recipe: by_size(evaluator, runs, recipe) for recipe in ("default", "roofline")}
    table = answers["default"].points.assign(
        seconds=answers["default"].measured,
        predicted=answers["default"].predicted,
        roofline=answers["roofline"].predicted,
        group=lambda points: points["size"],
        fsdp=lambda points: points["zero"] > 0,
    )
    what = "measured 16-bit iterations of language models on 1 to 512 A100 and H100"
    yield line("products", 16, "measured", table, what, "with the model left out")
    new = pd.concat([*(_without(gpus, runs, table) for gpus in _LEFT_OUT), _h200()], ignore_index=True)
    yield line("products", 16, "new", new, "measured 16-bit iterations of language models", "with the GPU left out")


_LEFT_OUT = (("A100 SXM4 80GB", "A100 SXM4 40GB", "A100 PCIe 40GB"), ("H100 SXM5",))


def _without(gpus: tuple[str, ...], runs: Sequence[MeasuredIteration], table: pd.DataFrame) -> pd.DataFrame:
    """Runs of GPUs by the operators and the runs of all others."""
    evaluator = RunEvaluator(operators=operators_without(gpus))
    own = np.array([run.gpu in gpus for run in runs])
    fitted = evaluator.fit([run for run in runs if run.gpu not in gpus])
    predicted = evaluator.predict([run for run in runs if run.gpu in gpus], fitted)
    return table.loc[own, ["seconds", "roofline"]].assign(predicted=predicted, group=gpus[0])


def _h200() -> pd.DataFrame:
    """Our iterations of language models in 16 bits on one H200."""
    gpu = CATALOG["H200 SXM"]
    rows = pd.read_csv(op_bench_iterations.H200 / "op_bench" / "iterations.csv").query("model != 'vgg16'")
    rows = rows[rows["precision"].str.contains("16")]
    answers = [
        op_bench_iterations.answer_to({str(key): cell for key, cell in row.items()}, gpu) for row in rows.to_dict("records")
    ]
    predicted = [answer.seconds - answer.parts.tensor_parallel for answer in answers]
    return pd.DataFrame({"seconds": rows["total_ms"] / 1e3, "predicted": predicted, "roofline": np.nan, "group": gpu.name})


def convolutions() -> Iterator[tuple[HeldOutErrors, pd.DataFrame]]:
    """torchvision's steps on one GPU."""
    steps = pd.read_csv(public("convnets/torchvision_step_times.csv.gz")).query("kind == 'train' and ngpu == 1")
    measured = steps.groupby(["dev", "prec", "model"])["ms"].median() / 1e3
    for precision, word in precision_blindness.PRECISIONS.items():
        bits = int(precision.removeprefix("fp"))
        found: list[dict[str, object]] = []
        for model in precision_blindness.NAMES:
            operators = computing(precision_blindness.graph_of(model, precision))
            for device, name in precision_blindness.GPUS.items():
                gpu = CATALOG[name]
                # torch's setting for convolutions is TF32 where the GPU has it.
                computed = precision_named("tf32" if bits == 32 and gpu.tf32_tensor_flops else precision)
                found.append(
                    {
                        "group": name,
                        "seconds": measured[device, word, model],
                        "predicted": float(LearnedTimes(gpu, OPERATORS, computed).seconds(operators).sum()),
                        "roofline": float(Roofline(gpu, computed).seconds(operators).sum()),
                    }
                )
        what = f"measured FP{bits} steps of ConvNets of 12 images on one GPU"
        yield line("convolutions", bits, "new", pd.DataFrame(found), what, "none of which were fitted on")


def computing(graph: Graph) -> list[Operator]:
    """All operators of a graph but communication."""
    blocks = (graph.before, *graph.blocks, graph.after)
    return [operator for block in blocks for operator in block.operators if operator.kind != "communication"]


def own_operators() -> Iterator[tuple[HeldOutErrors, pd.DataFrame]]:
    """Iterations on a CPU by their operators."""
    table = pd.read_csv(cpu_iterations.ROWS).query("clock == 'wall'")
    table = table.assign(seconds=table["measured_s"], predicted=table["predicted_s"], roofline=np.nan, group=table["model"])
    yield line("operators", 0, "measured", table, "measured iterations on a CPU", "none of which were fitted on")


def exchanges() -> Iterator[tuple[HeldOutErrors, pd.DataFrame]]:
    """All-reduces within a node, all octaves of sizes alike."""
    found: dict[str, list[pd.DataFrame]] = {"latency and bandwidth": [], "data sheet": []}
    for name, gpus, table in all_reduce.tables():
        ways = all_reduce.predicted(name, gpus, table)
        for way, own in found.items():
            own.append(
                pd.DataFrame(
                    {
                        "group": f"{name} {gpus}",
                        "octave": np.floor(np.log2(table.nbytes)),
                        "seconds": table.measured,
                        "predicted": ways[way],
                        "roofline": ways["data sheet"],
                    }
                )
            )
    for gpu, way, left_out in (
        ("measured", "latency and bandwidth", "with an octave of sizes left out"),
        ("new", "data sheet", "none of which were fitted on"),
    ):
        joined = pd.concat(found[way], ignore_index=True)
        each = joined.groupby(["group", "octave"], as_index=False).median()
        yield line("exchanges", 0, gpu, each, "sizes of all-reduces measured in nodes of seven kinds of GPU", left_out)


def line(
    kind: str, bits: int, gpu: str, table: pd.DataFrame, measured: str, left_out: str
) -> tuple[HeldOutErrors, pd.DataFrame]:
    """One line of the table, and its rows."""
    seconds, predicted = table["seconds"].to_numpy(dtype=float), table["predicted"].to_numpy(dtype=float)
    errors = np.log(seconds / predicted)
    of_sheets = absolute_percentage_errors(seconds, table["roofline"].to_numpy(dtype=float))
    roofline = of_sheets.mean() if len(of_sheets) else float("nan")  # a CPU has no data sheet here
    row = HeldOutErrors(
        kind=kind,  # type: ignore[arg-type]
        bits=bits,
        gpu=gpu,  # type: ignore[arg-type]
        n=len(table),
        groups=int(table["group"].nunique()),
        mape=round(float(absolute_percentage_errors(seconds, predicted).mean()), 1),
        roofline=round(float(roofline), 1),
        factor=round(math.exp(half_width(errors, table["group"].to_numpy(dtype=np.str_), gpu == "new")), 3),
        measured=measured,
        left_out=left_out,
    )
    return row, table.assign(error=errors)


def half_width(errors: Floats, groups: NDArray[np.str_], new: bool) -> float:
    """Half-width of the 90 % interval, of logarithms: shape (n,) each; ``new``: of a group that none of these is."""
    if not new:
        return conformal_quantile(errors)
    own = [errors[groups == group] for group in np.unique(groups)]
    middle = np.array([group.mean() for group in own])
    within = np.mean([group.var(ddof=1) for group in own])
    spread = math.sqrt(np.mean(middle**2) * len(own) / (len(own) - 1) * (1 + 1 / len(own)) + within)
    return float(stats.t.ppf((1 + LEVEL) / 2, len(own) - 1) * spread)


def coverage(table: pd.DataFrame, new: bool) -> float:
    """Share of rows inside the interval that the other groups give, percent; NaN with two groups or fewer."""
    groups, errors = table["group"].to_numpy(dtype=np.str_), table["error"].to_numpy(dtype=float)
    if len(np.unique(groups)) < 3:
        return float("nan")
    inside = np.zeros(len(table), dtype=bool)
    for group in np.unique(groups):
        out = groups == group
        inside[out] = np.abs(errors[out]) <= half_width(errors[~out], groups[~out], new)
    return 100 * float(inside.mean())


def lines(found: Sequence[tuple[HeldOutErrors, pd.DataFrame]]) -> Iterator[str]:
    """The table with the coverage of each interval, groups left out in turn."""
    header = ("rows", "GPU", "n", "groups", "MAPE %", "data sheets", "90 % interval", "rows inside, group left out")
    cells = []
    for row, table in found:
        inside = coverage(table, row.gpu == "new")
        bits = f", {row.bits} bits" if row.bits else ""
        cells.append(
            (
                f"{row.kind}{bits}",
                row.gpu,
                str(row.n),
                str(row.groups),
                f"{row.mape:.1f}",
                "-" if math.isnan(row.roofline) else f"{row.roofline:.1f}",
                f"x {row.factor:.2f}",
                "-" if math.isnan(inside) else f"{inside:.0f} %",
            )
        )
    yield from markdown_table(header, cells)
    by_gpu = [(row, table) for row, table in found if (row.kind, row.gpu) == ("products", "measured")]
    yield ""
    for row, table in by_gpu:
        if row.bits == 32:
            errors = table.assign(
                ours=absolute_percentage_errors(table["seconds"].to_numpy(), table["predicted"].to_numpy()),
                sheet=absolute_percentage_errors(table["seconds"].to_numpy(), table["roofline"].to_numpy()),
            )
            each = errors.groupby("gpu")[["ours", "sheet"]].mean()
            by_name = "; ".join(f"{gpu} {ours:.1f} ({sheet:.1f})" for gpu, ours, sheet in each.itertuples())
            yield f"NeuSight's {len(table)} rows with default options, by GPU (by data sheets): {by_name}."
        else:
            for name, own in table.groupby("fsdp"):
                off = absolute_percentage_errors(own["seconds"].to_numpy(), own["predicted"].to_numpy())
                inside = 100 * float((own["error"].abs() <= math.log(row.factor)).mean())
                runs = "runs under FSDP" if name else "vTrain's runs"
                yield f"{len(own)} {runs}: MAPE {off.mean():.1f} %, median {np.median(off):.1f} %, {inside:.0f} % inside."


def save(found: Sequence[tuple[HeldOutErrors, pd.DataFrame]]) -> None:
    """Write the table that answers rest on."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(HeldOutErrors)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row, _ in found)
    write_whole(TABLE, lambda file: file.write(text.getvalue().encode()))


if __name__ == "__main__":
    write = options(__doc__).parse_args().write
    measured_rows = list(rows())
    if write:
        save(measured_rows)
    publish(DISTRIBUTED, "HELD-OUT", lines(measured_rows), write=write)
