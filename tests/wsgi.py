"""What a WSGI application answers, asked without a network."""

import gzip
import json
from typing import Any, NamedTuple
from wsgiref.util import setup_testing_defaults


class Answer(NamedTuple):
    """An answer, whole."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def text(self) -> str:
        return (gzip.decompress(self.raw) if self.headers.get("Content-Encoding") == "gzip" else self.raw).decode()

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def ask(app: Any, path: str, query: str = "", method: str = "GET", **headers: str) -> Answer:
    """Make one request; header names in lower case with underscores."""
    environ: dict[str, Any] = {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": method}
    setup_testing_defaults(environ)
    environ |= {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    head: list[Any] = []
    body = b"".join(app(environ, lambda *said: head.extend(said)))
    return Answer(int(head[0].split()[0]), dict(head[1]), body)
