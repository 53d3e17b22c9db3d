"""The recipe behind every answer: a ridge on rates of equal work and CatBoost, and telemetry of jobs like this one."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from epochcast.regressor.answers import Answers
from epochcast.regressor.boosting import SHARE, array_of, boosted, model_of
from epochcast.regressor.features import busy_at_least, busy_share
from epochcast.regressor.gpus import Gpu
from epochcast.regressor.job_types import JOB_TYPES, JobType, network_family
from epochcast.regressor.pairs import Pair, actual_ratio, at, source_seconds
from epochcast.regressor.precision import PRECISIONS, Precision, likely_precisions
from epochcast.regressor.profile import Profile
from epochcast.regressor.ridge import BlockedRidge, MeasuredRate, Ratios, Work, log_figures, log_step
from epochcast.regressor.telemetry import TelemetryModel, has_telemetry


@dataclass(eq=False, repr=False)
class DefaultRecipe(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Two thirds of the ridge and a third of CatBoost, in log ratios; telemetry where jobs like this one were recorded.

    The ridge alone answers for a family between GPUs that it was measured on.

    Where the precision or the type is not known, the answer is the mean over what is likely, and its scale covers how far they
    differ. Without telemetry, A to B and B to A of one job are exact inverses.

    Args:
        iterations: trees of CatBoost.

    Attributes:
        ridge_, boosting_: the members.
        telemetry_: learnt from the pairs with telemetry; ``None`` where fewer than two have it.
        types_: type -> share of the families that were learnt from.
    """

    iterations: int = 300

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Learn from measured pairs.

        Raises:
            InputError: a pair is not measured.
        """
        works = _works(pairs)
        self.ridge_ = BlockedRidge().fit(_rates(pairs, works))
        families = {(work.type, work.family) for work in works.values() if work.type}
        self.types_: dict[JobType | None, float] = {
            job_type: count / len(families) for job_type, count in sorted(Counter(job_type for job_type, _ in families).items())
        }
        rows = [(pair, works[_key(pair.source)]) for pair in pairs]
        sizes = Counter(work.family for _, work in rows)
        weights = np.array([1 / math.sqrt(sizes[work.family]) for _, work in rows])
        self.boosting_ = boosted(_features(rows), np.log(actual_ratio(pairs)), weights, self.iterations, rising=7)
        recorded = [pair for pair in pairs if has_telemetry(pair.source)]
        self.telemetry_ = None
        if len(recorded) > 1:
            self.telemetry_ = TelemetryModel().fit(recorded, _rates(recorded, works), self.iterations)
        return self

    def answer(self, pairs: Sequence[Pair]) -> Answers:
        """Answer each pair with its route and scale; needs no epoch seconds."""
        check_is_fitted(self, "ridge_")
        by_source = {(id(pair.source), pair.source_gpu.name): pair for pair in pairs}
        of_source = {key: self._likely(pair) for key, pair in by_source.items()}
        likely = [of_source[id(pair.source), pair.source_gpu.name] for pair in pairs]
        owner = np.repeat(np.arange(len(pairs)), [len(works) for works in likely])
        rows = [(pair, work) for pair, works in zip(pairs, likely, strict=True) for work, _ in works]
        share = np.array([share for works in likely for _, share in works])
        ratios = self._compare(rows)
        noise = np.array([self.ridge_.noise(pair.source.origin) for pair in pairs])
        # The time that the GPU waits for its host stays what it is on the source: 0.1 points worse on the visible rates, where
        # no job waits for long, but a job that mostly waits is promised nothing.
        busy = np.array([busy_at_least(pair.source) for pair, _ in rows])
        moved = busy * np.exp(ratios.mean)
        mean = np.log(1 - busy + moved)
        variance = (ratios.variance + 2 * noise[owner] ** 2) * (moved / (1 - busy + moved)) ** 2
        # Other jobs measured on both GPUs, or a data sheet; below, jobs like this one, recorded on both with telemetry.
        routes = np.array(["speeds" if self._new(pair) == 0 else "specifications" for pair in pairs], dtype="<U14")
        recorded = np.flatnonzero([self.uses_telemetry(pair) for pair in pairs])
        if self.telemetry_ is not None and recorded.size:
            # It takes the place of the others, as a mean by how sure both are is worse; of its own arithmetic and type.
            place = np.full(len(pairs), -1)
            place[recorded] = np.arange(len(recorded))
            for precision in {work.precision for _, work in rows}:
                like = np.flatnonzero(
                    [
                        place[row] >= 0 and work.precision == precision and self.telemetry_.covers(pair.source, precision)
                        for row, (pair, work) in zip(owner, rows, strict=True)
                    ]
                )
                if like.size:
                    shown = self.telemetry_.compare(at(pairs, recorded), precision)
                    mean[like], variance[like] = (of[place[owner[like]]] for of in shown)
            inside = [set(pairs[row].gpus) <= set(self.telemetry_.gpus) for row in recorded.tolist()]
            routes[recorded[inside]] = "telemetry"
        log_ratio: NDArray[np.float64] = np.bincount(owner, share * mean, len(pairs)).astype(np.float64)
        in_precision = np.full((len(pairs), len(PRECISIONS)), np.nan)
        for column, precision in enumerate(PRECISIONS):
            here = np.flatnonzero([work.precision == precision for _, work in rows])
            total = np.bincount(owner[here], share[here], len(pairs))
            held = np.flatnonzero(total)
            in_precision[held, column] = np.bincount(owner[here], (share * mean)[here], len(pairs))[held] / total[held]
        spread = np.bincount(owner, share * (variance + mean**2), len(pairs)) - log_ratio**2
        return Answers(
            log_ratio,
            np.sqrt(spread),
            (routes != "specifications").astype(np.float64),
            routes,
            np.array([self._cell(pair, route) for pair, route in zip(pairs, routes.tolist(), strict=True)], dtype="<U29"),
            np.array([family_of(pair.source) or "" for pair in pairs], dtype=np.str_),
            in_precision,
        )

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,)."""
        seconds: NDArray[np.float64] = source_seconds(pairs) * np.exp(self.answer(pairs).log_ratio)
        return seconds

    def uses_telemetry(self, pair: Pair) -> bool:
        """Whether telemetry of jobs like this one answers: between GPUs that were recorded, or if nobody measured the other."""
        model = self.telemetry_
        if model is None or not has_telemetry(pair.source):
            return False
        # With the ridge alone a T4 that nobody measured is 55 % off, from its telemetry 15.
        new = [gpu for gpu in (pair.source_gpu, pair.target_gpu) if gpu.name not in model.gpus]
        alike = not new or (len(new) == 1 and not self.ridge_.knows(new[0]))
        return alike and any(
            model.covers(pair.source, precision) for precision in likely_precisions(pair.source, pair.source_gpu)[0]
        )

    def _compare(self, rows: Sequence[tuple[Pair, Work]]) -> Ratios:
        """What the members say of pairs as jobs of these kinds."""
        ratios = self.ridge_.compare(
            [pair.source_gpu for pair, _ in rows], [pair.target_gpu for pair, _ in rows], [work for _, work in rows]
        )
        both = np.concatenate([_features(rows), _features(rows, back=True)])
        there, back = np.split(self.boosting_.predict(both, thread_count=1), 2)
        # CatBoost knows no family: between GPUs that this one ran on it only blurs what the ridge knows.
        measured = np.array([self.ridge_.knows_family(work, pair.source_gpu, pair.target_gpu) for pair, work in rows])
        share = self._share(measured)
        mean = (1 - share) * ratios.mean + share * (there - back) / 2
        # Of a short step any part may be launches, which take as long on every GPU; neither step nor type shows which part. If
        # all parts are as likely, the log ratio is between 0 and this mean, and the square of the error a third of its square.
        waits = np.array([work.short for _, work in rows]) & ~measured
        return Ratios(mean, ratios.variance + waits * mean**2 / 3)

    def _share(self, measured: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Of CatBoost in each answer, by whether the family was measured on both GPUs."""
        return np.where(measured, 0.0, SHARE)

    def _likely(self, pair: Pair) -> list[tuple[Work, float]]:
        """What the job of a pair may be, and how likely each is."""
        source, gpu = pair.source, pair.source_gpu
        types = {source.type: 1.0} if source.type else self.types_ or {None: 1.0}
        return [
            (work_of(source, gpu, precision)._replace(type=job_type), of_precision * of_type)
            for precision, of_precision in likely_precisions(source, gpu)[0].items()
            for job_type, of_type in types.items()
        ]

    def _new(self, pair: Pair) -> int:
        return sum(not self.ridge_.knows(gpu) for gpu in (pair.source_gpu, pair.target_gpu))

    def _cell(self, pair: Pair, route: str) -> str:
        """The kind of answers whose errors make the interval."""
        if route == "telemetry":
            return route
        return ("both new" if self._new(pair) == 2 else route) + ("" if pair.source.type else TYPE_UNKNOWN)

    def state(self) -> dict[str, Any]:
        """Return what was learnt; :meth:`get_params` is the caller's to keep next to it."""
        check_is_fitted(self, "ridge_")
        telemetry = None if self.telemetry_ is None else self.telemetry_.state()
        return {
            "ridge": self.ridge_.state(),
            "boosting": array_of(self.boosting_),
            "types": self.types_,
            "telemetry": telemetry,
        }

    def restore(self, state: Mapping[str, Any]) -> Self:
        """Take :meth:`state`."""
        self.ridge_, self.boosting_ = BlockedRidge.restored(state["ridge"]), model_of(state["boosting"])
        self.types_, telemetry = state["types"], state["telemetry"]
        self.telemetry_ = None if telemetry is None else TelemetryModel.restored(telemetry)
        return self


TYPE_UNKNOWN = ", type unknown"
"""Ends the cell of an answer for a job whose type is not known."""


def family_of(profile: Profile) -> str | None:
    """What shares coefficients: the network, or the workload where that is not known."""
    return network_family(profile.group) if profile.group else profile.workload


def work_of(profile: Profile, gpu: Gpu, precision: Precision | None = None) -> Work:
    """What a profile says of its job, in its likeliest precision unless one is given."""
    likely = likely_precisions(profile, gpu)[0]
    computes_in: Precision = max(likely, key=likely.__getitem__) if precision is None else precision
    short = _log_step(profile, gpu, computes_in) < 0
    return Work(computes_in, profile.type, family_of(profile), profile.gpus, short)


def _log_step(profile: Profile, gpu: Gpu, precision: Precision) -> float:
    step_s = profile.step_s or (profile.epoch_s if profile.unit == "step" else None)
    return log_step(step_s, gpu, precision) if step_s else math.nan


def _key(profile: Profile) -> str:
    """Of equal work."""
    return f"{profile.workload} on {profile.gpus}"


def _works(pairs: Iterable[Pair]) -> dict[str, Work]:
    """What each work is; its steps are short if they are on half of its GPUs."""
    each: dict[str, dict[int, Work]] = defaultdict(dict)
    for pair in pairs:
        each[_key(pair.source)][id(pair.source)] = work_of(pair.source, pair.source_gpu)
    return {
        key: next(iter(works.values()))._replace(short=bool(np.mean([work.short for work in works.values()]) >= 0.5))
        for key, works in each.items()
    }


def _rates(pairs: Iterable[Pair], works: Mapping[str, Work]) -> list[MeasuredRate]:
    """The rate of each source profile of measured pairs, once: of its busy time, where all profiles of the work show that."""
    profiles = {id(pair.source): (pair.source, pair.source_gpu) for pair in pairs}
    unknown = {_key(profile) for profile, _ in profiles.values() if busy_share(profile)[1] is None}
    return [
        MeasuredRate(
            key := _key(profile),
            works[key],
            gpu,
            -math.log((1.0 if key in unknown else busy_at_least(profile)) * (profile.epoch_s or math.nan)),
            profile.origin or "",
        )
        for profile, gpu in profiles.values()
    ]


def _features(rows: Sequence[tuple[Pair, Work]], back: bool = False) -> NDArray[np.float64]:
    """What CatBoost reads: logs of the source's figures over the target's, of the source's, and the job, shape (n, 29).

    ``back`` asks the same of the same job from target to source.
    """
    distinct = {(gpu.name, work.precision): gpu for pair, work in rows for gpu in (pair.source_gpu, pair.target_gpu)}
    figures = np.array([log_figures(gpu, precision) for (_, precision), gpu in distinct.items()])
    place = {key: row for row, key in enumerate(distinct)}
    here, there = (
        figures[[place[gpu.name, work.precision] for gpu, (_, work) in zip(gpus, rows, strict=True)]]
        for gpus in ([pair.source_gpu for pair, _ in rows], [pair.target_gpu for pair, _ in rows])
    )
    if back:
        here, there = there, here
    jobs = {(id(pair.source), work.precision, work.type): (pair, work) for pair, work in rows}
    of_job = {key: _job_features(*of) for key, of in jobs.items()}
    number = {key: row for row, key in enumerate(of_job)}
    job = np.array([*of_job.values()])[[number[id(pair.source), work.precision, work.type] for pair, work in rows]]
    return np.concatenate([here - there, here, job], axis=1)


def _job_features(pair: Pair, work: Work) -> list[float]:
    profile = pair.source
    return [
        _log_step(profile, pair.source_gpu, work.precision),
        math.log(profile.batch) if profile.batch else math.nan,
        math.log2(work.gpus),
        float(profile.inference),
        *(float(work.precision == precision) for precision in PRECISIONS),
        *(float(work.type == job_type) for job_type in JOB_TYPES),
    ]
