"""Names that a path does not hold as they are, such as UUIDs of MIG devices, are found under every address."""

import re
from dataclasses import replace
from urllib.parse import quote

from starlette.testclient import TestClient

from epochcast.analyzer.live.state_store import GpuChange
from epochcast.analyzer.service.parts import Parts

from .conftest import report

UUID = "MIG-GPU-8f2c/7/0"


def test_names_with_slashes_have_addresses(parts: Parts, client: TestClient) -> None:
    made = report(7, slurm_job="7")
    made = replace(made, device=replace(made.device, uuid=UUID))
    parts.store.write_gpus([GpuChange(made, made.epochs)])
    parts.analysis.round()
    for uuid in (UUID, quote(UUID, safe="")):
        assert client.get(f"/api/v1/gpus/{uuid}").json()["uuid"] == UUID
        assert len(client.get(f"/api/v1/gpus/{uuid}/epochs").json()["epochs"]) == 5
    links = set(re.findall(r'href="(/jobs/[^"]*)"', client.get("/").text))
    assert {client.get(link).status_code for link in links} == {200}
    counted = client.get("/metrics").text
    assert 'route="/api/v1/gpus/{uuid}"' in counted
    assert 'route="/jobs/{job}"' in counted
