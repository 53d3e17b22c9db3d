"""Fixtures of other rooms that the workshop's tests use."""

from ..detector.conftest import cpu_training, real_trace
from ..regressor.conftest import catalog, made_up_profiles, make_profile, pairs, public_profiles, rates

__all__ = ["catalog", "cpu_training", "made_up_profiles", "make_profile", "pairs", "public_profiles", "rates", "real_trace"]
