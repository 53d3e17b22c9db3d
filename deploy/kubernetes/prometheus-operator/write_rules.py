"""Writes rules.yaml: the recording rules and alerts of dashboards/ as a PrometheusRule of the Prometheus operator.

Run it after a change there: ``python deploy/kubernetes/prometheus-operator/write_rules.py``; a test fails until then.
"""

from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
DASHBOARDS = HERE.parents[2] / "dashboards"
HEAD = "# Written by write_rules.py from the rule files in dashboards/: edit those.\n"


def prometheus_rule(dashboards: Path) -> dict[str, Any]:
    """The rule files that ``prometheus.yml`` names there, in its order, as one object."""
    names = yaml.safe_load((dashboards / "prometheus.yml").read_text(encoding="utf-8"))["rule_files"]
    groups = [group for name in names for group in yaml.safe_load((dashboards / name).read_text(encoding="utf-8"))["groups"]]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "epochcast"},
        "spec": {"groups": groups},
    }


def main() -> None:
    """Write the file."""
    text = yaml.safe_dump(prometheus_rule(DASHBOARDS), sort_keys=False, width=120, allow_unicode=True)
    (HERE / "rules.yaml").write_text(HEAD + text, encoding="utf-8")


if __name__ == "__main__":
    main()
