"""Alerts and recording rules: accepted, tested, explained."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

RULES = ("training_rules.yml", "training_alerts.yml")


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool on this machine (Debian: apt install prometheus)")
    command = [program, *map(str, arguments)]
    # Its garbage is collected less often, and by no other thread: a quarter of the time.
    environment = os.environ | {"GOGC": "800", "GOMAXPROCS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)


@pytest.mark.parametrize("name", RULES)
def test_promtool_finds_no_fault_in_the_rules(root: Path, name: str) -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", root / "dashboards" / name)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_is_configured_to_read_all_rules_and_to_scrape_all_parts(root: Path) -> None:
    config = yaml.safe_load((root / "dashboards" / "prometheus.yml").read_text())
    assert set(config["rule_files"]) == {"alerts.yml", *RULES}
    jobs = {scrape["job_name"]: scrape["static_configs"][0]["targets"] for scrape in config["scrape_configs"]}
    assert jobs == {
        "epochcast-agent": ["localhost:9911"],
        "epochcast-node": ["localhost:9912"],
        "epochcast-analyzer": ["localhost:9913"],
    }


def test_each_alert_fires_when_it_should_and_is_quiet_when_it_should_not(root: Path) -> None:
    done = promtool("test", "rules", root / "tests" / "dashboards" / "training_alerts_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tested_and_has_its_place_in_the_runbook(root: Path) -> None:
    groups = yaml.safe_load((root / "dashboards" / "training_alerts.yml").read_text())["groups"]
    alerts = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    fired = set(re.findall(r'alertname="(\w+)"', (root / "tests" / "dashboards" / "training_alerts_test.yml").read_text()))
    assert fired == set(alerts)
    page = (root / "docs" / "dashboards.md").read_text()
    for name, rule in alerts.items():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}
        assert rule["annotations"]["runbook"] == f"docs/dashboards.md#{name.lower()}"
        assert f"\n#### {name}\n" in page, f"{name} has no place in docs/dashboards.md"
    records = re.findall(r"record: (\S+)", (root / "dashboards" / "training_rules.yml").read_text())
    assert [record for record in records if f"`{record}`" not in page] == []
