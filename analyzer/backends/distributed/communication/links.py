"""Links between GPUs and between nodes: presets with their sources (``links.toml``), a user's own, and what was measured."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.question import sentence

_SEVERAL = re.compile(r"(\d+)\s*[x×]\s*(?=[^\d\s])", re.IGNORECASE)


class Link(BaseModel):
    """One kind of link.

    Attributes:
        name: what it is called on the command line.
        bandwidth: bytes/s in one direction, at line rate unless ``measured``.
        latency: seconds of one step of a collective over it.
        per: whether each GPU has this bandwidth to itself or the GPUs of a node share it.
        measured: whether the bandwidth is what transfers were measured to reach, so that no efficiency lowers it.
        source: where the figures come from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    bandwidth: float = Field(gt=0, lt=1e15, allow_inf_nan=False)
    latency: float = Field(ge=0, lt=1, allow_inf_nan=False)
    per: Literal["gpu", "node"] = "gpu"
    measured: bool = False
    source: str = ""


def _read(text: str, origin: str) -> dict[str, Link]:
    try:
        tables = tomllib.loads(text).get("link")
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{origin} is not TOML: {error}") from error
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{origin} holds no [[link]] table; add one per link (name, bandwidth, latency, per)")
    links: dict[str, Link] = {}
    for table in tables:
        name = str(table.get("name", "without a name"))
        try:
            links[name] = Link.model_validate(table)
        except ValidationError as error:
            raise InputError(f"{origin}: of link {name!r} {sentence(error)}; figures are in bytes/s and seconds") from error
    return links


def load_links(extra: Path | None = None) -> dict[str, Link]:
    """Load the presets by name, followed by the links of a user's own TOML file, which replace ours of the same name.

    Raises:
        InputError: ``extra`` is missing, not TOML, or holds a link with a missing, unknown or impossible figure.
    """
    links = _read((files(__package__) / "links.toml").read_text("utf-8"), "links.toml")
    if extra is None:
        return links
    try:
        return links | _read(extra.read_text("utf-8"), str(extra))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the link file {str(extra)!r}: {error}") from error


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def link_named(name: str, links: Mapping[str, Link] | None = None) -> Link:
    """Return the link of this name; case, spaces and dashes do not count.

    ``4x InfiniBand HDR`` is a node with four such links, which its GPUs share.

    Raises:
        InputError: there is no such link.
    """
    links = load_links() if links is None else links
    by_key = {_key(known): link for known, link in links.items()}
    if link := by_key.get(_key(name)):
        return link
    if several := _SEVERAL.match(name.strip()):
        count, single = int(several[1]), link_named(name.strip()[several.end() :], links)
        if count:
            return single.model_copy(
                update={"name": f"{count}x {single.name}", "bandwidth": count * single.bandwidth, "per": "node"}
            )
    close = [by_key[known].name for known in get_close_matches(_key(name), by_key, n=3, cutoff=0.5)]
    remedy = f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(links)}"
    own = "your own link: --links FILE, a TOML file with a table [[link]] with name, bandwidth, latency, per"
    raise InputError(f"unknown link {name!r}; {remedy} ({own})")


@dataclass(frozen=True)
class AllReduceFit:
    """Latency and bandwidth of all-reduces over ``gpus`` GPUs: ``latency + 2 (gpus - 1)/gpus nbytes / bandwidth`` seconds.

    ``latency`` is of the whole all-reduce; ``bandwidth`` is what each GPU sends (NCCL's bus bandwidth).
    """

    gpus: int
    latency: float
    bandwidth: float

    def seconds(self, nbytes: ArrayLike) -> NDArray[np.float64]:
        """Seconds of all-reduces of ``nbytes``."""
        sent = 2 * (self.gpus - 1) / self.gpus * np.asarray(nbytes, dtype=np.float64)
        return np.asarray(self.latency + sent / self.bandwidth)


@cache
def fitted_all_reduces(gpu: str) -> dict[int, AllReduceFit]:
    """Our fits of public measurements for this GPU of the catalogue, by number of GPUs; empty where there are none."""
    tables = tomllib.loads((files(__package__) / "measured_links.toml").read_text("utf-8"))["measured"]
    return {fit["gpus"]: AllReduceFit(**fit) for table in tables if gpu in table["gpus"] for fit in table["fit"]}
