"""The detector's search, remembered: most tests of what comes after it give the same trace to several commands."""

import pickle
from collections.abc import Iterator
from functools import wraps
from hashlib import sha256
from typing import Any

import pytest

from epochcast.detector import Detection
from epochcast.detector.methods import track

KEPT = 32
"""So many answers: a watched job is searched every few seconds, each time in other signals."""


@pytest.fixture(scope="module", autouse=True)
def searched_once() -> Iterator[None]:
    """Search equal signals once in a file of tests: the answer is a function of these alone, and cannot be changed."""
    search, answers = track.detect, dict[bytes, Detection]()

    @wraps(search)
    def remembered(*signals: Any, **parameters: Any) -> Detection:
        key = sha256(pickle.dumps((signals, parameters))).digest()
        if key not in answers:
            if len(answers) == KEPT:
                del answers[next(iter(answers))]
            answers[key] = search(*signals, **parameters)
        return answers[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(track, "detect", remembered)
        yield
