"""Every query of every panel, asked of a real Prometheus, gives what the modelled fleet says within 1 %, with the right labels.

What is expected is computed from the jobs and GPUs of the model, and never from a query.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from lab.speed.service import modelled_fleet

CHOICES = {"node": ".+", "instance": ".+", "gpu": "GPU-gpu-a-3", "training_job": "slurm-4711"}
Answers = dict[tuple[str, ...], float]
Expected = tuple[tuple[str, ...], Answers]
INSTANCES = ("gpu-a:9911", "gpu-b:9911")
ANALYZERS = ("gpu-a:9912", "central:9913")


def one(value: float) -> Expected:
    """A single series without labels."""
    return (), {(): float(value)}


def of(labels: str, answers: dict[Any, float]) -> Expected:
    """Series by the values of these labels, which stand in this order."""
    return tuple(labels.split()), {key if isinstance(key, tuple) else (key,): value for key, value in answers.items()}


class Truth:
    """What each panel has to show at a moment, by dashboard and title: a list of one expectation for each query."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.jobs = {job.id: job for job in modelled_fleet.fleet(now)}
        gpus = (gpu for job in self.jobs.values() for gpu in job.gpus)
        self.gpus = {gpu.uuid: gpu for gpu in (*gpus, modelled_fleet.spare(now))}

    def panels(self, choices: dict[str, str]) -> dict[tuple[str, str], list[Expected]]:
        boards = {
            "epochcast-fleet": self._fleet(re.compile(choices["node"])),
            "epochcast-gpu": self._gpu(self.gpus[choices["gpu"]]),
            "epochcast-job": self._job(self.jobs[choices["training_job"]]),
            "epochcast-agents": self._agents(re.compile(choices["instance"])),
        }
        return {(board, title): answers for board, panels in boards.items() for title, answers in panels.items()}

    def _mean(self, gpu: Any, column: str) -> float:
        """Mean of the last minute: from the integral, or where it is not scraped of the samples that were written."""
        return float(gpu.level(column, self.now) if gpu.pushed else gpu.mean(column, self.now - 60, self.now))

    def _fleet(self, nodes: re.Pattern[str]) -> dict[str, list[Expected]]:
        now = self.now
        gpus = [gpu for gpu in self.gpus.values() if nodes.fullmatch(gpu.node)]
        jobs = [job for job in self.jobs.values() if any(gpu in gpus for gpu in job.gpus)]
        priced = [job for job in jobs if job.usd is not None]

        def by_gpu(value: Callable[[Any], float | None]) -> Expected:
            values = {(g.uuid, g.node, str(g.index), g.name): value(g) for g in gpus}
            return of("uuid node gpu name", {key: v for key, v in values.items() if v is not None})

        def mean_by_gpu(column: str) -> Expected:
            return of("uuid node gpu", {(g.uuid, g.node, str(g.index)): self._mean(g, column) for g in gpus})

        def by_job(value: Callable[[Any], float | None], among: Iterable[Any] = jobs) -> Expected:
            return of("training_job", {job.id: v for job in among if (v := value(job)) is not None})

        def if_any(what: list[Any], value: float) -> Expected:
            return one(value) if what else ((), {})

        state = {"idle": 0.0, "searching": 1.0, "answered": 2.0}
        utilisation = {g: self._mean(g, "gpu_utilization") for g in gpus}
        place = {job.id: job.recommended["cost"] for job in priced}
        info = {(j.id, place[j.id][0], "aws", "us-east-1", place[j.id][1], "1"): 1.0 for j in priced}
        return {
            "GPUs watched": [one(len(gpus))],
            "GPUs at work": [one(sum(g.state(now) != "idle" for g in gpus))],
            "Utilisation": [one(sum(utilisation.values()) / len(gpus))],
            "Active jobs": [if_any(jobs, len(jobs))],
            "Epochs in the last hour": [
                if_any(jobs, sum(min(g.ended(now) for g in j.gpus) - min(g.ended(now - 3600) for g in j.gpus) for j in jobs))
            ],
            "Could be saved per hour": [
                if_any(priced, sum(job.usd_per_hour * max(0.0, 1 - job.recommended["cost"][2]) for job in priced))
            ],
            "Held but idle": [one(sum(self._mean(g, "held_idle") for g in gpus))],
            "Active jobs on all nodes": [one(len(self.jobs) + 3)],
            "Could be saved per hour on all nodes": [one(modelled_fleet.SAVINGS_OF_ALL)],
            "Jobs without metrics": [one(3)],
            "Utilisation by GPU": [mean_by_gpu("gpu_utilization")],
            "Detectors": [of("node gpu", {(g.node, str(g.index)): state[g.state(now)] for g in gpus})],
            "GPUs": [
                by_gpu(lambda g: state[g.state(now)]),
                by_gpu(lambda g: g.epoch_s or g.step_s or g.cycle_s),
                by_gpu(lambda g: g.confidence),
                by_gpu(lambda g: g.ended(now)),
                mean_by_gpu("ofu"),
                mean_by_gpu("held_idle"),
            ],
            "Training jobs": [
                of(
                    "training_job title source_gpu instance_type",
                    {(j.id, j.title, j.source_gpu, j.instance_type): 1.0 for j in jobs},
                ),
                by_job(lambda j: 1.0),
                by_job(lambda j: len(j.gpus)),
                by_job(lambda j: j.seconds),
                by_job(lambda j: min(g.confidence for g in j.gpus)),
                by_job(lambda j: min(g.ended(now) for g in j.gpus)),
            ],
            "Savings": [
                of("training_job instance_type cloud region target_gpu instances", info),
                by_job(lambda j: j.usd_per_hour * j.seconds / 3600, priced),
                by_job(lambda j: j.usd_per_hour * j.seconds / 3600 * place[j.id][2], priced),
                by_job(lambda j: 1 - place[j.id][2], priced),
            ],
            "Stragglers: spread within jobs": [
                by_job(lambda j: None if j.seconds is None else 0.12 if j.id == "slurm-4711" else 0.0)
            ],
            "Confidence of the detectors": [by_job(lambda j: min(g.confidence for g in j.gpus))],
            "Firing alerts": [of("alertname severity training_job", {("EpochcastStragglerGpu", "warning", "slurm-4711"): 1.0})],
        }

    def _gpu(self, gpu: Any) -> dict[str, list[Expected]]:
        now = self.now
        mine = gpu.uuid
        newest = [float(gpu.ends[gpu.ended(now) - k]) for k in (1, 2)] if gpu.ended(now) > 1 else []

        def mean(column: str) -> Expected:
            return of("uuid", {mine: self._mean(gpu, column)})

        def last(column: str) -> Expected:
            return of("uuid", {mine: gpu.level(column, now)})

        def extreme(pick: Callable[..., float], factor: float, column: str) -> Expected:
            scrapes = [now - k * modelled_fleet.SCRAPE_S for k in range(5)]
            return if_scraped(factor * pick(gpu.level(column, moment) for moment in scrapes))

        def window(column: str) -> Expected:
            return if_scraped(gpu.mean(column, now - 10, now))

        def if_scraped(value: float) -> Expected:
            return of("uuid", {} if gpu.pushed else {mine: value})

        def if_known(value: float | None) -> Expected:
            return of("uuid", {} if value is None else {mine: value})

        lengths = [if_known(newest[0] - newest[1] if newest else None)]
        lengths += [if_known(length) for length in (gpu.epoch_s, gpu.step_s, gpu.cycle_s)]
        activity = ("sm_active", "sm_occupancy", "tensor_active", "fp32_active", "fp16_active", "dram_active", "ofu")
        reasons = ("power_cap", "thermal", "hardware_thermal", "power_brake")
        errors = ("ecc_uncorrectable_errors", "nvlink_replay_errors", "pcie_replays")
        return {
            "Detector": [of("uuid", {mine: {"idle": 0.0, "searching": 1.0, "answered": 2.0}[gpu.state(now)]})],
            "Epoch, step or cycle": [if_known(gpu.epoch_s or gpu.step_s or gpu.cycle_s)],
            "Confidence": [of("uuid", {mine: gpu.confidence})],
            "Epochs seen": [of("uuid", {mine: gpu.ended(now)})],
            "Since the last epoch": [if_known(now - newest[0] if newest else None)],
            "Job": [of("training_job", {job.id: 1.0 for job in self.jobs.values() if gpu in job.gpus})],
            "Length of epochs": lengths,
            "Held but idle": [mean("held_idle")],
            "Activity on the chip": [mean(column) for column in activity],
            "SM activity at 10 Hz: least, mean, most": [
                extreme(max, 1.05, "sm_active"),
                mean("sm_active"),
                extreme(min, 0.8, "sm_active"),
            ],
            "Memory interface at 10 Hz: least, mean, most": [
                extreme(max, 1.05, "dram_active"),
                mean("dram_active"),
                extreme(min, 0.8, "dram_active"),
            ],
            "Utilisation as the driver reports it": [mean("gpu_utilization"), mean("memory_utilization")],
            "Device memory": [last("memory_used"), last("memory_free")],
            "PCIe and NVLink": [window(column) for column in ("pcie_rx", "pcie_tx", "nvlink_rx", "nvlink_tx")],
            "Power": [of("uuid", {mine: gpu.mean("energy", now - 60, now)}), last("power_limit")],
            "Clocks": [last("sm_clock"), last("memory_clock")],
            "Reduced clocks": [mean(f"throttled_{reason}") for reason in reasons],
            "Temperature": [last("temperature"), last("memory_temperature")],
            "Errors": [
                of("uuid xid", {} if gpu.pushed else {(mine, "31"): 2.0}),
                *(of("uuid", {mine: 61 * gpu.mean(error, now - 60, now)}) for error in errors),
            ],
            "Missing readings": [if_scraped(0.02), if_scraped(0.05), if_scraped(0.01)],
            "Samples that the detector receives": [of("uuid", {mine: 10.0}), of("uuid", {mine: 0.01})],
        }

    def _job(self, job: Any) -> dict[str, list[Expected]]:
        now = self.now
        one_job = of("training_job", {job.id: 1.0})

        def told(value: float | None) -> Expected:
            return of("training_job", {} if value is None else {job.id: value})

        def by_gpu(value: Callable[[Any], float | None]) -> Expected:
            values = {(g.uuid, g.node, str(g.index)): value(g) for g in job.gpus}
            return of("uuid node gpu", {key: v for key, v in values.items() if v is not None})

        def by_target(place: int, factor: float | None) -> Expected:
            if factor is None:
                return of("target_gpu", {})
            return of("target_gpu", {target: job.ratio(target)[place] * factor for target in modelled_fleet.RATIOS})

        def newest(gpu: Any) -> float | None:
            done = gpu.ended(now)
            return None if done < 2 else float(gpu.ends[done - 1] - gpu.ends[done - 2])

        lengths = {g.uuid: g.epoch_s or g.step_s or g.cycle_s for g in job.gpus}
        fastest = min((length for length in lengths.values() if length), default=None)
        cost, time = (job.recommended.get(objective) for objective in ("cost", "time"))
        there = {"cost": cost, "time": time} if cost and time else {}
        usd = None if job.seconds is None or not there else job.usd_per_hour * job.seconds / 3600
        saved = {objective: 1 - to[2 if objective == "cost" else 3] for objective, to in there.items()}
        seconds, ratios = (
            [by_target(place, factor) for place in (1, 0, 2)] for factor in (job.seconds, 1.0)
        )  # low, predicted, high
        epochs, steps, cycles = (any(getattr(g, f"{unit}_s") for g in job.gpus) for unit in ("epoch", "step", "cycle"))
        idle = {("checkpoint",): 0.91} if cycles else {("epoch",): 0.14} if epochs else {("step",): 0.07} if steps else {}
        best = {"cost": cost} if there else {}
        spent = of("objective", {objective: usd * to[2] for objective, to in best.items()} if usd else {})
        return {
            "Active": [one_job],
            "GPUs": [told(len(job.gpus))],
            "Epoch, step or cycle": [told(job.seconds)],
            "Confidence": [told(min(g.confidence for g in job.gpus))],
            "Epochs so far": [told(min(g.ended(now) for g in job.gpus))],
            "Could be saved": [told(saved.get("cost"))],
            "Epochs by GPU": [by_gpu(newest)],
            "Typical length": [
                told(job.seconds if epochs else None),
                told(job.seconds if steps else None),
                told(job.seconds if cycles else None),
                told(job.seconds if epochs else None),
            ],
            "Share of the time in which the GPU waits": [of("cycle", idle)],
            "An epoch, step or cycle on other GPUs": seconds,
            "Time there over time here": ratios,
            "Predictions": [*seconds, ratios[1]],
            "Recommended": [
                of(
                    "objective instance_type instances cloud region market target_gpu",
                    {(o, to[0], "1", "aws", "us-east-1", "on-demand", to[1]): 1.0 for o, to in best.items()},
                ),
                of("objective", {objective: job.seconds * to[3] for objective, to in best.items()}),
                spent,
                of("objective", saved),
            ],
            "Cost of an epoch, step or cycle": [told(usd), spent],
            "Savings": [of("objective", saved)],
            "Behind the fastest": [by_gpu(lambda g: lengths[g.uuid] and lengths[g.uuid] / fastest - 1)],
            "Its GPUs": [
                by_gpu(lambda g: lengths[g.uuid]),
                by_gpu(lambda g: g.confidence),
                by_gpu(lambda g: g.ended(now)),
                *(by_gpu(lambda g, ratio=ratio: self._mean(g, ratio)) for ratio in ("ofu", "held_idle", "throttled_power_cap")),
            ],
        }

    def _agents(self, instances: re.Pattern[str]) -> dict[str, list[Expected]]:
        here = {at for at in (*INSTANCES, *ANALYZERS) if instances.fullmatch(at)}
        agents_here = [at for at in INSTANCES if at in here]
        analyzers_here = [at for at in ANALYZERS if at in here]
        service = "central:9913" in here
        sources = {("gpu-a:9911", "gpm"): 10.0, ("gpu-b:9911", "dcgm"): 9.7}
        sources = {key: value for key, value in sources.items() if key[0] in here}
        polled = {
            ("gpu-a:9912", "agent", "gpu-a"): True,
            ("central:9913", "node", "gpu-a"): True,
            ("central:9913", "agent", "gpu-b"): True,
            ("central:9913", "prometheus", "metrics.example.org"): False,
        }
        polled = {key: up for key, up in polled.items() if key[0] in here}
        low, high = modelled_fleet.TICK

        def agents(value: float) -> Expected:
            return of("instance", dict.fromkeys(agents_here, value))

        def analyzers(value: float) -> Expected:
            return of("instance", dict.fromkeys(analyzers_here, value))

        def source(answers: tuple[float, float]) -> Expected:
            return of("instance kind source", {key: answers[0] if up else answers[1] for key, up in polled.items()})

        def of_service(expected: Expected) -> Expected:
            return expected if service else (expected[0], {})

        routes = {"/api/v1/jobs": 2.0, "/api/v1/predictions": 1.0, "/": 0.4}
        # All in one bucket, evenly: 99 % of the way from its lower end to its upper.
        tick = low + 0.99 * (high - low)
        processes = {("epochcast-agent", at): (0.012, 41e6) for at in INSTANCES}
        processes |= dict.fromkeys(zip(("epochcast-node", "epochcast-analyzer"), ANALYZERS, strict=True), (0.03, 160000000.0))
        processes = {key: cost for key, cost in processes.items() if key[1] in here}
        return {
            "Agents up": [one(len(agents_here))],
            "Node analyzers up": [one("gpu-a:9912" in here)],
            "Services up": [one(service)],
            "Watchers": [of_service(one(1))],
            "Sources down": [one(service)],
            "Age of the oldest price": [of_service(one(40 * 86400))],
            "Readings per second": [
                of("instance source", sources),
                of("instance source", dict.fromkeys(sources, 10.0)),
            ],
            "Ticks: duration and delay, 99th percentile": [agents(tick)] * 2,
            "What is missing, per second": [
                agents(0.1),
                agents(0.0),
                of("instance", {at: (4 if at.startswith("gpu-a") else 5) * 0.05 for at in agents_here}),
                agents(0.01),
            ],
            "Age of the newest sample": [of("instance source", dict.fromkeys(sources, 0.2))],
            "GPUs": [agents(8), agents(8)],
            "Telemetry sources": [source((1, 0)), source((1.4, 900)), source((1800, 1800)), source((0, 1800))],
            "GPUs watched": [analyzers(4)],
            "Backlog": [analyzers(80)],
            "CPU of detection": [analyzers(0.006)],
            "Lost and failed, per second": [analyzers(0), analyzers(0)],
            "Requests per second": [of_service(of("route status", {(route, "200"): rate for route, rate in routes.items()}))],
            "Time to answer, 99th percentile": [of_service(of("route", dict.fromkeys(routes, 0.00995)))],
            "Rounds of grouping and predicting": [
                of_service(of("instance", {"central:9913": 0.075})),
                of_service(of("instance", {"central:9913": 0.0995})),
            ],
            "Refused requests per second": [of_service(of("reason", {"busy": 0.3}))],
            "Failures in an hour": [of_service(one(value)) for value in (2, 3, 1)],
            "CPU": [of("job instance", {key: cpu for key, (cpu, _) in processes.items()})],
            "Memory": [of("job instance", {key: rss for key, (_, rss) in processes.items()})],
        }


