"""What a Prometheus answers and a Grafana exports, saved as files: a trace of each GPU that their labels name."""

import json
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.trace import Trace, read_traces

Read = Callable[[str], list[Trace]]
START = 1_700_000_000.0


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def traces(text: str) -> list[Trace]:
        (tmp_path / "export").write_text(text)
        return read_traces(tmp_path / "export")

    return traces


# Prometheus ----------------------------------------------------------------------------------------------------------


def series(name: str, values: list[str], **labels: str) -> dict[str, Any]:
    return {
        "metric": {**({"__name__": name} if name else {}), **labels},
        "values": [[START + 15 * tick, value] for tick, value in enumerate(values) if value],
    }


def answer(*result: dict[str, Any]) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def gpu(number: int, host: str = "node-1") -> dict[str, str]:
    labels = {"gpu": str(number), "UUID": f"GPU-{host}-{number}", "modelName": "Tesla V100-SXM2-16GB", "Hostname": host}
    return {**labels, "instance": f"{host}:9400", "job": "dcgm", "DCGM_FI_DRIVER_VERSION": "535.104.05"}


def test_the_series_of_each_gpu_are_a_trace_in_base_units(read: Read) -> None:
    found = read(
        answer(
            series("DCGM_FI_DEV_GPU_UTIL", ["97", "3", "NaN"], **gpu(0)),
            series("DCGM_FI_DEV_GPU_UTIL", ["50", "51", "52"], **gpu(1)),
            series("DCGM_FI_DEV_FB_USED", ["1024", "", "2048"], **gpu(0)),
            series("my_loss", ["2.5", "+Inf", "1.5"], **gpu(0)),
        )
    )
    assert [(trace.label, trace.gpu, trace.uuid, trace.source) for trace in found] == [
        (f"GPU {number}", "Tesla V100-SXM2-16GB", f"GPU-node-1-{number}", "prometheus") for number in (0, 1)
    ]
    assert found[0].time.tolist() == [START, START + 15, START + 30]
    metrics = found[0].metrics()
    assert metrics["gpu_utilization"] == pytest.approx([0.97, 0.03, np.nan], nan_ok=True)
    assert metrics["memory_used"] == pytest.approx([2.0**30, np.nan, 2.0**31], nan_ok=True)
    assert metrics["my_loss"] == pytest.approx([2.5, np.nan, 1.5], nan_ok=True)
    assert found[1].metrics()["gpu_utilization"] == pytest.approx([0.5, 0.51, 0.52])


def test_gpus_of_one_number_are_told_apart_by_their_machines(read: Read) -> None:
    found = read(answer(*(series("DCGM_FI_DEV_GPU_UTIL", ["1"], **gpu(0, host)) for host in ("node-1", "node-2"))))
    assert [trace.label for trace in found] == ["node-1 GPU 0", "node-2 GPU 0"]


def test_a_job_that_follows_another_is_the_same_series(read: Read) -> None:
    """Prometheus begins a new series where a label changes, as dcgm-exporter's ``pod`` does."""
    (trace,) = read(
        answer(
            series("DCGM_FI_DEV_POWER_USAGE", ["100", "101", "", ""], **gpu(0), pod="first"),
            series("DCGM_FI_DEV_POWER_USAGE", ["", "", "200", "201"], **gpu(0), pod="second"),
            series("my_loss", ["4", "3", "", ""], **gpu(0), pod="first"),
            series("my_loss", ["", "", "2", "1"], **gpu(0), pod="second"),
        )
    )
    assert trace.metrics()["power"].tolist() == [100, 101, 200, 201]
    assert trace.metrics()["my_loss"].tolist() == [4, 3, 2, 1]


