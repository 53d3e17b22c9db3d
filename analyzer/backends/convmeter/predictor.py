"""A performance model fitted on measured points: two recipes for each phase, device and precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from epochcast.analyzer.backends.convmeter import SHIPPED
from epochcast.analyzer.backends.convmeter.forms import Default, Form, Paper
from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, PHASES
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.answer import AnswerPart
from epochcast.regressor.model_folder import Manifest, load, save
from epochcast.regressor.scoring import FEWEST_ERRORS, absolute_percentage_errors, conformal_quantile

Array = NDArray[np.float64]

Recipe = Literal["default", "paper"]
RECIPES: Mapping[Recipe, Callable[..., Form]] = {"default": Default, "paper": Paper}
"""How to predict; forms are called with a phase, and with what was fitted before."""

_PARTS = ("forward", "backward", "update")
_SIZES = ("image_size", "batch", "flops", "weights")
_DENSE = "dense_share"
_BEYOND = 1.05  # a range ends where rounding does not matter
_MORE_DENSE = 0.2

# Folds of the errors: whole families leave together, or networks, or points where there are fewer than three of the others.
_FEWEST_GROUPS, _MOST_FOLDS, _MANY_POINTS, _FOLDS_OF_MANY = 3, 8, 300, 5

Known = Annotated[float | None, BeforeValidator(lambda value: value if value is None or math.isfinite(value) else None)]
"""Null if too few networks were measured."""


class Fitted(AnswerPart):
    """What a phase rests on; points of blocks are points too."""

    points: int
    networks: int
    mape: Annotated[Known, Field(description="Per cent, on left-out families; null if too few were measured.")]
    factor: Annotated[Known, Field(description="Factor around the seconds that holds nine of ten measurements.")]
    attention_mape: Annotated[Known, Field(description="The same of networks with attention, where there are enough.")] = None
    attention_factor: Known = None
    ranges: Annotated[dict[str, tuple[float, float]], Field(description="Least and largest that were measured.")]
    source: Annotated[str, Field(description="The table and what it was measured with; empty if unknown.")]

    def by_kind(self, attention: bool) -> Fitted:
        """With the errors of networks with or without attention alone."""
        own = {"mape": self.attention_mape, "factor": self.attention_factor}
        there = own if attention and self.attention_factor else {}
        return self.model_copy(update={**there, "attention_mape": None, "attention_factor": None})


@dataclass(frozen=True)
class Cell:
    """A device at a precision, by a recipe."""

    recipe: Recipe
    device: str
    precision: str
    fits: Mapping[str, Fitted]

    @property
    def largest_batch(self) -> int:
        """That was measured in the phase that throughput is about, images per device."""
        fit = self.fits.get("step") or next(iter(self.fits.values()))
        return int(fit.ranges["batch"][1])


class ConvmeterManifest(Manifest):
    """The content of ``model.json``."""

    SCHEMA = "epochcast.convmeter/v5"
    COMMAND = "epochcast fit convmeter"

    cells: list[Cell]


@dataclass
class ConvNetPredictor:
    """Seconds of the phases of networks that were not measured.

    Attributes:
        cells: what it was fitted for.
        forms: that were fitted, of each cell by phase.
        unfitted: why measured phases could not be fitted, a sentence each; not kept on disk.
    """

    cells: list[Cell]
    forms: list[dict[str, Form]]
    unfitted: list[str] = field(default_factory=list)

    @classmethod
    def fit(
        cls,
        points: pd.DataFrame,
        sources: Mapping[tuple[str, str, str], str] | None = None,
        recipes: Collection[Recipe] = tuple(RECIPES),
    ) -> ConvNetPredictor:
        """Fit every phase that was measured by both recipes, each device and precision apart.

        Where all its phases were measured a step is their sum (Eq. 1): apart they are predicted better.

        Args:
            points: as of :mod:`.metrics`.
            sources: where points come from, by device, precision and phase.
            recipes: to fit.

        Raises:
            InputError: no phase has enough points.
        """
        fitted, reasons = cls([], []), dict[str, None]()
        for (device, precision), own in points.groupby(["device", "precision"], sort=True):
            for recipe in recipes:
                fits, forms = dict[str, Fitted](), dict[str, Form]()
                for phase in PHASES:
                    measured = own[own[f"{phase}_seconds"] > 0].reset_index(drop=True)
                    if measured.empty or (phase == "step" and recipe == "default" and {*_PARTS} <= {*fits}):
                        continue
                    try:
                        forms[phase] = fit_form(recipe, phase, measured)
                    except InputError as error:
                        reasons[f"{device} at {precision}: {error}"] = None
                        continue
                    source = (sources or {}).get((str(device), str(precision), phase), "")
                    fits[phase] = _judged(recipe, phase, measured, source)
                if fits:
                    fitted.cells.append(Cell(recipe, str(device), str(precision), fits))
                    fitted.forms.append(forms)
        fitted.unfitted = list(reasons)
        if not fitted.cells:
            raise InputError(next(iter(reasons), "no point has a measured phase; give a table with seconds"))
        return fitted

    def predict(self, cell: Cell, points: pd.DataFrame) -> dict[str, Array]:
        """Predict each point in every phase that was fitted, and in a step that is their sum.

        Args:
            cell: one of :attr:`cells`.
            points: metrics as of :mod:`.metrics`, with ``batch`` and ``devices``; shape (n, …).

        Returns:
            By phase: seconds and the ends of their 90 % interval (NaN where there is none), shape (3, n).

        Raises:
            InputError: it was not fitted on such numbers of devices.
        """
        columns = {name: points[name].to_numpy(dtype=np.float64) for name in (*COLUMNS, "batch", "devices")}
        attention = columns["attention_flops"] > 0
        alone = columns | {"devices": np.ones(len(points))}
        answer: dict[str, Array] = {}
        for phase, form in self.forms[self.cells.index(cell)].items():
            # Inference and passes take as long next to other devices.
            several = cell.fits[phase].ranges["devices"][1] > 1
            seconds = form.predict(columns if several or phase in ("update", "step") else alone)
            if np.isnan(seconds).any():
                devices = columns["devices"][np.isnan(seconds)][0]
                raise InputError(
                    f"the {phase} on {devices:.0f} x {cell.device} at {cell.precision} cannot be predicted by the recipe "
                    f"{cell.recipe}, which had too few points of one or several devices; leave the recipe out, or measure more"
                )
            usual = cell.fits[phase].factor or math.nan
            factor = np.where(attention, cell.fits[phase].attention_factor or usual, usual)
            answer[phase] = np.stack([seconds, seconds / factor, seconds * factor])
        if "step" not in answer and {*_PARTS} <= {*answer}:
            answer["step"] = np.sum([answer[phase] for phase in _PARTS], axis=0)
        return answer

    def save(self, folder: Path) -> None:
        """Write the model into a folder, completely or not at all.

        Raises:
            InputError: the folder holds something else or cannot be written.
        """
        fitted = {str(number): {phase: form.fitted for phase, form in of.items()} for number, of in enumerate(self.forms)}
        save(folder, ConvmeterManifest, {"cells": self.cells, **fitted})

    @classmethod
    def load(cls, folder: Path = SHIPPED) -> ConvNetPredictor:
        """Read what :meth:`save` wrote, the shipped model unless another is named.

        Raises:
            InputError: a file is missing, damaged, or of another kind.
        """
        manifest, arrays = load(folder, ConvmeterManifest)
        forms = [
            {phase: RECIPES[cell.recipe](phase, arrays[str(number)][phase]) for phase in cell.fits}
            for number, cell in enumerate(manifest.cells)
        ]
        return cls(manifest.cells, forms)


def fit_form(recipe: Recipe, phase: str, points: pd.DataFrame) -> Form:
    """Fit the form of a phase on points that have it; raises InputError for too few."""
    return RECIPES[recipe](phase).fit(points, points[f"{phase}_seconds"].to_numpy(dtype=np.float64))


def left_out(recipe: Recipe, phase: str, points: pd.DataFrame) -> Array:
    """Seconds of each point by a fit that its fold was left out of, shape (n,); NaN where too few were left to fit."""
    groups = np.arange(len(points))
    for name in ("family", "network"):
        if points[name].nunique() >= _FEWEST_GROUPS:
            groups = pd.factorize(points[name])[0]
            break
    sizes = np.bincount(groups)
    folds = min(_FOLDS_OF_MANY if len(points) > _MANY_POINTS else _MOST_FOLDS, len(sizes))
    home, load_of = np.zeros(len(sizes), dtype=int), np.zeros(folds)
    for group in np.argsort(-sizes, kind="stable"):  # folds of about as many points
        home[group] = load_of.argmin()
        load_of[home[group]] += sizes[group]
    answer = np.full(len(points), np.nan)
    for fold in range(folds):
        out = home[groups] == fold
        try:
            answer[out] = fit_form(recipe, phase, points[~out].reset_index(drop=True)).predict(points[out])
        except InputError:
            continue
    return answer


def _judged(recipe: Recipe, phase: str, points: pd.DataFrame, source: str) -> Fitted:
    """How well a form does within the points that it was fitted on."""
    if recipe == "default":
        points = points[points["devices"] == 1]
    seconds = points[f"{phase}_seconds"].to_numpy(dtype=np.float64)
    predicted = left_out(recipe, phase, points)
    errors = np.log(seconds / predicted)
    attention = (points["attention_flops"] > 0).to_numpy() & np.isfinite(errors)
    others = ~attention & np.isfinite(errors)
    if min(attention.sum(), others.sum()) < FEWEST_ERRORS:  # together where one kind has too few
        others, attention = others | attention, np.zeros(len(points), dtype=bool)

    def mape_and_factor(rows: NDArray[np.bool_]) -> tuple[float | None, float | None]:
        mape = float(absolute_percentage_errors(seconds[rows], predicted[rows]).mean()) if rows.any() else None
        enough = rows.sum() >= FEWEST_ERRORS
        return mape, float(np.exp(conformal_quantile(errors[rows]))) if enough else None

    (mape, factor), (attention_mape, attention_factor) = mape_and_factor(others), mape_and_factor(attention)
    sizes = _sizes(points).assign(devices=points["devices"])
    return Fitted(
        points=len(points),
        networks=int(points["network"].nunique()),
        mape=mape,
        factor=factor,
        attention_mape=attention_mape,
        attention_factor=attention_factor,
        ranges={str(name): (float(own.min()), float(own.max())) for name, own in sizes.items()},
        source=source,
    )


def notes_on(cell: Cell, points: pd.DataFrame) -> list[str]:
    """Where points lie outside of all measured ones, a sentence each."""
    phases: dict[str, list[str]] = {}  # by note
    for phase, fit in cell.fits.items():
        for note in _outside(points, fit.ranges):
            phases.setdefault(note, []).append(phase)
    return [note if len(own) == len(cell.fits) else f"{', '.join(own)}: {note}" for note, own in phases.items()]


def _outside(points: pd.DataFrame, ranges: Mapping[str, tuple[float, float]]) -> list[str]:
    sizes, notes = _sizes(points), []
    for name in _SIZES:
        low, high = ranges[name]
        out = sizes[name][(sizes[name] > high * _BEYOND) | (sizes[name] < low / _BEYOND)]
        if len(out):
            span = " to ".join(dict.fromkeys(f"{end:.4g}" for end in (out.min(), out.max())))
            measured = " to ".join(dict.fromkeys(f"{end:.4g}" for end in (low, high)))
            notes.append(f"{name.replace('_', ' ')} {span} is outside the measured range of {measured}")
    if (dense := float(sizes[_DENSE].max())) > ranges[_DENSE][1] + _MORE_DENSE:
        notes.append(
            f"{100 * dense:.0f} % of the FLOPs are in dense layers and attention, in measured networks at most "
            f"{100 * ranges[_DENSE][1]:.0f} %: the answer rests on how these few did"
        )
    return notes


def _sizes(points: pd.DataFrame) -> pd.DataFrame:
    dense = (points["linear_flops"] + points["attention_flops"]) / points["flops"].clip(lower=1)
    return points[list(_SIZES)].astype(float).assign(**{_DENSE: dense})
