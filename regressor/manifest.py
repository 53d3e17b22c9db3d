"""What a model's ``model.json`` holds, value by value: a forged or foreign one is refused before anything is built from it."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from .derived import columns_of
from .errors import InputError
from .features import PAPER_COLUMNS
from .precision import Kind, Precision
from .profile import LONGEST_NAME, Profile, feature_set
from .recipes.default import SPEEDS_FILE, Route
from .residual_process import MOST_PAIRS
from .smooth_features import SMOOTH
from .speeds import FIGURES
from .stack_files import FILES as STACK_FILES
from .telemetry_correction import FILES as CORRECTION_FILES

SCHEMA = "epochcast.regressor/v5"
PAPER_SCHEMA = "epochcast.regressor.paper/v1"

# Bounds are by choice, here and below: far above what a training writes; what is beyond was forged.
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Positive = Annotated[float, Field(gt=0, lt=1e18)]
LogRatio = Annotated[float, Field(ge=-20, le=20)]
Share = Annotated[float, Field(ge=0, le=1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
FileName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,60}$")]


class _Part(BaseModel):
    """Exactly these keys, of exactly these types (no text for a number), no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Parameters(_Part):
    """The hyper-parameters of :class:`~epochcast.regressor.recipes.default.DefaultRecipe`, within what makes sense."""

    trees: Annotated[int, Field(ge=1, le=10_000)]
    min_samples_leaf: Annotated[int, Field(ge=1, le=10_000)]
    forest_share: Share
    residual_step: Share
    random_state: Count


class SpeedsState(_Part):
    """:meth:`~epochcast.regressor.speeds.Speeds.state`."""

    gpus: Annotated[list[Name], Field(max_length=1000)]
    architectures: Annotated[list[Name], Field(max_length=100)]
    centre: Annotated[list[Annotated[float, Field(ge=-100, le=100)]], Field(min_length=len(FIGURES), max_length=len(FIGURES))]
    noise: dict[Annotated[str, Field(max_length=LONGEST_NAME)], Annotated[float, Field(gt=0, le=10)]]
    measured: dict[Name, dict[Precision, Annotated[list[Count], Field(max_length=100_000)]]]


class CorrectionState(_Part):
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
            raise ValueError(f"no metric of {', '.join(self.metrics)} gives column {foreign[0]!r}")
        if unseen := sorted(set(self.processes) - {(source, target) for source, target, *_ in self.pairs_seen}):
            raise ValueError(f"pairs_seen lacks {' to '.join(unseen[0])}, which has a process")
        if any(low > high for *_, low, high in self.pairs_seen) or any(low > high for low, high in self.gpu_range.values()):
            raise ValueError("a range in pairs_seen or gpu_range ends below its beginning")
        return self


class RecipeState(_Part):
    """:meth:`~epochcast.regressor.recipes.default.DefaultRecipe.state`: what was learnt, but for the arrays."""

    speeds: SpeedsState
    correction: CorrectionState | None


class IntervalState(_Part):
    """An :class:`~epochcast.regressor.intervals.Interval`."""

    multiple: Annotated[float, Field(ge=0, le=100)]
    protocol: Literal["P2", "P3", "P4", "P4-anchors"]
    n: Annotated[int, Field(ge=1, le=10**9)]
    by_source: dict[Name, Annotated[float, Field(ge=0, le=100)]]
    by_origin: dict[Name, Annotated[float, Field(ge=0, le=100)]]


class ScalingState(_Part):
    """A :class:`~epochcast.regressor.scaling.Scaling`."""

    log_cost: Annotated[float, Field(ge=-20, le=20)]
    link: Annotated[float, Field(ge=0, le=1)]
    rate: Annotated[float, Field(ge=0, le=1)]
    half_width: Annotated[float, Field(ge=0, le=10)]


class Training(_Part):
    """What the model was fitted on."""

    profiles: Count
    pairs: Count
    workloads: Count
    gpus: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    fingerprint: Sha256


class Accuracy(_Part):
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


class AnchorState(_Part):
    """An :class:`~epochcast.regressor.anchors.Anchor`."""

    workload: Name
    group: Name | None
    gpu: Name
    epoch_s: Positive
    busy_share: Share
    covered: Share


