"""Which instance: time and cost of a job on everything that can be rented, ranked, with what is uncertain said."""

from .rank import Objective, recommend
from .recommendation import Recommendation

__all__ = ["Objective", "Recommendation", "recommend"]
