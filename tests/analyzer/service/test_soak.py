"""Twelve thousand uploads of the fuzzer, to a real process: what they leave behind shows in its memory and its workers'."""

import logging
from pathlib import Path

import numpy as np
import psutil
import pytest

from .test_fuzz import UPLOADS, fuzz
from .test_process import Service

log = logging.getLogger(__name__)

# Of all processes together, in the second half; what is loaded once, and what the allocator keeps, is there after the first.
MOST_GROWTH_MB = 20


@pytest.mark.soak
def test_twelve_thousand_uploads_end_nothing_and_leave_nothing_behind(tmp_path: Path) -> None:
    half = 6000 // len(UPLOADS)
    service = Service(tmp_path)
    try:
        resident = []
        for _ in range(2):
            refused = {kind: fuzz(service.client, uploads, half) for kind, uploads in UPLOADS.items()}
            assert all(count > half / 4 for count in refused.values()), refused
            resident.append([psutil.Process(pid).memory_info().rss / 1e6 for pid in (service.process.pid, *service.children)])
            log.info("refused: %s; resident: service, watcher and workers %s MB", refused, np.round(resident[-1]))
        assert sum(resident[1]) - sum(resident[0]) < MOST_GROWTH_MB, resident
        assert service.metric("epochcast_analyzer_worker_restarts_total") == 0
        assert service.client.get("/healthz").status_code == 200
    finally:
        service.process.kill()
        service.process.wait()
