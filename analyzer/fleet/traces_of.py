"""Which source a PATH means: a folder, an object store, or a Prometheus; and what is rented at its nodes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from ... import __version__
from ..csv_text import parse_csv, read_text
from ..errors import InputError
from ..telemetry.settings import Place, PrometheusSettings
from .gpu_history import Looking
from .one_trace import Trace
from .stored_gpus import Store
from .trace_folder import TraceFolder

# Counts up with each change of what a trace's finding is made of: findings of another number are made anew.
_ANALYSIS = 2

_COLUMNS = ("node", "instance", "cloud", "region")


class Traces(Protocol):
    """What there is to analyse; ``name``: for people."""

    @property
    def name(self) -> str: ...  # noqa: D102

    def traces(self) -> Iterator[Trace]:
        """Each trace once."""
        ...


def traces_of(
    path: str, looking: Looking, places: Mapping[str, Place], *, out: Path, config: Path | None, token_file: Path | None
) -> Traces:
    """Return the source at ``path``.

    Raises:
        InputError: nothing is there, or options do not fit it.
    """
    question = _question(looking)
    if path.startswith(("http://", "https://")):
        if not (math.isfinite(looking.since) and math.isfinite(looking.until)):
            raise InputError("a Prometheus has no beginning and no end: give --from and --to")
        return Store(_access(path, config, token_file), looking.since, looking.until, places=places, question=question)
    for option, given in (("--config", config), ("--token-file", token_file)):
        if given is not None:
            raise InputError(f"{option} is for a Prometheus, and {path!r} is none; leave it out")
    return TraceFolder(path, places=places, question=question, without=out)


def _access(url: str, config: Path | None, token_file: Path | None) -> PrometheusSettings:
    """How to be let in: what the configuration says of this address, as it stands in the service's."""
    if config is None:
        return PrometheusSettings(url=url, token_file=token_file)
    if token_file is not None:
        raise InputError("--token-file and --config exclude each other: write token_file into the configuration")
    from ..service.config import load_settings

    told = load_settings(config).prometheus
    found = [one for one in told if one.url.rstrip("/") == url.rstrip("/")]
    if len(found) != 1:
        seen = ", ".join(one.url for one in told) or "none"
        raise InputError(f"the configuration {config} must have one [[prometheus]] with url = {url!r}; it has {seen}")
    return found[0]


def _question(looking: Looking) -> str:
    """Another one where settings would make other findings of the same trace."""
    gpus = [asdict(gpu) for gpu in looking.catalog.values()]
    told = json.dumps([_ANALYSIS, __version__, gpus, looking.since, looking.until], default=str)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def read_places(path: Path | None) -> dict[str, Place]:
    """Return node -> what is rented there, from a CSV file with the column ``node`` and any of instance, cloud and region.

    Raises:
        InputError: the file cannot be read, has other columns, or names a node twice.
    """
    if path is None:
        return {}
    table = parse_csv(read_text(path), str(path), as_text=_COLUMNS).fillna("")
    unknown = [column for column in table.columns if column not in _COLUMNS]
    if unknown or "node" not in table.columns:
        seen = ", ".join(map(str, table.columns))
        raise InputError(f"{str(path)!r} has the columns {seen}; give node, and any of instance, cloud and region")
    if not table["node"].is_unique:
        raise InputError(
            f"{str(path)!r} names the node {table['node'][table['node'].duplicated()].iloc[0]!r} twice; keep one row"
        )
    told = table.to_dict("records")
    return {str(row["node"]).strip(): Place(**{key: str(row.get(key, "")).strip() for key in _COLUMNS[1:]}) for row in told}
