"""Protocol ``gpu``: every GPU is predicted by a model of operators that never saw it.

For each GPU the operator model is fitted to the operators of all the others, and answers for its operators and for whole models
measured on it; then again with a probe of a few of its own operators, several draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.fitted_model import row_of
from epochcast.analyzer.backends.distributed.models.graph import Operator
from epochcast.analyzer.backends.distributed.operator_time.shapes import places_by, shapes_of
from epochcast.analyzer.backends.distributed.plan.job import precision_named
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Catalog
from epochcast.regressor import InputError as RegressorInputError
from epochcast.regressor.scoring import absolute_percentage_errors, score
from lab.distributed.fitting import fit_operators
from lab.distributed.operator_roofline import Roofline
from lab.distributed.probe import ProbedTimes, choose_probe, correct

_FP32 = precision_named("fp32")

DRAWS = 10
"""Probes per GPU, seeds 0 to 9."""

_COLUMNS = ("model_name", "seqlen", "batch", "device", "mode", "option", "label_all_e2e_latency", "neusight_all_e2e_latency")


@dataclass(frozen=True)
class EndToEnd:
    """Whole models measured end to end, as NeuSight's file has them.

    Attributes:
        rows: columns gpu (catalogue), model, batch, sequence_length, mode (training or inference), seconds, neusight (what it
            predicts).
        left_out: reason -> rows that cannot be predicted.
    """

    rows: pd.DataFrame
    left_out: dict[str, int]


@dataclass(frozen=True)
class GpuEvaluation:
    """What :func:`evaluate_by_gpu` found; errors are |predicted / measured - 1| in percent.

    Attributes:
        operators: one row per GPU and family: gpu, family, n, zero_mape, zero_median, probe_mape, probe_sd (over draws); only
            of GPUs with operators in the corpus, as measured, each with the host's dispatch.
        end_to_end: one row per measured model: gpu, model, batch, sequence_length, mode, seconds, and the predicted seconds
            ``zero`` (GPU left out), ``roofline`` and ``neusight``; ``probe_0`` … those with each probe (NaN where the corpus
            has no operators of that GPU to probe).
        left_out: reason -> rows of the file that were not predicted.
        probe: operators of each probe; 0: none.
        draws: probes per GPU.
    """

    operators: pd.DataFrame
    end_to_end: pd.DataFrame
    left_out: dict[str, int]
    probe: int
    draws: int

    def summary(self) -> dict[str, object]:
        """Figures by the keys of every evaluation: of the end-to-end rows, with the probe if one was requested."""
        table = self.end_to_end
        method = "probe" if self.probe else "zero"
        best = self._figures(table, method)
        columns = self._columns(method)
        answered = table.dropna(subset=columns)
        scores = score(np.tile(answered["seconds"], len(columns)), answered[columns].to_numpy(dtype=float).T.ravel())
        total = len(table) + sum(self.left_out.values())
        return {
            **best,
            "rmse": scores.rmse,
            "r2": scores.r2,
            "coverage": best["n"] / total if total else float("nan"),
            "inside": inside(table["seconds"].to_numpy(), table["zero"].to_numpy(), 32, "new"),
            "by": {
                f"{gpu} {mode}": self._by_method(table[(table["gpu"] == gpu) & (table["mode"] == mode)])
                for gpu, mode in places_by(table, "gpu", "mode")
            },
            "methods": self._by_method(table),
            "left_out": self.left_out,
            "operators": self.operators.to_dict("records"),
        }

    def _by_method(self, rows: pd.DataFrame) -> dict[str, dict[str, float]]:
        methods = ("zero", *(("probe",) if self.probe else ()), "roofline", "neusight")
        return {method: self._figures(rows, method) for method in methods}

    def _columns(self, method: str) -> list[str]:
        return [f"probe_{draw}" for draw in range(self.draws)] if method == "probe" else [method]

    def _figures(self, rows: pd.DataFrame, method: str) -> dict[str, float]:
        """``n``, ``mape`` and ``median_ape``; with a probe their means over the draws, and ``sd`` of the first over them."""
        columns = self._columns(method)
        answered = rows.dropna(subset=columns)
        if answered.empty:
            return {"n": 0, "mape": float("nan"), "median_ape": float("nan")}
        errors = np.array([_errors(answered["seconds"], answered[name]) for name in columns])
        mapes = errors.mean(axis=1)
        figures = {"n": len(answered), "mape": float(mapes.mean()), "median_ape": float(np.median(errors, axis=1).mean())}
        return {**figures, "sd": float(mapes.std(ddof=1))} if len(columns) > 1 else figures


def read_end_to_end(path: Path, catalog: Catalog, models: Sequence[str]) -> EndToEnd:
    """Read ``neusight_end_to_end.csv``; ms become seconds.

    Left out and counted: GPUs that the catalogue does not have (AMD's), several GPUs or fused operators (column ``option``),
    and models that are not in ``models``.

    Raises:
        InputError: the file cannot be read or has other columns.
    """
    try:
        raw = pd.read_csv(path, dtype={"option": str})  # a column without any entry would be one of numbers
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"cannot read {path.name}: {' '.join(str(error).split())[:200]}; give a CSV file") from error
    if missing := [name for name in _COLUMNS if name not in raw]:
        raise InputError(f"{path.name} lacks the column {missing[0]}; it must have the format of neusight_end_to_end.csv")
    gpu = raw["device"].map({device: _gpu_name(str(device), catalog) for device in raw["device"].unique()})
    reasons = {
        "GPU not in the catalogue": gpu.isna(),
        "several GPUs": raw["option"].str.match(r"(dp|tp|pp)", na=False),
        "fused operators": raw["option"].notna(),
        "model not built in": ~raw["model_name"].isin(list(models)),
    }
    open_rows, left_out = pd.Series(True, index=raw.index), {}
    for reason, of in reasons.items():
        left_out[reason] = int((open_rows & of).sum())
        open_rows &= ~of
    kept = raw[open_rows]
    rows = pd.DataFrame(
        {
            "gpu": gpu[open_rows],
            "model": kept["model_name"],
            "batch": kept["batch"].astype(int),
            "sequence_length": kept["seqlen"].astype(int),
            "mode": np.where(kept["mode"] == "train", "training", "inference"),
            "seconds": kept["label_all_e2e_latency"].astype(float) * 1e-3,
            "neusight": kept["neusight_all_e2e_latency"].astype(float) * 1e-3,
        }
    )
    if not (rows["seconds"] > 0).all():
        raise InputError(f"{path.name} has a measured latency that is not above 0; remove that row")
    return EndToEnd(rows.reset_index(drop=True), {reason: count for reason, count in left_out.items() if count})


def evaluate_by_gpu(
    corpus: pd.DataFrame,
    measured: EndToEnd,
    operators_of: Callable[[str, int, int, bool], Sequence[Operator]],
    catalog: Catalog,
    probe: int = 0,
    draws: int = DRAWS,
) -> GpuEvaluation:
    """Leave each GPU out of the corpus and predict it.

    Args:
        corpus: measured operators.
        measured: models measured end to end; of those on GPUs without operators only the prediction without a probe is known.
        operators_of: what runs for (model, batch, sequence length, training).
        catalog: of GPUs.
        probe: operators per probe; 0 for none.
        draws: how many probes.

    Raises:
        InputError: too few operators are left when a GPU is left out.
    """
    operators, predictions = [], []
    for gpu in dict.fromkeys([*measured.rows["gpu"], *corpus["gpu"]]):
        own = corpus[corpus["gpu"] == gpu]
        zero = ProbedTimes(catalog[gpu], fit_operators(corpus[corpus["gpu"] != gpu], catalog))
        probes = [choose_probe(own, probe, seed) for seed in range(draws)] if probe and len(own) else []
        sharpened = [correct(zero, rows) for rows in probes]
        if len(own):
            operators.append(_by_family(gpu, own, zero, probes, sharpened))
        for row in measured.rows[measured.rows["gpu"] == gpu].to_dict("records"):
            run = operators_of(str(row["model"]), int(row["batch"]), int(row["sequence_length"]), row["mode"] == "training")
            shapes = shapes_of([operator for operator in run if operator.kind != "communication"], _FP32)
            seconds = {"zero": zero.seconds_of(shapes).sum(), "roofline": Roofline(catalog[gpu], _FP32).seconds(run).sum()}
            for draw in range(draws if probe else 0):
                seconds[f"probe_{draw}"] = sharpened[draw].seconds_of(shapes).sum() if sharpened else np.nan
            predictions.append({**row, **seconds})
    return GpuEvaluation(
        pd.concat(operators, ignore_index=True) if operators else pd.DataFrame(),
        pd.DataFrame(predictions),
        measured.left_out,
        probe,
        draws,
    )


def _by_family(
    gpu: str, own: pd.DataFrame, zero: ProbedTimes, probes: Sequence[pd.DataFrame], sharpened: Sequence[ProbedTimes]
) -> pd.DataFrame:
    """Errors of single operators; a probe's own operators do not count for it."""
    plain = _errors(own["seconds"], zero.measured_seconds_of(own))
    table = pd.DataFrame({"family": own["family"].to_numpy(), "error": plain}, index=own.index)
    grouped = table.groupby("family")["error"]
    answer = pd.DataFrame({"n": grouped.size(), "zero_mape": grouped.mean(), "zero_median": grouped.median()})
    drawn = []
    for rows, times in zip(probes, sharpened, strict=True):
        rest = own.drop(index=rows.index)
        errors = pd.Series(_errors(rest["seconds"], times.measured_seconds_of(rest)), index=rest.index)
        drawn.append(errors.groupby(rest["family"]).mean())
    if drawn:
        by_draw = pd.concat(drawn, axis=1)
        answer = answer.assign(probe_mape=by_draw.mean(axis=1), probe_sd=by_draw.std(axis=1))
    return answer.reset_index().assign(gpu=gpu)


def _errors(seconds: pd.Series, predicted: pd.Series | NDArray[np.float64]) -> NDArray[np.float64]:
    return absolute_percentage_errors(seconds.to_numpy(dtype=float), np.asarray(predicted, dtype=float))


def inside(
    measured: NDArray[np.float64],
    predicted: NDArray[np.float64],
    bits: int,
    gpu: Literal["measured", "new"],
) -> float:
    """Share of iterations of products, seconds of shape (n,) each, within the interval of their row; NaN without any."""
    known = np.isfinite(predicted)
    errors = np.abs(np.log(measured[known] / predicted[known]))
    return float((errors <= math.log(row_of("products", bits, gpu).factor)).mean()) if known.any() else math.nan


def _gpu_name(device: str, catalog: Catalog) -> str | None:
    try:
        return catalog.resolve(device).name
    except RegressorInputError:
        return None
