"""No dashboard and no rule names a metric or a label that nobody exports; the modelled fleet exports what real ones do."""

import re
from collections import defaultdict
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from epochcast.agent.catalog import catalog as agent_catalog
from epochcast.agent.config import Config, Push
from epochcast.agent.exposition import LABELS, registry
from epochcast.agent.node import Node
from epochcast.agent.processes import ProcessCollector
from epochcast.agent.push import PushCollector, Pusher
from epochcast.analyzer.live.metrics import catalog
from lab.speed.service import modelled_fleet, modelled_series

TARGET = {"job", "instance"}
OTHERS = {
    "up": TARGET,
    "process_cpu_seconds_total": TARGET,
    "process_resident_memory_bytes": TARGET,
    "ALERTS": {"alertname", "severity", "alertstate"},
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Labels, those of the scrape too, by the name of each sample that agents and analyzers export."""
    for extra in ("google.protobuf", "cramjam"):
        pytest.importorskip(extra, reason="the extra agent-push is not installed")
    trace = tmp_path_factory.mktemp("trace") / "trace.csv"
    trace.write_text(f"time,{','.join(agent_catalog())}\n1000{',0.5' * len(agent_catalog())}\n")
    config = Config(replay=trace, push=Push(url="http://localhost:9/api/v1/write"))
    node = Node(config)
    everything = registry(node, config)
    everything.register(PushCollector(Pusher(node, config.push)))
    page = generate_latest(everything).decode()
    node.stop()
    names: dict[str, set[str]] = defaultdict(set)
    for line in page.splitlines():
        kind = re.match(r"# TYPE (\w+) (\w+)", line)
        if kind and kind[1].startswith("epochcast_"):
            suffixes = ("_bucket", "_sum", "_count") if kind[2] == "histogram" else ("",)
            for suffix in suffixes:
                names[kind[1] + suffix] |= TARGET | ({"le"} if suffix == "_bucket" else set())
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in names:
                names[sample.name] |= set(sample.labels)
    # What has no line before the first sample, or while nothing was blank.
    for name in names:
        if name.startswith("epochcast_gpu_") and not name.endswith(("_source_fallback", "_info")):
            names[name] |= set(LABELS)
    for metric in agent_catalog().values():  # remote write has the newest value of each
        names[metric.prometheus + ("_total" if metric.kind == "counter" else "")] |= TARGET | set(LABELS)
    for name in ("memory_bytes", "sm_utilization_ratio"):
        names[f"epochcast_gpu_process_{name}"] = TARGET | set(ProcessCollector.LABELS)
    names["epochcast_agent_config_last_reload_successful"] = TARGET
    names["epochcast_agent_last_sample_timestamp_seconds"] |= {"source"}
    names["epochcast_gpu_xid_errors_total"] |= {"xid"}
    names["epochcast_gpus_driver_failure"] |= {"code", "reason"}
    for name in ("blanks", "implausible_values"):
        names[f"epochcast_agent_{name}_total"] |= {"gpu", "uuid", "metric"}
    for metric in catalog().values():
        suffixes = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        for suffix in suffixes:
            names[metric.name + suffix] = {*metric.labels, *TARGET} | ({"le"} if suffix == "_bucket" else set())
    return {**names, **OTHERS}


def test_rules_name_metrics_and_labels_that_exist(root: Path, exported: dict[str, set[str]]) -> None:
    files = ("training_rules.yml", "training_alerts.yml", "alerts.yml")
    rules = "".join((root / "dashboards" / name).read_text() for name in files)
    recorded = set(re.findall(r"record: (\S+)", rules))
    named = set(re.findall(r"\b(?:training_job|gpu)\w*:epochcast_\w+:\w+", rules))
    assert named == recorded
    expressions = re.sub(r"#.*", "", rules)
    expressions = re.sub(r"(summary|description|runbook): .*(\n {12}.*)*", "", expressions)
    expressions = re.sub(r"((?:training_job|gpu)\w*:epochcast_\w+:\w+)", "vector(0)", expressions)
    used = _check([expressions], exported)
    assert len(used) > 40


def _check(expressions: list[str], exported: dict[str, set[str]]) -> set[str]:
    used = set()
    for expression in expressions:
        for name, selector in re.findall(r"\b(epochcast_\w+|process_\w+|up|ALERTS)\b(?:\{([^}]*)\})?", expression):
            assert name in exported, f"nobody exports {name}: {expression}"
            labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
            assert labels <= exported[name], f"{name} has no label {labels - exported[name]}"
            used.add(name)
    return used


def test_the_modelled_fleet_exports_what_the_real_ones_do(exported: dict[str, set[str]]) -> None:
    now = 1_700_000_000.0
    jobs = modelled_fleet.fleet(now)
    modelled: dict[str, set[str]] = defaultdict(set)
    for one in (*modelled_series.agent_series(jobs, now), *modelled_series.analyzer_series(jobs, now)):
        modelled[one.name] |= set(one.labels)
    assert set(modelled) <= set(exported)
    differing = {name: labels ^ exported[name] for name, labels in modelled.items() if labels != exported[name]}
    assert {name: odd for name, odd in differing.items() if name != "ALERTS"} == {}
    # All that the analyzers export has a value in the model, so that no query goes untested.
    sampled = {re.sub("_(bucket|sum|count)$", "", name) for name in modelled}
    assert set(catalog()) - sampled == set()
