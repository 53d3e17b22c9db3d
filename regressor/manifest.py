"""What ``model.json`` of both recipes holds, value by value: a forged one is refused before anything is built from it."""

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from epochcast.regressor.derived import SMOOTH, columns_of
from epochcast.regressor.features import PAPER_COLUMNS
from epochcast.regressor.intervals import ScaledInterval
from epochcast.regressor.model_folder import Manifest, Name, Part, Sha256
from epochcast.regressor.precision import Kind, Precision
from epochcast.regressor.profile import LONGEST_NAME, Profile, feature_set
from epochcast.regressor.recipes.default import Route
from epochcast.regressor.residual_process import MOST_PAIRS
from epochcast.regressor.scaling import GpuCountScaling
from epochcast.regressor.speeds import FIGURES

# Bounds are by choice, here and below: far above what a training writes; what is beyond was forged.
Count = Annotated[int, Field(ge=0, le=10**9)]
Positive = Annotated[float, Field(gt=0, lt=1e18)]
LogRatio = Annotated[float, Field(ge=-20, le=20)]
Share = Annotated[float, Field(ge=0, le=1)]


class Parameters(Part):
    """The hyper-parameters of :class:`~epochcast.regressor.recipes.default.DefaultRecipe`, within what makes sense."""

    trees: Annotated[int, Field(ge=1, le=10_000)]
    min_samples_leaf: Annotated[int, Field(ge=1, le=10_000)]
    forest_share: Share
    residual_step: Share
    random_state: Count


class SpeedsState(Part):
    """:meth:`~epochcast.regressor.speeds.Speeds.state`."""

    gpus: Annotated[list[Name], Field(max_length=1000)]
    architectures: Annotated[list[Name], Field(max_length=100)]
    centre: Annotated[list[Annotated[float, Field(ge=-100, le=100)]], Field(min_length=len(FIGURES), max_length=len(FIGURES))]
    noise: dict[Annotated[str, Field(max_length=LONGEST_NAME)], Annotated[float, Field(gt=0, le=10)]]
    measured: dict[Name, dict[Precision, Annotated[list[Count], Field(max_length=100_000)]]]


class CorrectionState(Part):
    """:meth:`~epochcast.regressor.telemetry_correction.TelemetryCorrection.state`."""

    metrics: Annotated[list[Name], Field(min_length=1, max_length=100)]
    columns: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    excluded: dict[Name, Annotated[str, Field(max_length=200)]]
    kinds: Annotated[list[Kind], Field(min_length=1, max_length=len(get_args(Kind)))]
    pairs_seen: Annotated[list[tuple[Name, Name, Count, LogRatio, LogRatio]], Field(max_length=100_000)]
    processes: Annotated[list[tuple[Name, Name]], Field(max_length=10_000)]
    gpu_range: Annotated[dict[Literal["effective_flops", "memory_bandwidth"], tuple[Positive, Positive]], Field(min_length=2)]
    support_bound: Annotated[float, Field(ge=0, lt=1)]
    sources: Annotated[list[Name], Field(min_length=1, max_length=1000)]

    @model_validator(mode="after")
    def _is_consistent(self) -> "CorrectionState":
        if foreign := sorted(set(self.columns) - set(columns_of(self.metrics))):
            raise ValueError(f"no metric in {', '.join(self.metrics)} gives column {foreign[0]!r}")
        if unseen := sorted(set(self.processes) - {(source, target) for source, target, *_ in self.pairs_seen}):
            raise ValueError(f"pairs_seen lacks {' to '.join(unseen[0])}, which has a process")
        if any(low > high for *_, low, high in self.pairs_seen) or any(low > high for low, high in self.gpu_range.values()):
            raise ValueError("a range in pairs_seen or gpu_range ends below its beginning")
        return self


class RecipeState(Part):
    """:meth:`~epochcast.regressor.recipes.default.DefaultRecipe.state`: what was learnt, but for the arrays."""

    speeds: SpeedsState
    correction: CorrectionState | None


class FitRecord(Part):
    """What the model was fitted on."""

    profiles: Count
    pairs: Count
    workloads: Count
    gpus: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    fingerprint: Sha256


class Accuracy(Part):
    """Error figures of one protocol, :class:`~epochcast.regressor.scoring.Scores`."""

    mape: Annotated[float, Field(ge=0)]
    median_ape: Annotated[float, Field(ge=0)]
    rmse: Annotated[float, Field(ge=0)]
    r2: Annotated[float, Field(le=1)]
    n: Count
    coverage: Share


