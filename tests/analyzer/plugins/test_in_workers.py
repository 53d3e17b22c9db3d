"""Backends in the service's real worker processes: what one does to its process hurts neither the service nor the others."""

import os
from collections.abc import Callable, Iterator

import pytest
from fastapi.testclient import TestClient

from epochcast.analyzer.service.workers import Workers

Serve = Callable[..., TestClient]
Install = Callable[..., None]

ODD = """
import os, time
from typing import Literal
from pydantic import BaseModel

class Question(BaseModel):
    do: Literal["answer", "hang", "die", "raise", "refuse", "wrong", "misfit", "memory"]

class Answer(BaseModel):
    process: int

class Other(BaseModel):
    process: int

class Odd:
    name = "odd"
    summary = "Does what it is told."
    Question = Question
    Answer = Answer
    def __init__(self, settings):
        self.seen = 0
    def answer(self, question):
        self.seen += 1
        match question.do:
            case "hang":
                time.sleep(1000)
            case "die":
                os._exit(9)
            case "raise":
                raise KeyError("inside")
            case "refuse":
                raise ValueError(f"asked {self.seen} times; ask less")
            case "wrong":
                return Other(process=1)
            case "misfit":
                return Answer(process="none")
            case "memory":
                bytearray(2**40)
        return Answer(process=os.getpid())
"""


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    made = Workers(1, 4 * 2**30, 60.0)
    yield made
    made.stop()


@pytest.fixture
def odd(serve: Serve, install: Install, workers: Workers) -> Callable[[str], tuple[int, str]]:
    install("odd_in_workers", ODD, odd="odd_in_workers:Odd")
    client = serve(workers=workers)

    def ask(what: str) -> tuple[int, str]:
        answered = client.post("/api/v1/backends/odd", json={"do": what})
        return answered.status_code, str(answered.json().get("detail") or answered.json()["process"])

    return ask


def test_whatever_a_backend_does_the_next_question_is_answered(
    serve: Serve, odd: Callable[[str], tuple[int, str]], workers: Workers
) -> None:
    status, process = odd("answer")
    assert status == 200 and int(process) != os.getpid()
    assert odd("answer") == (200, process), "a process answers more than one question"
    status, sentence = odd("refuse")
    assert (status, sentence) == (422, "asked 3 times; ask less"), "and keeps its backend"
    for what in ("raise", "wrong", "misfit"):
        status, sentence = odd(what)
        assert (status, sentence) == (500, "the backend odd failed on this request; the service's log says why")
    assert odd("memory")[0] == 422 and "GiB" in odd("memory")[1]
    status, sentence = odd("die")
    assert status == 422 and "worker process died" in sentence
    status, other = odd("answer")
    assert status == 200 and other != process


def test_a_backend_that_hangs_is_ended(
    odd: Callable[[str], tuple[int, str]], workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert odd("answer")[0] == 200
    monkeypatch.setattr(workers, "_seconds", 0.5)  # enough only for a process that has the backend
    status, sentence = odd("hang")
    assert status == 422 and "takes longer than the limit of 0.5 s" in sentence
