"""What a tested job says of itself."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from epochcast.regressor.profile import Profile

STATED: Mapping[str, Callable[[Profile], Profile]] = {
    "family": lambda profile: profile,
    "type": lambda profile: replace(profile, workload=None, group=None),
    "nothing": lambda profile: replace(profile, workload=None, group=None, type=None),
}
"""Name -> the profile with so much of it: all, its type without its family, or neither."""
