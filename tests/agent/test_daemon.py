"""The running agent reloads its settings (SIGHUP), while it samples."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Reload = Callable[[str], None]


@pytest.fixture
def agent(tmp_path: Path, start_agent: Any) -> Iterator[Any]:
    (tmp_path / "agent.toml").write_text('source = "host"\n')
    yield start_agent("--config", tmp_path / "agent.toml")


@pytest.fixture
def reload(tmp_path: Path, agent: Any) -> Reload:
    """Let the agent read these settings."""

    def reload(text: str) -> None:
        (tmp_path / "agent.toml").write_text(text)
        agent.process.send_signal(signal.SIGHUP)

    return reload


def test_new_settings_take_hold_and_the_samples_stay(agent: Any, reload: Reload, until: Any) -> None:
    until(lambda: len(agent.json("/api/v1/samples")["gpus"][0]["time"]) > 2)
    before = agent.json("/api/v1/samples")["gpus"][0]["time"]
    reload('source = "host"\nwindow = 7\n[tiers]\nrss = "off"\n[web]\nconnections = 4\n')
    until(lambda: "last 7 s window" in agent.text("/metrics"))
    (host,) = agent.json("/api/v1/samples")["gpus"]
    assert host["time"][: len(before)] == before
    assert "rss" not in host["metrics"]
    assert "\nepochcast_agent_config_last_reload_successful 1.0\n" in agent.text("/metrics")
    until(lambda: agent.json("/api/v1/samples")["gpus"][0]["time"][-1] > host["time"][-1])
    status, errors = agent.stop()
    assert status == 0
    assert "the setting web takes effect only after a restart" in errors
    assert "Traceback" not in errors


def test_settings_that_cannot_be_change_nothing(agent: Any, reload: Reload, until: Any) -> None:
    bad = (
        ("window = 7\nprot = 1\n", "unknown setting 'prot'"),
        # Valid, but there is no such page: the host is read on.
        ('window = 7\nsource = "dcgm-exporter"\nexporter = "http://127.0.0.1:1/metrics"\n', "keeping the old settings"),
    )
    for text, said in bad:
        reload(text)
        while "the settings were not reloaded" not in (line := agent.process.stderr.readline()):
            assert line and "Traceback" not in line
        assert said in line
        until(lambda: agent.json("/readyz")["status"] == "ready")
        newest = agent.json("/api/v1/samples")["gpus"][0]["time"][-1]
        until(lambda newest=newest: agent.json("/api/v1/samples")["gpus"][0]["time"][-1] > newest + 0.15)
        assert "last 5 s window" in (page := agent.text("/metrics"))
        assert "\nepochcast_agent_config_last_reload_successful 0.0\n" in page
    reload("window = 7\n")
    until(lambda: "\nepochcast_agent_config_last_reload_successful 1.0\n" in agent.text("/metrics"))
    status, errors = agent.stop()
    assert status == 0
    assert "the settings were not reloaded" not in errors
    assert "Traceback" not in errors
