"""A `JobResult` as JSON: the documents of `answer_schema`, the same from the commands, HTTP, the service and a fleet."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from epochcast.analyzer.answers.answer_schema import PredictionAnswer
from epochcast.analyzer.answers.cycles import rates
from epochcast.analyzer.answers.emissions import emissions, grams_of
from epochcast.analyzer.answers.job_result import JobResult
from epochcast.analyzer.answers.predictions import Answer
from epochcast.analyzer.answers.recommendation_schema import RecommendationAnswer
from epochcast.analyzer.answers.sources import Source
from epochcast.analyzer.instances.rented import Rented
from epochcast.analyzer.recommendation import Recommendation
from epochcast.analyzer.recommendation.rank import cost_of, time_of
from epochcast.detector import Detection
from epochcast.regressor.precision import likely_precisions, overall_flop_utilization
from epochcast.regressor.prediction import by_data_sheet

# Of the profile, as it has them.
_OF_PROFILE = ("epoch_s", "epoch_s_low", "epoch_s_high", "unit", "epochs", "first_epoch_s", "stalls", "stall_s", "feature_set")


def prediction_answer(result: JobResult) -> PredictionAnswer:
    """The document of the predictions."""
    return PredictionAnswer.model_validate(
        {
            **_of_job(result),
            **{key: getattr(result.profile, key) for key in _OF_PROFILE},
            "detection": _detection(result.detection),
            "gpus": [_gpu(result, place) for place in range(len(result.sources))],
            "predictions": [_target(answer, result) for answer in result.answers],
            "notes": result.prediction_notes,
        }
    )


def recommendation_answer(result: JobResult) -> RecommendationAnswer:
    """The document of the recommendation that `answer_job` computed."""
    recommended = result.recommended
    assert recommended is not None
    ranking, need, profile = recommended.ranking, recommended.need, result.profile

    def shown(row: Recommendation | None) -> dict[str, Any] | None:
        if row is None:
            return None
        carbon = emissions(result, row, row.gpus).to_json()
        return row.to_json() | rates(result.throughput, row.prediction.ratio) | carbon

    return RecommendationAnswer.model_validate(
        {
            **_of_job(result),
            "verdict": recommended.verdict.to_json(),
            "gpus": recommended.gpus,
            "unit": profile.unit,
            "epochs": None if result.work is None else result.work.epochs,
            "objective": recommended.renting.objective,
            "market": recommended.renting.limits.market,
            "memory_bytes": None if need is None else need.bytes,
            "memory_reserved": None if need is None else need.reserved,
            "recommendations": [shown(row) for row in ranking.recommendations],
            "cheapest": shown(ranking.cheapest),
            "fastest": shown(ranking.fastest),
            "left_out": [row.to_json() for row in ranking.left_out],
            "decision": None if recommended.decision is None else recommended.decision.to_json(),
            "current": None if recommended.current is None else _current(result, recommended.current, recommended.on),
            "savings": _savings(recommended.current, ranking.cheapest, ranking.fastest, profile.epoch_s),
            "notes": result.recommendation_notes,
        }
    )


def _of_job(result: JobResult) -> dict[str, Any]:
    """What both documents say of the job."""
    slowest = result.slowest
    return {
        "pipeline": result.predictor.pipeline,
        "source": slowest.profile.gpu,
        "simulated": result.simulated,
        "cycle": None if slowest.cycle is None else asdict(slowest.cycle),
        "precision": likely_precisions(slowest.profile, slowest.gpu)[0],
        **vars(result.use),
        "idle_at_boundaries": result.idle_at_boundaries,
        **rates(result.throughput),
    }


def _detection(detection: Detection | None) -> dict[str, Any] | None:
    if detection is None:
        return None
    return {
        **{name: getattr(detection, name) for name in ("verdict", "unit", "period_s", "reason")},
        # That of the best candidate, where none was good enough, says nothing of an answer.
        "confidence": 0.0 if detection.period_s is None else min(max(detection.confidence, 0.0), 1.0),
        "cycles": [asdict(cycle) for cycle in detection.cycles],
    }


def _gpu(result: JobResult, place: int) -> dict[str, Any]:
    source: Source = result.sources[place]
    several = len(result.sources) > 1
    return {
        "trace": source.name,
        "source": source.profile.gpu,
        "simulated": source.profile.simulated,
        "metrics": sorted(source.profile.metrics),
        "ofu": overall_flop_utilization(source.profile, source.gpu),
        "held_idle_s": source.profile.held_idle_s,
        "throttled": source.profile.throttled,
        "cycle": None if source.cycle is None else asdict(source.cycle),
        **{key: getattr(source.profile, key) for key in _OF_PROFILE},
        "detection": _detection(source.detection),
        "predictions": [answer.predictions[place].to_json() for answer in result.answers] if several else [],
    }


def _target(answer: Answer, result: JobResult) -> dict[str, Any]:
    prediction, joules = answer.prediction, answer.job_joules
    job = None if answer.job is None else {**answer.job.to_json(), **({} if joules is None else joules.to_json("joules"))}
    energy = None if answer.energy is None else answer.energy.to_json()
    of_unit = None if answer.energy is None else answer.energy.joules
    for document, of in ((job, joules), (energy, of_unit)):
        if document is not None and (grams := grams_of(of, result.carbon_intensity)) is not None:
            document |= grams.to_json("grams_co2e")
    return {
        **prediction.to_json(),
        "by_data_sheet": by_data_sheet(prediction.route),
        "fits": answer.fits,
        "energy": energy,
        "job": job,
        **rates(result.throughput, prediction.ratio),
        "trace": result.sources[answer.slowest].name if len(result.sources) > 1 else None,
        "spread": answer.spread,
    }


def _current(result: JobResult, row: Recommendation, on: Rented) -> dict[str, Any]:
    return {
        **row.instance.place,
        "gpu_count": row.instance.count,
        "instances": row.instances,
        "usd_per_hour": row.usd_per_hour,
        "seconds": None if row.seconds is None else row.seconds.value,
        "usd": None if row.usd is None else row.usd.value,
        "usd_per_gpu_hour": on.usd_per_gpu_hour,
        "assumed": on.assumed,
        "price_stale": row.price_stale,
        **emissions(result, row, result.profile.gpus).to_json(),
    }


def _savings(
    now: Recommendation | None, cheapest: Recommendation | None, fastest: Recommendation | None, epoch_s: float | None
) -> dict[str, Any] | None:
    if now is None or cheapest is None or fastest is None:
        return None
    per_unit = None
    if epoch_s is not None:
        per_hour = now.prediction.ratio * now.usd_per_hour - cheapest.prediction.ratio * cheapest.usd_per_hour
        per_unit = per_hour * epoch_s / 3600
    return {
        "cost_ratio": 1 - cost_of(cheapest) / cost_of(now),
        "time_ratio": 1 - time_of(fastest) / time_of(now),
        "usd_per_unit": per_unit,
    }
