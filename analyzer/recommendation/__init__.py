"""Which instance: time and cost of a job on everything that can be rented, ranked, with what is uncertain said."""

from epochcast.analyzer.recommendation.experiment import Decision, decide, trial_run
from epochcast.analyzer.recommendation.memory_fit import MemoryNeed, memory_need
from epochcast.analyzer.recommendation.rank import JobLimits, Objective, Ranking, comparable_prices, recommend
from epochcast.analyzer.recommendation.recommendation import Recommendation
from epochcast.analyzer.recommendation.whole_job import WholeJob, Work, whole_job

__all__ = [
    "Decision",
    "JobLimits",
    "MemoryNeed",
    "Objective",
    "Ranking",
    "Recommendation",
    "WholeJob",
    "Work",
    "comparable_prices",
    "decide",
    "memory_need",
    "recommend",
    "trial_run",
    "whole_job",
]
