"""Broken, huge and adversarial uploads: none is answered 5xx, and the service neither ends nor grows.

A hundred here; 10 000 to a real process in `make soak` (test_soak.py).
"""

import io
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import httpx2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from epochcast.analyzer.jobs.questions import example_profile
from epochcast.analyzer.service.parts import Parts

PARQUET = "application/vnd.apache.parquet"
JSON = "application/json"
FORM = "multipart/form-data; boundary=x"
PAGE = "/try"

# path, content type, body
Upload = tuple[str, str, bytes]

_TRACES = st.sampled_from(("/api/v1/traces/detections", "/api/v1/traces/predictions?gpu=T4", "/api/v1/traces/recommendations"))
_QUESTIONS = st.sampled_from(("/api/v1/predictions", "/api/v1/recommendations"))


def _parquet_file(columns: dict[str, Any], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


_TIME = np.arange(300) * 0.1 + 1.7e9
_WAVE = 0.5 + 0.4 * np.sin(_TIME)
_FILES = [
    _parquet_file({"time": _TIME, "sm_active": _WAVE}),
    _parquet_file({"time": _TIME, "sm_active": _WAVE}, compression="zstd", use_dictionary=False),
    _parquet_file({"time": _TIME, "sm_active": _WAVE.astype(np.float32)}, compression="gzip", version="1.0"),
]
_TEXT = (
    "time,gpu_utilization,power\n" + "".join(f"{1.7e9 + n / 10},{0.5 + n % 7 / 20},{60 + n % 9}\n" for n in range(60))
).encode()
_PROFILE = json.dumps(example_profile()).encode()


@st.composite
def _broken(draw: st.DrawFn, files: Sequence[bytes]) -> bytes:
    """One of the files with bytes changed, left out or put in."""
    content = bytearray(draw(st.sampled_from(files)))
    for _ in range(draw(st.integers(1, 6))):
        # What a reader believes stands at the ends: magic, footer, lengths.
        place = draw(st.one_of(st.integers(0, len(content)), st.integers(max(0, len(content) - 600), len(content))))
        match draw(st.sampled_from(("change", "insert", "cut", "length"))):
            case "change":
                content[place : place + 1] = draw(st.binary(min_size=1, max_size=1))
            case "insert":
                content[place:place] = draw(st.binary(min_size=1, max_size=40))
            case "cut":
                del content[place : place + draw(st.integers(1, 200))]
            case "length":
                content[-8:-4] = struct.pack("<I", draw(st.integers(0, 2**32 - 1)))
    return bytes(content)


_ARRAYS: list[Callable[[], Any]] = [
    lambda: pa.array(np.full(50, np.nan)),
    lambda: pa.array(np.full(50, 1e308)),
    lambda: pa.array([2**63] * 50, pa.uint64()),
    lambda: pa.array([True] * 50),
    lambda: pa.nulls(50),
    lambda: pa.array(["x" * 10_000] * 50).dictionary_encode(),
    lambda: pa.array([[[1.0]]] * 50),
    lambda: pa.array([{"a": {"b": 1}}] * 50),
    lambda: pa.array(range(50), pa.timestamp("ns", "UTC")),
    lambda: pa.array([b"\xff"] * 50),
    lambda: pa.array([1] * 50, pa.decimal128(38, 10)),
    lambda: pa.array(np.arange(50, dtype=np.float16)),
    lambda: pa.array(np.arange(50) * 1e300),
    lambda: pa.array(np.arange(50) * 1e-300),
]


@st.composite
def _tables(draw: st.DrawFn) -> bytes:
    """A whole Parquet file of columns that no trace has."""
    names = draw(
        st.lists(
            st.sampled_from(("time", "t", "sm_active", "power", "", "a" * 5000, "x\n")), min_size=1, max_size=4, unique=True
        )
    )
    kinds = draw(st.lists(st.sampled_from(_ARRAYS), min_size=len(names), max_size=len(names)))
    return _parquet_file({name: kind() for name, kind in zip(names, kinds, strict=True)}, compression="zstd")


@st.composite
def _texts(draw: st.DrawFn) -> bytes:
    """A CSV text of cells that no trace has."""
    cells = st.one_of(
        st.one_of(st.floats(), st.integers(-(10**400), 10**400)).map(str),
        st.sampled_from(("", "nan", "inf", "-inf", "1e999", '"', "#", "0x1", "1_000", "9" * 400)),
        st.text(max_size=8),
    )
    header = draw(
        st.lists(st.sampled_from(("time", "t", "power", "sm_active", "timestamp", "#Entity", '"', "")), min_size=1, max_size=5)
    )
    rows = draw(st.lists(st.lists(cells, max_size=6), max_size=8))
    text = "\n".join(",".join(row) for row in [header, *rows])
    text = draw(st.sampled_from(("", "# {}\n", '# {"gpu": 1}\n', "\ufeff"))) + text
    return text.encode(draw(st.sampled_from(("utf-8", "utf-8", "utf-8", "utf-16", "utf-32"))), "surrogatepass")


@st.composite
def _forms(draw: st.DrawFn) -> bytes:
    """The page's form, with a file as above, its name and the other fields any text, now and then broken itself."""
    content = draw(st.one_of(_texts(), _broken([*_FILES, _PROFILE]), st.sampled_from([*_FILES, _TEXT])))
    texts = st.text(st.characters(exclude_characters='"\r\n', exclude_categories=["Cs"]), max_size=40)
    fields = [(f'file"; filename="{draw(texts)}', content)]
    for name, usual in (("gpu", "T4"), ("count", "1")):
        fields.append((name, draw(st.one_of(st.just(usual), texts)).encode()))
    head = 'Content-Disposition: form-data; name="'
    form = b"".join(f'--x\r\n{head}{name}"\r\n\r\n'.encode() + value + b"\r\n" for name, value in fields) + b"--x--\r\n"
    return draw(st.one_of(st.just(form), _broken([form])))


UPLOADS: dict[str, st.SearchStrategy[Upload]] = {
    "parquet": st.tuples(_TRACES, st.just(PARQUET), _broken(_FILES)),
    "tables": st.tuples(_TRACES, st.just(PARQUET), _tables()),
    "csv": st.tuples(_TRACES, st.just("text/csv"), st.one_of(_texts(), _broken([_TEXT]), st.binary(max_size=200))),
    "types": st.tuples(
        st.one_of(_TRACES, _QUESTIONS),
        st.one_of(
            st.sampled_from(("", JSON, "text/csv", PARQUET, FORM, "*/*")),
            # No client sends a header with blanks around its value.
            st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60).map(str.strip),
        ),
        st.one_of(st.sampled_from([*_FILES, _TEXT]), st.binary(max_size=100)),
    ),
    "page": st.tuples(st.just(PAGE), st.just(FORM), _forms()),
}