def test_what_an_expression_gives_has_no_name(read: Read) -> None:
    found = read(answer(series("", ["1", "2"], gpu="3"), series("", ["3", "4"], gpu="4")))
    assert [(trace.label, trace.metric_names) for trace in found] == [("GPU 3", ("value",)), ("GPU 4", ("value",))]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '{"status":"error","errorType":"bad_data","error":"parse error"}',
            "error from Prometheus .'parse error'.*save the answer",
        ),
        ('{"status":"success","data":{"resultType":"vector","result":[]}}', "holds 'vector', not a matrix.*query_range"),
        ('{"status":"success","data":[]}', "not a matrix"),
        ('{"status":"success","data":{"resultType":"matrix"', "is not JSON.*save the complete answer"),
        (answer(), "no samples; choose a time range"),
        (answer(series("up", ["busy"])), "invalid samples"),
        (answer({"metric": {}, "values": [[START]]}), "invalid samples"),
        (answer({"metric": {}, "values": [["NaN", "1"]]}), "invalid samples"),
        (answer({"metric": [], "values": []}), "invalid samples"),
        (
            answer(series("loss", ["1"], gpu="0", q="0.5"), series("loss", ["2"], gpu="0", q="0.9")),
            "several series 'loss' of one GPU",
        ),
    ],
)
def test_answers_that_are_refused(read: Read, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        read(text)
    assert "\n" not in str(caught.value)


def test_a_real_prometheus_answers_so(database: Callable[..., Any], read: Read) -> None:
    labels = [",".join(f"{name}={json.dumps(value)}" for name, value in gpu(number).items()) for number in range(2)]
    past = [
        f"{name}{{{labels[number]}}} {value + number + tick} {START + tick:.3f}"
        for name, value in (("DCGM_FI_DEV_GPU_UTIL", 10), ("DCGM_FI_DEV_SM_CLOCK", 1000))
        for number in range(2)
        for tick in range(60)
    ]
    url = database("prometheus", past=past).url
    asked = {"query": '{job="dcgm"}', "start": START, "end": START + 59, "step": 1}
    with urllib.request.urlopen(f"{url}/api/v1/query_range?{urllib.parse.urlencode(asked)}") as reply:
        found = read(reply.read().decode())
    assert [trace.label for trace in found] == ["GPU 0", "GPU 1"]
    for number, trace in enumerate(found):
        assert trace.time.tolist() == [START + tick for tick in range(60)]
        assert trace.metrics()["gpu_utilization"] == pytest.approx((10 + number + np.arange(60)) / 100)
        assert trace.metrics()["sm_clock"] == pytest.approx((1000 + number + np.arange(60)) * 1e6)


# Grafana -------------------------------------------------------------------------------------------------------------

LABELLED = """\
"Time","{__name__=""DCGM_FI_DEV_GPU_UTIL"", gpu=""0"", pod=""a""}","DCGM_FI_DEV_GPU_UTIL{gpu=""1"", pod=""b\\""c""}"
1700000000000,97,3
1700000015000,95,
1700000030000,96,4
"""


@pytest.mark.parametrize("before", ["", "sep=,\r\n", "\ufeff"])
def test_the_columns_of_a_panel_are_split_by_their_labels(read: Read, before: str) -> None:
    first, second = read(before + LABELLED)
    assert (first.label, first.source, second.label) == ("GPU 0", "grafana", "GPU 1")
    assert first.time.tolist() == [START, START + 15, START + 30]
    assert first.metrics() == {"gpu_utilization": pytest.approx([0.97, 0.95, 0.96])}
    assert second.time.tolist() == [START, START + 30]
    assert first.notes == ("column 'Time' is taken as unix milliseconds",)


@pytest.mark.parametrize(
    ("titles", "metric"),
    [(("GPU 0", "GPU 1"), "value"), (("power, GPU 0", "power, GPU 1"), "power"), (("gpu0 W", "gpu1 W"), "W")],
)
def test_the_columns_of_a_panel_are_split_by_their_legends(read: Read, titles: tuple[str, str], metric: str) -> None:
    text = f'"Time","{titles[0]}","{titles[1]}"\n2023-11-14 22:13:20,1,2\n2023-11-14 22:13:35,3,4\n'
    first, second = read(text)
    assert (first.label, second.label) == ("GPU 0", "GPU 1")
    assert first.time.tolist() == [START, START + 15]
    assert second.metrics() == {metric: pytest.approx([2, 4])}
    assert [note for note in first.notes if "legends" in note]


def test_a_panel_without_gpus_is_one_trace(read: Read) -> None:
    (trace,) = read("Time,loss,DCGM_FI_DEV_POWER_USAGE\n1700000000000,2.5,300\n1700000015000,null,310\n")
    assert trace.label is None
    assert trace.metrics()["power"].tolist() == [300, 310]
    assert trace.metrics()["loss"] == pytest.approx([2.5, np.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '"Time","GPU 0"\n1700000000000,97%\n',
            "holds '97%' in data row 1; download it again with 'Formatted data' switched off",
        ),
        ('"Time","GPU 0"\nnoon,97\n', "Time of .* is 'noon' in data row 1.*ISO 8601"),
        ('"Time","GPU 0"\n1700000000000,97\n,98\n', "no time in data row 2; download it again"),
        ('"Time","GPU 0"\n', "no samples; choose a time range"),
        ('"Time","GPU 0","gpu:0"\n1700000000000,1,2\n', "several series 'value' of one GPU"),
    ],
)
def test_panels_that_are_refused(read: Read, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        read(text)
    assert "\n" not in str(caught.value)
