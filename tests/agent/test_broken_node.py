"""Nodes that are broken, each as an SRE meets it: never ready, the reason in a metric, whole again without a restart."""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from ..processes import Program, free_port

Start = Callable[..., Program]
# The agent's own patience, shorter: nobody waits a third of a minute in a test.
RUN = (
    "import sys; from epochcast.agent import cli, daemon, node; daemon.LONGEST_START_S = node.DRIVER_RETRY_S = 0.5; "
    "node.LONGEST_CALL_S = 2.0; sys.exit(cli.main())"
)


@pytest.fixture
def start(tmp_path: Path, nvml_library: Path, nvml_scenario: Any, until: Any) -> Iterator[Start]:
    """Start an agent of a node with so many GPUs that finds NVIDIA's library in a folder of its own."""
    agents: list[Program] = []

    def begin(gpus: int, *options: object) -> Program:
        (tmp_path / "lib").mkdir(exist_ok=True)
        (tmp_path / "agent.toml").write_text(f"gpus = {gpus}\n")
        port = free_port()
        command = [sys.executable, "-c", RUN, "--config", tmp_path / "agent.toml", "--port", port, *options]
        environment = {"LD_LIBRARY_PATH": str(tmp_path / "lib"), "NVML_STUB_SCENARIO": str(nvml_scenario.path)}
        agents.append(Program(command, f"http://127.0.0.1:{port}", tmp_path / "log", environment))
        agents[-1].start()
        until(lambda: agents[-1].answers("/metrics"))
        return agents[-1]

    yield begin
    for agent in agents:
        assert agent.stop() == 0


@pytest.fixture
def install(tmp_path: Path, nvml_library: Path) -> Callable[[], None]:
    """Put NVIDIA's library where the agent looks for it."""
    return lambda: (
        shutil.copy(nvml_library, tmp_path / "lib" / "new")
        and (tmp_path / "lib" / "new").rename(tmp_path / "lib" / nvml_library.name)
    )


def readiness(agent: Program) -> tuple[int, Any]:
    try:
        return 200, agent.json("/readyz")
    except HTTPError as error:
        return error.code, json.loads(error.read())


def values(agent: Program, pattern: str) -> dict[str, float]:
    """The lines of the page whose series match."""
    lines = [line.rpartition(" ") for line in agent.get("/metrics").splitlines() if re.match(pattern, line)]
    return {series: float(value) for series, _, value in lines}


def healthy(agent: Program) -> bool:
    return readiness(agent)[0] == 200 and not values(agent, "epochcast_gpus_driver_failure{")


def broken(agent: Program, code: object, reason: str, gpus: int) -> None:
    status, answer = readiness(agent)
    assert (status, answer["status"], answer["present"], answer["expected"]) == (503, "driver does not answer", 0, gpus)
    assert reason in answer["reason"]
    (series,) = values(agent, "epochcast_gpus_driver_failure{")
    assert f'code="{code}"' in series and reason in series
    assert values(agent, "epochcast_gpus_expected") == {"epochcast_gpus_expected": gpus}
    assert values(agent, "epochcast_gpus_present") == {"epochcast_gpus_present": 0}
    assert not values(agent, "epochcast_host_|epochcast_gpu_up")  # nobody takes the CPUs for a GPU


def test_a_library_that_is_missing_and_comes(start: Start, install: Any, until: Any) -> None:
    agent = start(2)
    broken(agent, 12, "NVML Shared Library Not Found", 2)
    install()
    until(lambda: healthy(agent))
    assert values(agent, "epochcast_gpus_present") == {"epochcast_gpus_present": 2}


