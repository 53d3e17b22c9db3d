"""What a tested job says of itself."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from epochcast.regressor.profile import Profile

STATED: Mapping[str, Callable[[Profile], Profile]] = {
    "family": lambda profile: replace(profile, workload=None),
    "type": lambda profile: replace(profile, workload=None, group=None),
    "nothing": lambda profile: replace(profile, workload=None, group=None, type=None),
}
"""Name -> the profile without its name: with its type and family, its type alone, or neither."""
