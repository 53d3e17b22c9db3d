"""Pages that break off, come late, are none, or do not come at all."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from epochcast.agent.sources import dcgm_exporter
from epochcast.common.errors import InputError


def dribble(request: Any) -> None:
    request.send_response(200)
    request.end_headers()
    for line in request.exporter.page_3.splitlines(True):
        request.wfile.write(line.encode())
        request.wfile.flush()
        time.sleep(0.05)


def hang(request: Any) -> None:
    time.sleep(0.6)


def huge(request: Any) -> None:
    request.send_page(request.exporter.page_3.encode() * 3, length=-1)


def chunks_cut(request: Any) -> None:
    request.protocol_version = "HTTP/1.1"
    request.send_response(200)
    request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
    request.wfile.write(b"400\r\n" + request.exporter.page_3.encode()[:300])
    request.close_connection = True


FAILURES: dict[str, tuple[Callable[[Any], None], str]] = {
    "status 500": (lambda request: request.send_page(b"collector failed\n", status=500), "HTTP status 500"),
    "shorter than it says": (
        lambda request: request.send_page(request.exporter.page_3.encode()[:1000], length=len(request.exporter.page_3)),
        "ends after|Incomplete",
    ),
    "cut chunks": (chunks_cut, "IncompleteRead|ends after|cut off"),
    "cut line, no length": (
        lambda request: request.send_page(request.exporter.page_3.encode()[:1003], length=-1),
        "its last line is cut off",
    ),
    "broken line": (
        lambda request: request.send_page((request.exporter.page_3 + 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID= 87\n').encode()),
        ".",
    ),
    "no number": (
        lambda request: request.send_page(
            (request.exporter.page_3 + 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0"} lots\n').encode()
        ),
        "lots",
    ),
    "not Prometheus": (
        lambda request: request.send_page(b"<html>\n<p>Welcome to nginx</p>\n"),
        "not a Prometheus page, it begins with '<html>'",
    ),
    "empty": (lambda request: request.send_page(b""), "cut off"),
    "not text": (lambda request: request.send_page(b"\xff\xfe\n"), "not a Prometheus page"),
    "not HTTP": (lambda request: (request.wfile.write(b"gibberish\r\n\r\n"), None)[1], "BadStatusLine|gibberish"),
    "slow": (dribble, "longer than 0.3 s"),
    "hanging": (hang, "timed out"),
    "huge": (huge, "larger than 0 MiB"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_page_that_fails_costs_one_read(
    exporter: Any, failure: str, monkeypatch: pytest.MonkeyPatch, read: Any, values: Any
) -> None:
    monkeypatch.setattr(dcgm_exporter, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(dcgm_exporter, "LARGEST_PAGE", 2 * len(exporter.page_3))
    source = exporter.open()
    read(source)
    exporter.answer, message = FAILURES[failure]
    with pytest.raises(RuntimeError, match=f"cannot be read: .*({message})"):
        read(source, 1)
    exporter.serve(exporter.page_3.replace("61.538000", "70.000000"))
    assert [values(source, row)["power_average"] for row in read(source, 2)] == [70.0, 70.0]
    assert not source.blanks
    assert not source.outdated


def test_gone_and_back(exporter: Any, read: Any) -> None:
    source = exporter.open()
    exporter.close()
    with pytest.raises(RuntimeError, match=r"cannot be read: .*refused"):
        read(source)
    with pytest.raises(InputError, match=r"page http://127.0.0.1:\d+/metrics cannot be read \(.*refused.*\); start"):
        exporter.open()
    exporter.start()
    source._url = exporter.url
    assert len(read(source, 1)) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<html>\n", "not a Prometheus page"),
        ("# HELP go_goroutines Number.\n# TYPE go_goroutines gauge\ngo_goroutines 8\n", "finds no GPU on the page"),
        ('# HELP\nDCGM_FI_DEV_GPU_UTIL{gpu="0"} 5\n', r"finds no GPU on the page .*with a UUID and a value"),
        ('# HELP\nDCGM_FI_DEV_GPU_UTIL{gpu="x",UUID="GPU-0"} 5\n', "finds no GPU on the page"),
    ],
)
def test_a_page_without_gpus_is_one_sentence(exporter: Any, text: str, message: str) -> None:
    exporter.serve(text)
    with pytest.raises(InputError, match=message) as caught:
        exporter.open()
    assert "\n" not in str(caught.value)


def test_a_proxy_of_the_environment_is_not_asked(exporter: Any, monkeypatch: pytest.MonkeyPatch, read: Any) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert len(read(exporter.open())) == 2