def test_a_library_that_cannot_be_read(start: Start, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libnvidia-ml.so.1").write_bytes(b"half an upgrade")
    broken(start(1), 12, "NVML Shared Library Not Found", 1)


@pytest.mark.parametrize(
    ("code", "reason"), [(9, "Driver Not Loaded"), (18, "RM has detected an NVML/RM version mismatch."), (999, "Unknown Error")]
)
def test_a_driver_that_does_not_start_and_then_does(
    start: Start, install: Any, nvml_scenario: Any, until: Any, code: int, reason: str
) -> None:
    nvml_scenario(f"gpus 2\nfail nvmlInit {code} *")
    (nvml_scenario.path.parent / "lib").mkdir()
    install()
    agent = start(2)
    broken(agent, code, reason, 2)
    nvml_scenario("gpus 2")
    install()  # another file: what is loaded does not fit the driver
    until(lambda: healthy(agent))


def test_what_breaks_while_it_runs(start: Start, install: Any, nvml_scenario: Any, until: Any) -> None:
    (nvml_scenario.path.parent / "lib").mkdir()
    install()
    nvml_scenario("gpus 7\nmig 2 7:1g.18gb 9:1g.18gb\nodd 3")
    agent = start(8)
    # Seven of eight: the driver shows no more, and says nothing about the other.
    until(lambda: readiness(agent)[1]["present"] == 7)
    status, answer = readiness(agent)
    assert (status, answer["status"], answer["expected"]) == (503, "GPUs missing", 8)
    assert sum(values(agent, "epochcast_gpu_up{").values()) == 9  # with two instances
    assert "NVIDIA H200 \N{REPLACEMENT CHARACTER}" in agent.get("/metrics")
    nvml_scenario("gpus 7\nmig 2 7:1g.18gb 9:1g.18gb\nodd 3\nxid 1 1 95\nxid 2 1 45\nxid 3 1 45\nxid 4 5 79\nlost 5")
    until(lambda: values(agent, "epochcast_gpus_present") == {"epochcast_gpus_present": 6})
    until(lambda: len(values(agent, "epochcast_gpu_xid_errors_total{")) == 3)
    errors = {
        (series.split('gpu="')[1][0], series.split('xid="')[1].split('"')[0]): value
        for series, value in values(agent, "epochcast_gpu_xid_errors_total{").items()
    }
    assert errors == {("1", "95"): 1, ("1", "45"): 2, ("5", "79"): 1}
    until(lambda: [gpu["gpu"] for gpu in readiness(agent)[1]["missing"]] == ["5"])
    # The driver goes as a whole: why is known, and the errors before are not forgotten.
    nvml_scenario("gpus 7\nlost *\ngeneration 1\nfail nvmlInit 9 *")
    until(lambda: values(agent, 'epochcast_gpus_driver_failure{code="9"'))
    assert readiness(agent)[1]["status"] == "driver does not answer"
    assert len(values(agent, "epochcast_gpu_xid_errors_total{")) == 3


def test_a_driver_that_lacks_much_is_ready(start: Start, install: Any, nvml_scenario: Any, until: Any) -> None:
    """As under WSL: most calls say that they are not supported."""
    (nvml_scenario.path.parent / "lib").mkdir()
    install()
    absent = ("GetFieldValues", "GetTotalEnergyConsumption", "GetBAR1MemoryInfo", "GetMigMode", "RegisterEvents", "GetSerial")
    nvml_scenario("gpus 1\ngpu 0 a100\n" + "".join(f"fail nvmlDevice{name} 3 *\n" for name in absent))
    agent = start(0)
    until(lambda: healthy(agent))
    assert values(agent, "epochcast_gpus_present") == {"epochcast_gpus_present": 1}


def test_a_call_that_hangs_blinds_its_gpu_alone(start: Start, install: Any, nvml_scenario: Any, until: Any) -> None:
    (nvml_scenario.path.parent / "lib").mkdir()
    install()
    nvml_scenario("gpus 4")
    agent = start(4)
    until(lambda: healthy(agent))
    nvml_scenario("gpus 4\nhang nvmlDeviceGetTemperature 2")
    until(lambda: values(agent, "epochcast_gpus_present") == {"epochcast_gpus_present": 0})  # all wait behind it
    until(lambda: values(agent, "epochcast_gpus_present") == {"epochcast_gpus_present": 3})
    assert [gpu["gpu"] for gpu in readiness(agent)[1]["missing"]] == ["2"]
    assert "GPU GPU-stub-2 hangs" in agent.log.read_text()
    nvml_scenario("gpus 4")
    until(lambda: healthy(agent))
    assert values(agent, "epochcast_gpus_present") == {"epochcast_gpus_present": 4}


def test_a_driver_that_hangs_at_the_start_is_waited_for(start: Start, install: Any, nvml_scenario: Any, until: Any) -> None:
    (nvml_scenario.path.parent / "lib").mkdir()
    install()
    nvml_scenario("gpus 2\nhang nvmlDeviceGetName 1")
    agent = start(2)
    broken(agent, "", "the driver has not answered for 2 s", 2)
    nvml_scenario("gpus 2")
    until(lambda: healthy(agent))


def test_a_critical_alert_names_the_reason_within_a_minute(
    start: Start, install: Any, nvml_scenario: Any, database: Any, until: Any, root: Path, tmp_path: Path
) -> None:
    """By a real Prometheus with the shipped rules at their own pace."""
    (tmp_path / "lib").mkdir()
    install()
    nvml_scenario("gpus 2")
    agent = start(2)
    rules = root / "dashboards" / "alerts.yml"
    prometheus = database("prometheus", agent.url.rpartition(":")[2], interval="15s", rules=rules)
    until(lambda: prometheus.query("epochcast_gpus_present"))
    nvml_scenario("gpus 2\ngeneration 1\nfail nvmlInit 18 *")
    until(lambda: readiness(agent)[1]["status"] == "driver does not answer")
    firing = 'ALERTS{alertname="EpochcastDriverFailing",alertstate="firing",severity="critical"}'
    until(lambda: prometheus.query(firing), 60)
    (alert,) = prometheus.query(firing)
    assert alert["metric"]["code"] == "18" and "mismatch" in alert["metric"]["reason"]
