"""Ten thousand uploads of the fuzzer, to a real process: what they leave behind shows in its memory."""

from pathlib import Path

import pytest

from .test_fuzz import UPLOADS, damaged_onnx, fuzz
from .test_process import Service

# Of the second half; what is loaded once, and what the allocator keeps, is there after the first.
MOST_GROWTH_MB = 20


@pytest.mark.soak
def test_ten_thousand_uploads_end_nothing_and_leave_nothing_behind(tmp_path: Path) -> None:
    kinds = {**UPLOADS, "onnx": damaged_onnx()}
    half = {kind: 200 if kind == "onnx" else 1000 for kind in kinds}
    assert 2 * sum(half.values()) >= 10_000
    service = Service(tmp_path, "[limits]\nrequests_per_minute = 0\n")
    try:
        resident = []
        for _ in range(2):
            refused = {kind: fuzz(service.client, uploads, half[kind]) for kind, uploads in kinds.items()}
            assert all(refused[kind] > half[kind] / 4 for kind in kinds), refused
            resident.append(service.metric("process_resident_memory_bytes") / 1e6)
        assert resident[1] - resident[0] < MOST_GROWTH_MB, resident
        assert service.metric("epochcast_analyzer_worker_restarts_total") == 0
        assert service.client.get("/healthz").status_code == 200
    finally:
        service.process.kill()
        service.process.wait()