class AnchoringState(_Part):
    """An :class:`~epochcast.regressor.anchored.Anchoring`."""

    anchors: Annotated[list[AnchorState], Field(max_length=1000)]
    interval: IntervalState
    mape: list[tuple[Count, Annotated[float, Field(ge=0)]]]


class ProcessState(_Part):
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
            raise ValueError(f"X has {rows} rows, but gpus, workloads and residuals are not as many")
        if any(len(row) != columns for row in self.X):
            raise ValueError(f"a row of X has not {columns} values")
        return self


class CalibrationState(_Part):
    """A :class:`~epochcast.regressor.calibration.Calibration`."""

    gpu: Name
    workloads: Count
    into: ProcessState | None
    out: ProcessState | None


class Manifest(_Part):
    """The whole of ``model.json``; ``epochcast`` is the version that wrote it."""

    schema_: Annotated[Literal["epochcast.regressor/v5"], Field(alias="schema")]
    epochcast: Name
    recipe: RecipeState
    parameters: Parameters
    scaling: ScalingState
    intervals: Annotated[dict[Route | Literal["calibrated"], IntervalState], Field(min_length=len(get_args(Route)) + 1)]
    training: Training
    accuracy: dict[Literal["P2", "P3", "P4"], Accuracy]
    typical: dict[Name, Typical]
    anchoring: AnchoringState | None
    calibrations: Annotated[list[CalibrationState], Field(max_length=100)]
    libraries: dict[Name, Name]
    files: dict[FileName, Sha256]
    fingerprint: Sha256

    @model_validator(mode="after")
    def _has_its_files(self) -> "Manifest":
        needed = {SPEEDS_FILE, *(CORRECTION_FILES if self.recipe.correction else ())}
        if missing := sorted(needed - set(self.files)):
            raise ValueError(f"files lacks {missing[0]}")
        return self


class PaperParameters(_Part):
    """The hyper-parameters of :class:`~epochcast.regressor.recipes.paper.PaperRecipe`."""

    features: Literal["all", "dynamic", "static"]
    latency: bool
    trees: Annotated[int, Field(ge=1, le=10_000)]
    iterations: Annotated[int, Field(ge=1, le=100_000)]
    cv: Annotated[int, Field(ge=2, le=1000)]
    random_state: Count


class PaperManifest(_Part):
    """``model.json`` of the paper's recipe, beside the files of :mod:`~epochcast.regressor.stack_files`."""

    schema_: Annotated[Literal["epochcast.regressor.paper/v1"], Field(alias="schema")]
    epochcast: Name
    parameters: PaperParameters
    columns: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    seconds: tuple[Positive, Positive]
    intervals: Annotated[dict[Literal["stack", "new-gpu"], IntervalState], Field(min_length=2)]
    training: Training
    accuracy: dict[Literal["P2", "P3", "P4"], Accuracy]
    libraries: dict[Name, Name]
    files: dict[FileName, Sha256]
    fingerprint: Sha256

    @model_validator(mode="after")
    def _is_whole(self) -> "PaperManifest":
        if missing := sorted({*STACK_FILES} - set(self.files)):
            raise ValueError(f"files lacks {missing[0]}")
        if foreign := sorted(set(self.columns) - set(PAPER_COLUMNS)):
            raise ValueError(f"columns has {foreign[0]!r}, which is no feature of the paper's")
        return self


MANIFESTS: Mapping[str, type[Manifest | PaperManifest]] = {SCHEMA: Manifest, PAPER_SCHEMA: PaperManifest}


def checked(text: str | bytes, where: str, schema: str = SCHEMA) -> Manifest | PaperManifest:
    """Return the manifest of a schema that JSON ``text`` of the file ``where`` holds.

    Raises:
        InputError: a key is missing or unknown, or a value is of another type or out of its range; the first one is named.
    """
    try:
        return MANIFESTS[schema].model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        seen = "" if first["type"] == "missing" else f" is {first['input']!r:.60}"
        reason = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{where}: {key}{seen} ({reason[:1].lower()}{reason[1:200]}); train the model anew") from error
