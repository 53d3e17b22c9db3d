"""The host engine: where it is, that it restarts, and what its clients share."""

import logging
import sys
from typing import Any

import numpy as np
import pytest

from epochcast.agent.config import Config, Dcgm
from epochcast.agent.sources import Tick
from epochcast.common.errors import InputError


def test_a_host_engine_that_restarts(
    host: Any, open_dcgm: Any, caplog: pytest.LogCaptureFixture, read: Any, column: Any
) -> None:
    source = open_dcgm()
    rows = read(source, 2)
    host.stop()
    failures = 0
    for second in range(2, 12):
        host.advance(1.0)
        with pytest.raises(RuntimeError, match="DCGM host engine"):
            source.read(Tick(host.now / 1e6, float(second), True, False))
        failures += host.where["timeoutMs"] == 3000
    # Lost at 2; tried again after 1, 2, 4 … s: at 3, 5, 9; the other seconds do not ask.
    host.restart()
    with pytest.raises(RuntimeError):
        source.read(Tick(host.now / 1e6, 16.0, True, False))
    assert not host.connections[1:]
    with caplog.at_level(logging.WARNING):
        rows += read(source, 3, start=17)
    assert "answers again" in caplog.text
    time, _ = column(source, rows, 0, "sm_active")
    assert (np.diff(time) > 0).all()
    assert time[-1] > host.now / 1e6 - 1
    assert not source.outdated
    assert not source.blanks  # the blank with which profiling starts again is no loss


def test_one_connection_per_process(host: Any, open_dcgm: Any, read: Any) -> None:
    first, second = open_dcgm(), open_dcgm(only=frozenset({"GPU-aaaa"}))
    assert host.most_connections == 1
    assert read(first, 2)
    assert read(second, 2)
    first.close()
    assert host.connections
    assert read(second, 2, start=2)
    second.close()
    assert not (host.connections or host.watches or host.field_groups or sys.modules["pydcgm"].DcgmFieldGroup.groups)
    third = open_dcgm()
    host.restart()
    third.close()  # of which nothing is left there
    assert not host.connections


def test_other_gpus_after_a_restart_make_the_source_outdated(host: Any, open_dcgm: Any, read: Any) -> None:
    source = open_dcgm()
    read(source, 1)
    host.restart()
    host.gpus = {0: "GPU-aaaa"}
    for second in (1, 3):
        with pytest.raises(RuntimeError):
            source.read(Tick(host.now / 1e6, float(second), True, False))
    assert source.outdated


def test_a_gpu_added_or_mig_set_up_anew_makes_the_source_outdated(host: Any, open_dcgm: Any, read: Any) -> None:
    source = open_dcgm()
    read(source, 59)
    assert not source.outdated
    host.instances = {3: (0, 7, "3g.40gb")}
    assert read(source, 2, start=59)
    assert source.outdated


def test_profiling_lost_over_a_restart_makes_the_source_outdated(host: Any, open_dcgm: Any, read: Any) -> None:
    source = open_dcgm()
    host.restart()
    host.profiling_error = sys.modules["dcgm_structs"].DCGM_ST_MODULE_NOT_LOADED
    with pytest.raises(RuntimeError):
        source.read(Tick(host.now / 1e6, 0.0, True, False))
    read(source, 2, start=2)
    assert source.outdated


@pytest.mark.parametrize(
    ("dcgm", "where"),
    [
        (Dcgm(), {"ipAddress": "127.0.0.1:5555", "unixSocketPath": None, "timeoutMs": 3000}),
        (Dcgm(address="unix:/run/dcgm.sock"), {"ipAddress": None, "unixSocketPath": "/run/dcgm.sock", "timeoutMs": 3000}),
        (Dcgm(embedded=True), {"ipAddress": None, "unixSocketPath": None, "timeoutMs": 0}),
    ],
)
def test_where_the_host_engine_is(host: Any, open_dcgm: Any, dcgm: Dcgm, where: dict[str, Any]) -> None:
    open_dcgm(Config(dcgm=dcgm))
    assert host.where == where


@pytest.mark.parametrize(
    ("changes", "dcgm", "message"),
    [
        ({"running": False}, Dcgm(), r"host engine at 127\.0\.0\.1:5555 does not answer \(.+\); start it"),
        ({"running": False}, Dcgm(embedded=True), "does not start within the agent .+ needs root"),
        ({"library": False}, Dcgm(), r"has DCGM's Python bindings \(.+\) but not its library"),
        ({"gpus": {}}, Dcgm(), "finds no GPU that DCGM supports"),
        ({"unknown_fields": frozenset(range(2000))}, Dcgm(), "can read none of the enabled metrics"),
    ],
)
def test_what_cannot_work_is_one_sentence(
    reset: Any, open_dcgm: Any, changes: dict[str, Any], dcgm: Dcgm, message: str
) -> None:
    host = reset(**changes)
    with pytest.raises(InputError, match=message) as caught:
        open_dcgm(Config(dcgm=dcgm))
    assert "\n" not in str(caught.value)
    assert not host.connections