def check(client: httpx2.Client, upload: Upload) -> int:
    """Send it, and return the status: an answer, or a problem of one sentence that is the client's."""
    path, kind, body = upload
    response = client.post(path, content=body, headers={"Content-Type": kind})
    if response.status_code != 200:
        assert 400 <= response.status_code < 500, (path, kind, body, response.text)
        if path == PAGE and response.headers["content-type"].startswith("text/html"):
            assert 'role="alert"' in response.text
            return response.status_code
        assert response.headers["content-type"] == "application/problem+json"
        assert "\n" not in response.json()["detail"]
        assert len(response.content) < 4000
    return response.status_code


def fuzz(client: httpx2.Client, uploads: st.SearchStrategy[Upload], examples: int) -> int:
    """Send so many, the same ones each time; return how many were refused."""
    refused = 0

    @settings(max_examples=examples, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(upload=uploads)
    def sent(upload: Upload) -> None:
        nonlocal refused
        refused += check(client, upload) != 200

    sent()
    return refused


@pytest.mark.parametrize("kind", UPLOADS)
def test_whatever_is_sent_is_answered_or_refused(client: TestClient, parts: Parts, kind: str) -> None:
    restarts = parts.workers.restarts
    assert fuzz(client, UPLOADS[kind], 25) >= 8
    assert parts.workers.restarts == restarts  # no upload ended a process, or took it all of its time
    assert client.get("/healthz").status_code == 200