@pytest.fixture(scope="module")
def truth(prometheus: Any) -> Truth:
    return Truth(prometheus.now)


# The four-GPU job with a straggler, the job that has steps only, the one of which only a ratio is known; a GPU without a job.
@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"node": "gpu-b", "instance": "gpu-a.+", "gpu": "GPU-gpu-b-2", "training_job": "gpu-b-2107"},
        {"node": "gpu-a", "instance": "central.+", "gpu": "GPU-gpu-b-3", "training_job": "gpu-GPU-gpu-b-3"},
        {"node": "gpu-c", "instance": "gpu-b.+", "gpu": "GPU-gpu-c-0", "training_job": "container-3f2a91c0de77"},
    ],
    ids=["epochs", "steps", "ratio alone", "idle"],
)
def test_every_query_gives_what_the_fleet_does(
    queries: list[Any], prometheus: Any, truth: Truth, choices: dict[str, str]
) -> None:
    choices = CHOICES | choices
    expected = truth.panels(choices)
    assert set(expected) == {(query.board, query.panel) for query in queries}
    asked = {key: [query for query in queries if (query.board, query.panel) == key] for key in expected}
    for key, answers in expected.items():
        assert len(asked[key]) == len(answers), key
        for query, (labels, values) in zip(asked[key], answers, strict=True):
            told = f"{key} {query.ref_id}: {query.expression}"
            series = prometheus.labelled(query.expression, **choices)
            got = {tuple(found.get(label, "") for label in labels): value for found, value in series}
            assert len(got) == len(series), told
            assert all(set(found) == set(labels) for found, _ in series), (told, series[0][0])
            assert query.legend <= set(labels), f"{told}: the legend names a label that is not there"
            assert got == pytest.approx(values, rel=0.01, abs=1e-9), told


