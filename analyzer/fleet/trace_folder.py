"""What there is to analyse: the traces in a folder or below the prefix of an object store, in the order of their names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.gpu_history import Trace
from epochcast.analyzer.fleet.trace_rows import TraceRows
from epochcast.analyzer.telemetry.gpu_report import GpuDevice
from epochcast.analyzer.telemetry.settings import PlaceSettings
from epochcast.analyzer.traces.trace import require_telemetry

SUFFIXES = (".parquet", ".pq", ".csv", ".csv.gz")

# The package of a store's file system is the user's choice, and fsspec names it in an ImportError.
_REMEDY = "install the package that fsspec names for it"


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file with the trace of one GPU.

    Attributes:
        name: its path below what is analysed, with ``/``.
        version: see `Finding.version`.
        url: what fsspec opens.
        size: bytes.
        node: its folder, below the analysed folder.
        place: what is rented there.
    """

    name: str
    version: str
    url: str
    size: int
    node: str
    place: PlaceSettings

    @contextmanager
    def opened(self) -> Iterator[tuple[GpuDevice, TraceRows]]:
        """Open it, and say which GPU's it is; InputError or OSError where it cannot be read."""
        with fsspec.open(self.url) as file:
            rows = TraceRows(file, self.name)
            metadata, place = rows.metadata, self.place
            require_telemetry(metadata.get("source"), rows.names, self.name)
            yield (
                GpuDevice(
                    uuid=metadata.get("uuid") or f"file-{self.name}",
                    label=self.name.rpartition("/")[2].removesuffix(".gz").rpartition(".")[0],
                    name=metadata.get("gpu") or "unknown",
                    node=self.node,
                    source=metadata.get("source") or "files",
                    simulated=bool(metadata.get("simulated")),
                    static=metadata.get("static") or {},
                    **place.rented,
                ),
                rows,
            )


@dataclass(frozen=True, slots=True)
class ClosedFolder:
    """A folder that may not be listed. It fails in the place of its traces, which would else be missing without notice."""

    name: str
    version: str = ""
    size: int = 0

    def opened(self) -> AbstractContextManager[tuple[GpuDevice, TraceRows]]:
        """Raise InputError."""
        raise InputError(f"no permission to read the folder {self.name!r} and its traces: allow it, or move it elsewhere")


class TraceFolder:
    """A folder or prefix; any URL that fsspec knows."""

    def __init__(self, path: str, *, places: Mapping[str, PlaceSettings], question: str, without: Path | None = None) -> None:
        """Take a folder that exists.

        Args:
            path: of the folder: local, or with the scheme of a store (``s3://bucket/prefix``).
            places: node -> what is rented.
            question: how traces are looked at; part of their versions.
            without: a local folder below it in which there are no traces: the results.

        Raises:
            InputError: it is not there, or the package for its scheme is not installed.
        """
        try:
            self._files, self._root = fsspec.core.url_to_fs(path)
        except ImportError as error:
            raise InputError(f"cannot read {path!r}: {error}; {_REMEDY}") from error
        except ValueError as error:
            raise InputError(
                f"cannot read {path!r}: {error}; give a folder, or a URL that fsspec supports, such as s3://bucket/prefix"
            ) from error
        self._root = self._root.rstrip("/")
        self._name = path
        self._places, self._question = places, question
        self._without = "" if without is None or not self.is_local else str(without.resolve())
        try:
            there = bool(self._root == "" or self._files.isdir(self._root))
        except Exception as error:  # each store has errors of its own: no access, no such host
            raise InputError(f"cannot read {path!r}: {type(error).__name__}: {error}") from error
        if not there:
            raise InputError(f"{path!r} is not a folder; name one with traces ({', '.join(SUFFIXES)}) in it, at any depth")
        if self._without and str(Path(self._root).resolve()) == self._without:  # its tables would be the next run's traces
            raise InputError(f"{path!r} holds the traces; name another folder for the results, inside it or elsewhere")

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's own file systems."""
        protocol = self._files.protocol
        return "file" in ([protocol] if isinstance(protocol, str) else protocol)

    def traces(self) -> Iterator[Trace]:
        """Each trace, folder by folder; what is hidden, pipes and devices are left out, and links to folders not followed.

        Raises:
            InputError: the store does not answer.
        """
        try:
            yield from self._below(self._root)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"cannot list {self._name!r}: {type(error).__name__}: {error}") from error

    def _below(self, folder: str) -> Iterator[Trace]:
        # fsspec's own walk passes over what it cannot list: traces would be missing without notice.
        try:
            listed = self._files.ls(folder, detail=True)
        except FileNotFoundError:  # gone since its own folder was listed
            return
        except PermissionError:
            if folder == self._root:
                raise
            yield ClosedFolder(_readable(folder.removeprefix(self._root).lstrip("/")))
            return
        for info in listed:
            path = str(info["name"]).rstrip("/")
            name = path.rpartition("/")[2]
            if name.startswith(".") or path == folder.rstrip("/"):
                continue
            if info["type"] == "directory":
                if not self._is_left_out(folder, name):
                    yield from self._below(path)
            elif name.lower().endswith(SUFFIXES) and (info["type"] == "file" or info.get("islink")):
                yield self._trace(folder, name, info)

    def _is_left_out(self, folder: str, name: str) -> bool:
        return bool(self._without) and str((Path(folder) / name).resolve()) == self._without

    def _trace(self, folder: str, name: str, info: Mapping[str, Any]) -> TraceFile:
        node = _readable(folder.removeprefix(self._root).strip("/") or Path(self._root).name or self._root)
        path, size = f"{folder.rstrip('/')}/{name}", int(info.get("size") or 0)
        # Object stores give a hash of the content, or at least when it was written.
        changed = next(
            (str(info[key]) for key in ("ETag", "etag", "md5Hash", "mtime", "LastModified", "created") if key in info), ""
        )
        place = self._places.get(node, PlaceSettings())
        return TraceFile(
            name=_readable(path.removeprefix(self._root).lstrip("/")),
            version=version_of(size, changed, node, place, self._question),
            url=self._files.unstrip_protocol(path),
            size=size,
            node=node,
            place=place,
        )


def version_of(*of: object) -> str:
    """Sixteen letters that are others where any of these values is another one."""
    text = json.dumps([vars(value) if isinstance(value, PlaceSettings) else value for value in of], default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _readable(path: str) -> str:
    """With bytes that are no UTF-8 as text: Python has them as halves of characters, which no table takes."""
    return path.encode("utf-8", "backslashreplace").decode()
