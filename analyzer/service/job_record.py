"""What the store keeps of a job: so that its id stays the same after a restart, and that it is still answered when it ended."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...regressor.profile import Profile
from ..jobs.answers import JobAnswer
from ..jobs.grouping import Known
from ..live.report import Device

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobRecord:
    """A job as it was told last.

    Attributes:
        answer: all of it.
        members: UUID of a GPU -> `Report.job_since` there.
        devices: its GPUs.
        profiles: by UUID, of those that have one.
        told: unix seconds at which it last went on.
    """

    answer: JobAnswer
    members: Mapping[str, float]
    devices: tuple[Device, ...]
    profiles: Mapping[str, Profile]
    told: float

    @property
    def known(self) -> Known:
        """What the grouping needs to know of it."""
        answer = self.answer
        return Known(answer.id, answer.grouped_by, answer.title, answer.since or 0.0, self.members)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            # Through text, which has null for what is not finite: such a figure of one job must hold up no other.
            "answer": json.loads(self.answer.model_dump_json()),
            "members": dict(self.members),
            "devices": [asdict(device) | {"static": dict(device.static)} for device in self.devices],
            "profiles": {uuid: profile.to_json() for uuid, profile in self.profiles.items()},
        }

    @classmethod
    def from_json(cls, data: Any, told: float) -> JobRecord | None:
        """Build it again; None, and a line in the log, where another version wrote it otherwise."""
        try:
            return cls(
                JobAnswer.model_validate(data["answer"]),
                {str(uuid): float(since) for uuid, since in data["members"].items()},
                tuple(Device(**device) for device in data["devices"]),
                {uuid: Profile.from_json(profile) for uuid, profile in data["profiles"].items()},
                told,
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("an ended job is left out because another version wrote it: %s", error)
            return None
