"""A performance model fitted on measured points: a form for each phase, device and precision."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BeforeValidator

from epochcast.analyzer.backends.convmeter import SHIPPED
from epochcast.analyzer.backends.convmeter.forms import FORMS, KeptForm
from epochcast.analyzer.backends.convmeter.forms.default import Default
from epochcast.analyzer.backends.convmeter.forms.out_of_fold import out_of_fold
from epochcast.analyzer.backends.convmeter.forms.sum_of_phases import SumOfPhases
from epochcast.analyzer.backends.convmeter.metrics import COLUMNS
from epochcast.analyzer.backends.convmeter.points import PHASES
from epochcast.analyzer.errors import InputError
from epochcast.regressor.arrays import part, under
from epochcast.regressor.model_folder import Manifest, load, save
from epochcast.regressor.scoring import FEWEST_ERRORS, absolute_percentage_errors, conformal_quantile

Array = NDArray[np.float64]
Key = tuple[str, str, str]
"""Device, precision and phase."""

NO_BLOCK = (
    "no block was measured separately, so each block's time includes a whole network's minimum and is too long; measure "
    "blocks as well"
)

_SIZES = ("image_size", "batch", "devices", "nodes", "flops", "weights")
_DENSE = "dense_share"
_BEYOND = 1.05  # a range ends where rounding does not matter
_MORE_DENSE = 0.2

Ranges = Mapping[str, tuple[float, float]]
"""Least and largest of each size, and of the share of FLOPs in dense layers and attention."""

_OrNan = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
"""NaN is null in JSON."""


@dataclass(frozen=True)
class PhaseFit:
    """Facts on the fit of a phase, as :class:`.answer.Fitted` has them; points of blocks are points too.

    Errors are of points by fits on other families (networks, points where there are too few); NaN where there are none.
    """

    form: str
    points: int
    networks: int
    blocks: int
    mape: _OrNan
    factor: _OrNan
    ranges: Ranges
    source: str = ""

    @property
    def batches(self) -> list[float]:
        """Least and largest that were measured, images per device."""
        return list(self.ranges["batch"])


@dataclass(frozen=True)
class Cell:
    """A device at a precision."""

    device: str
    precision: str
    fits: Mapping[str, PhaseFit]


class ConvmeterManifest(Manifest):
    """The content of ``model.json``."""

    SCHEMA = "epochcast.convmeter/v3"
    COMMAND = "epochcast fit convmeter"

    cells: list[Cell]


@dataclass
class ConvNetPredictor:
    """Seconds of the phases of networks that were not measured.

    Attributes:
        cells: devices and precisions that it was fitted for.
        forms: that were fitted.
        unfitted: why measured phases could not be fitted, a sentence each; not kept on disk.
    """

    cells: list[Cell]
    forms: Mapping[Key, KeptForm]
    unfitted: list[str] = field(default_factory=list)

    @classmethod
    def fit(cls, points: pd.DataFrame, form: str = "default", sources: Mapping[Key, str] | None = None) -> ConvNetPredictor:
        """Fit every phase that was measured, each device and precision apart.

        Args:
            points: as of ``points.py``.
            form: name in ``FORMS``.
            sources: where points come from, by device, precision and phase.

        Raises:
            InputError: no phase has enough points.
        """
        cells, forms, reasons = [], {}, []
        for (device, precision), own in points.groupby(["device", "precision"], sort=True):
            fits = {}
            for phase in PHASES:
                measured = _measured(own, phase)
                if measured.empty:
                    continue
                try:
                    made = FORMS[form](phase).fit(measured, _seconds(measured, phase))
                except InputError as error:
                    reasons.append(f"{device} at {precision}: {error}")
                    continue
                forms[str(device), str(precision), phase] = made
                source = (sources or {}).get((str(device), str(precision), phase), "")
                fits[phase] = replace(_fit_of(form, made, measured, phase), source=source)
            if fits:
                cells.append(Cell(str(device), str(precision), fits))
        if not cells:
            raise InputError(reasons[0] if reasons else "no point has a measured phase; give a table with seconds")
        return cls(cells, forms, reasons)

    def cell(self, device: str, precision: str) -> Cell:
        """The fits of a device and precision.

        Raises:
            InputError: it was not fitted for them.
        """
        for cell in self.cells:
            if (cell.device, cell.precision) == (device, precision):
                return cell
        there = "; ".join(f"{cell.device} at {cell.precision}" for cell in self.cells)
        raise InputError(f"the model was not fitted for {device} at {precision}; it has {there}")

    def predict(self, points: pd.DataFrame, device: str, precision: str) -> pd.DataFrame:
        """Predict each point in every phase that was fitted.

        Args:
            points: metrics as of :func:`.metrics.table_of`, with ``batch``, ``devices`` and ``nodes``; shape (n, …).
            device, precision: of the answer.

        Returns:
            Index of ``points``; ``PHASE_seconds``, and the 90 % interval ``PHASE_low`` and ``PHASE_high``. A step is the sum of
            its phases where it was not measured itself.

        Raises:
            InputError: it was not fitted for the device and precision, or not on such numbers of devices or nodes.
        """
        cell = self.cell(device, precision)
        columns = {name: points[name].to_numpy(dtype=np.float64) for name in (*COLUMNS, "batch", "devices", "nodes")}
        alone = columns | dict.fromkeys(("devices", "nodes"), np.ones(len(points)))
        answer: dict[str, Array] = {}
        for phase, fit in cell.fits.items():
            for what in ("devices", "nodes"):
                if columns[what].max() > 1 and fit.ranges[what][1] == 1 and phase in ("update", "step"):
                    raise InputError(
                        f"the {phase} on several {what} cannot be predicted: all points of {device} at {precision} have one; "
                        f"measure some on several ({what} of 2 or more) and fit on both"
                    )
            # A phase measured on single devices alone, such as inference, takes as long next to others.
            seconds = self.forms[device, precision, phase].predict(columns if fit.ranges["devices"][1] > 1 else alone)
            if (unknown := np.isnan(seconds)).any():
                raise InputError(
                    f"the {phase} on {columns['devices'][unknown][0]:.0f} x {device} at {precision} cannot be predicted by "
                    f"{fit.form}, which had too few points of one or several devices; measure more, or use the default"
                )
            answer[f"{phase}_seconds"] = seconds
            answer[f"{phase}_low"], answer[f"{phase}_high"] = seconds / fit.factor, seconds * fit.factor
        parts = [phase for phase in ("forward", "backward", "update") if phase in cell.fits]
        if "step" not in cell.fits and len(parts) == 3:
            for what in ("seconds", "low", "high"):
                answer[f"step_{what}"] = np.sum([answer[f"{phase}_{what}"] for phase in parts], axis=0)
        return pd.DataFrame(answer, index=points.index)

    def notes(self, points: pd.DataFrame, device: str, precision: str) -> list[str]:
        """Why the prediction of these points is less certain, a sentence each."""
        fits = self.cell(device, precision).fits
        phases: dict[str, list[str]] = {}  # by note
        for phase, fit in fits.items():
            for note in notes_on(points, fit.ranges):
                phases.setdefault(note, []).append(phase)
        notes = [note if len(own) == len(fits) else f"{', '.join(own)}: {note}" for note, own in phases.items()]
        if (points["block"] != "").any() and not any(fit.blocks for fit in fits.values()):
            notes.append(NO_BLOCK)
        return notes

    def save(self, folder: Path) -> None:
        """Write the model into a folder, completely or not at all.

        Raises:
            InputError: the folder holds something else or cannot be written.
        """
        arrays: dict[str, Array] = {}
        for number, cell in enumerate(self.cells):
            for phase in cell.fits:
                arrays |= under(f"{number}.{phase}", self.forms[cell.device, cell.precision, phase].arrays())
        save(folder, ConvmeterManifest, {"cells": self.cells}, arrays)

    @classmethod
    def load(cls, folder: Path = SHIPPED) -> ConvNetPredictor:
        """Read what :meth:`save` wrote, the shipped model unless another is named.

        Raises:
            InputError: a file is missing, damaged, or of another kind.
        """
        manifest, arrays = load(folder, ConvmeterManifest)
        forms = {
            (cell.device, cell.precision, phase): FORMS[fit.form](phase).restore(part(arrays, f"{number}.{phase}"))
            for number, cell in enumerate(manifest.cells)
            for phase, fit in cell.fits.items()
        }
        return cls(manifest.cells, forms)


def _measured(points: pd.DataFrame, phase: str) -> pd.DataFrame:
    return points[points[f"{phase}_seconds"] > 0].reset_index(drop=True)


def _seconds(points: pd.DataFrame, phase: str) -> Array:
    return points[f"{phase}_seconds"].to_numpy(dtype=np.float64)


def _fit_of(form: str, made: KeptForm, points: pd.DataFrame, phase: str) -> PhaseFit:
    """How well a form does within its points."""
    seconds = _seconds(points, phase)
    errors = made.errors if isinstance(made, Default | SumOfPhases) else None
    if errors is None:
        errors = np.log(seconds / out_of_fold(points, seconds, lambda *split: _or_nan(form, phase, *split)))
    known = errors[np.isfinite(errors)]
    return PhaseFit(
        form=form,
        points=len(points),
        networks=int(points["network"].nunique()),
        blocks=int((points["block"] != "").sum()),
        mape=float(absolute_percentage_errors(seconds, seconds * np.exp(-errors)).mean()) if len(known) else float("nan"),
        factor=float(np.exp(conformal_quantile(known))) if len(known) >= FEWEST_ERRORS else float("nan"),
        ranges=ranges_of(points),
    )


def _or_nan(form: str, phase: str, points: pd.DataFrame, seconds: Array, others: pd.DataFrame) -> Array:
    try:
        return FORMS[form](phase).fit(points, seconds).predict(others)
    except InputError:
        return np.full(len(others), np.nan)


def ranges_of(points: pd.DataFrame) -> Ranges:
    """The ranges of measured points."""
    sizes = _sizes(points)
    return {name: (float(sizes[name].min()), float(sizes[name].max())) for name in (*_SIZES, _DENSE)}


def notes_on(points: pd.DataFrame, ranges: Ranges) -> list[str]:
    """Where points lie outside of all measured ones, a sentence each."""
    sizes, notes = _sizes(points), []
    for name in _SIZES:
        low, high = ranges[name]
        if name in ("devices", "nodes") and high == 1:
            continue  # inference takes as long next to other devices; all else is refused
        out = sizes[name][(sizes[name] > high * _BEYOND) | (sizes[name] < low / _BEYOND)]
        if len(out):
            span = " to ".join(dict.fromkeys(f"{end:.4g}" for end in (out.min(), out.max())))
            notes.append(f"{name.replace('_', ' ')} {span} is outside the measured range of {low:.4g} to {high:.4g}")
    if (points["conv_outputs"] == 0).any():
        notes.append(
            "the network has no convolution: the answer rests on the FLOPs and traffic of its other layers alone, of which "
            "measured networks have few"
        )
    elif (dense := float(sizes[_DENSE].max())) > ranges[_DENSE][1] + _MORE_DENSE:
        notes.append(
            f"{100 * dense:.0f} % of the FLOPs are in dense layers and attention, in measured networks at most "
            f"{100 * ranges[_DENSE][1]:.0f} %: the answer rests on how these few did"
        )
    return notes


def _sizes(points: pd.DataFrame) -> pd.DataFrame:
    dense = (points["linear_flops"] + points["attention_flops"]) / points["flops"].clip(lower=1)
    return points[list(_SIZES)].astype(float).assign(**{_DENSE: dense})
