"""What an operator installs is accepted by the tools that will read it."""

import shutil
import subprocess
from pathlib import Path

import pytest


def test_prometheus_accepts_the_scrape_configuration(root: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool (Debian's prometheus) is not installed")
    done = subprocess.run(
        [promtool, "check", "config", root / "dashboards" / "prometheus.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_systemd_accepts_the_unit(root: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    # The command need not be installed where the unit says for the unit to be right.
    unit = (root / "systemd" / "epochcast-agent.service").read_text().replace("/usr/local/bin/epochcast-agent", "/bin/true")
    path = tmp_path / "epochcast-agent.service"
    path.write_text(unit)
    done = subprocess.run([analyze, "verify", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(path.name) not in done.stderr