def test_ends_of_epochs_are_marked_where_they_were(boards: dict[str, Any], prometheus: Any, truth: Truth) -> None:
    (annotation,) = boards["epochcast-gpu"]["annotations"]["list"]
    assert annotation["useValueForTime"] is True
    ((_, milliseconds),) = prometheus.labelled(annotation["expr"], **CHOICES)
    gpu = truth.gpus[CHOICES["gpu"]]
    assert milliseconds / 1000 == pytest.approx(gpu.ends[gpu.ended(prometheus.now) - 1], abs=0.001)


def test_variables_offer_what_is_there(boards: dict[str, Any], prometheus: Any, truth: Truth) -> None:
    """As Grafana does it: the labels of a series as text, of which the variable's pattern takes what is shown and its value."""
    offered = {}
    for uid, name in (("epochcast-gpu", "gpu"), ("epochcast-job", "training_job")):
        (variable,) = (one for one in boards[uid]["templating"]["list"] if one["name"] == name)
        expression = re.fullmatch(r"query_result\((.*)\)", variable["query"]["query"])
        pattern = re.compile(variable["regex"].strip("/").replace("(?<", "(?P<"))
        assert expression is not None
        texts = [
            "{" + ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items()) + "}"
            for labels, _ in prometheus.labelled(expression[1], **CHOICES)
        ]
        found = [pattern.search(text) for text in texts]
        offered[name] = {match["value"]: match["text"] for match in found if match}
        assert len(offered[name]) == len(texts)
    assert offered["gpu"] == {gpu.uuid: f"{gpu.node} {gpu.index} {gpu.name}" for gpu in truth.gpus.values()}
    assert offered["training_job"] == {job.id: job.title for job in truth.jobs.values()}