def _is_profile(metrics: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Hold typical statistics to the rules of a profile's: an explanation puts them into one."""
    tier = feature_set(metrics)
    Profile(gpu="typical", epoch_s=None, unit=None, epochs=0, metrics=metrics, feature_set=tier, first_epoch_excluded=False)
    return metrics


Typical = Annotated[dict[Name, dict[Name, float]], AfterValidator(_is_profile)]


class AnchorState(Part):
    """An :class:`~epochcast.regressor.anchors.Anchor`."""

    workload: Name
    group: Name | None
    gpu: Name
    epoch_s: Positive
    busy_share: Share
    covered: Share


class AnchoringState(Part):
    """An :class:`~epochcast.regressor.anchored.Anchoring`."""

    anchors: Annotated[list[AnchorState], Field(max_length=1000)]
    interval: ScaledInterval
    mape: list[tuple[Count, Annotated[float, Field(ge=0)]]]


class ProcessState(Part):
    """A :class:`~epochcast.regressor.residual_process.ResidualProcess`, its measurements and all."""

    X: Annotated[list[list[float]], Field(min_length=1, max_length=MOST_PAIRS)]
    gpus: Annotated[list[Name], Field(min_length=1, max_length=MOST_PAIRS)]
    workloads: Annotated[list[Name], Field(min_length=1, max_length=MOST_PAIRS)]
    residuals: Annotated[list[LogRatio], Field(min_length=1, max_length=MOST_PAIRS)]
    base_scale: Positive

    @model_validator(mode="after")
    def _same_length(self) -> "ProcessState":
        rows, columns = len(self.X), len(SMOOTH)
        if not rows == len(self.gpus) == len(self.workloads) == len(self.residuals):
            raise ValueError(f"X has {rows} rows, but gpus, workloads and residuals have other lengths")
        if any(len(row) != columns for row in self.X):
            raise ValueError(f"a row of X does not have {columns} values")
        return self


class CalibrationState(Part):
    """A :class:`~epochcast.regressor.calibration.Calibration`."""

    gpu: Name
    workloads: Count
    into: ProcessState | None
    out: ProcessState | None


class RegressorManifest(Manifest):
    """The whole of ``model.json`` of recipe ``default``."""

    SCHEMA = "epochcast.regressor/v6"
    COMMAND = "epochcast fit regressor"
    OTHERWISE = "name another model, or with `epochcast predict` and `epochcast recommend` the other --recipe"

    recipe: RecipeState
    parameters: Parameters
    scaling: GpuCountScaling
    intervals: Annotated[dict[Route | Literal["calibrated"], ScaledInterval], Field(min_length=len(get_args(Route)) + 1)]
    training: FitRecord
    accuracy: dict[Literal["P2", "P3", "P4"], Accuracy]
    typical: dict[Name, Typical]
    anchoring: AnchoringState | None
    calibrations: Annotated[list[CalibrationState], Field(max_length=100)]


class PaperParameters(Part):
    """The hyper-parameters of :class:`~epochcast.regressor.recipes.paper.PaperRecipe`."""

    features: Literal["all", "dynamic", "static"]
    latency: bool
    trees: Annotated[int, Field(ge=1, le=10_000)]
    iterations: Annotated[int, Field(ge=1, le=100_000)]
    cv: Annotated[int, Field(ge=2, le=1000)]
    random_state: Count


def _are_features(columns: list[str]) -> list[str]:
    if foreign := sorted(set(columns) - set(PAPER_COLUMNS)):
        raise ValueError(f"{foreign[0]!r} is not a feature of the paper")
    return columns


class PaperManifest(Manifest):
    """The whole of ``model.json`` of the paper's recipe."""

    SCHEMA = "epochcast.regressor.paper/v2"
    COMMAND = "epochcast fit regressor --recipe paper"
    OTHERWISE = RegressorManifest.OTHERWISE

    parameters: PaperParameters
    columns: Annotated[list[Name], Field(min_length=1, max_length=1000), AfterValidator(_are_features)]
    seconds: tuple[Positive, Positive]
    intervals: Annotated[dict[Literal["stack", "new-gpu"], ScaledInterval], Field(min_length=2)]
    training: FitRecord
    accuracy: dict[Literal["P2", "P3", "P4"], Accuracy]
