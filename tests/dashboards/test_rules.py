"""Alerts and recording rules: accepted, tested, explained."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

RULES = ("training_rules.yml", "training_alerts.yml")
# Alerts -> their tests, and the page that explains them.
ALERTS = {
    "alerts.yml": ("tests/alerts_test.yml", "docs/agent.md"),
    "training_alerts.yml": ("tests/dashboards/training_alerts_test.yml", "docs/dashboards.md"),
}


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool on this machine (Debian: apt install prometheus)")
    command = [program, *map(str, arguments)]
    # Its garbage is collected less often, and by no other thread: a quarter of the time.
    environment = os.environ | {"GOGC": "800", "GOMAXPROCS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)


def test_promtool_finds_no_fault_in_the_rules_and_in_the_configuration_that_names_them(root: Path) -> None:
    folder = root / "dashboards"
    for command in (
        ("rules", "--lint=all", "--lint-fatal", *(folder / name for name in RULES)),
        ("config", folder / "prometheus.yml"),
    ):
        done = promtool("check", *command)
        assert done.returncode == 0, done.stdout + done.stderr
    config = yaml.safe_load((folder / "prometheus.yml").read_text())
    assert set(config["rule_files"]) == {"alerts.yml", *RULES}
    jobs = {scrape["job_name"]: scrape["static_configs"][0]["targets"] for scrape in config["scrape_configs"]}
    assert jobs == {
        "epochcast-agent": ["localhost:9911"],
        "epochcast-node": ["localhost:9912"],
        "epochcast-analyzer": ["localhost:9913"],
    }


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_fires_when_it_should_and_is_quiet_when_it_should_not(root: Path, name: str) -> None:
    done = promtool("test", "rules", root / ALERTS[name][0])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_is_tested_and_explained(root: Path, name: str) -> None:
    groups = yaml.safe_load((root / "dashboards" / name).read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    tests, page = ((root / place).read_text() for place in ALERTS[name])
    assert sorted(set(re.findall(r'alertname="(\w+)"', tests))) == sorted(rule["alert"] for rule in rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert "summary" in rule["annotations"]
        assert f"`{rule['alert']}`" in page or f"\n#### {rule['alert']}\n" in page, f"{rule['alert']} is explained nowhere"


def test_alerts_of_training_have_their_place_in_the_runbook(root: Path) -> None:
    groups = yaml.safe_load((root / "dashboards" / "training_alerts.yml").read_text())["groups"]
    page = (root / "docs" / "dashboards.md").read_text()
    for alert, rule in ((rule["alert"], rule) for group in groups for rule in group["rules"]):
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}
        assert rule["annotations"]["runbook"] == f"docs/dashboards.md#{alert.lower()}"
        assert f"\n#### {alert}\n" in page, f"{alert} has no place in docs/dashboards.md"
    records = re.findall(r"record: (\S+)", (root / "dashboards" / "training_rules.yml").read_text())
    assert [record for record in records if f"`{record}`" not in page] == []
