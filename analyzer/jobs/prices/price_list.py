"""A price list as it comes, from a file or an address: a CSV whose cells are still texts."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.common.settings_file import is_local

OF_SKYPILOT = {"InstanceType", "AcceleratorName"}
"""Columns by which a list is a ``vms.csv`` of the SkyPilot catalog, and no price table of our own format."""

_CONTROL = r"[\x00-\x1f\x7f-\x9f]"  # of a name that reaches a terminal, it could hide a line


def is_address(source: str) -> bool:
    """Whether a price list is to be downloaded."""
    return "://" in source


def read_price_list(path: Path) -> pd.DataFrame:
    """The cells of a CSV file as stripped texts, empty where there is none. Raises InputError if it cannot be read."""
    name = str(path)
    try:
        with path.open("rb") as file:
            return _parsed(file, name)
    except FileNotFoundError:
        raise InputError(f"no such price file: {name!r}") from None
    except OSError as error:
        raise InputError(f"{name!r} is not a readable CSV file: {' '.join(str(error).split())}") from error


def download_price_list(url: str) -> pd.DataFrame:
    """Read what an https address answers (http on this machine alone), within a minute and 64 MiB.

    Raises InputError, one sentence, for another scheme, no answer, one of failure or too large, and for no CSV.
    """
    from epochcast.analyzer.telemetry import TelemetryError
    from epochcast.analyzer.telemetry.endpoint import MOST_BYTES, Endpoint
    from epochcast.analyzer.telemetry.settings import Access

    try:
        parts = urlsplit(url)
        safe = parts.scheme == "https" or (parts.scheme == "http" and is_local(parts.hostname or ""))
    except ValueError:
        safe = False
    if not safe:
        raise InputError(f"the address is {url!r}; give one that begins with https (http is for this machine alone), or a file")
    server = f"{parts.scheme}://{parts.netloc}"
    endpoint = Endpoint("the price list at", Access(url=server))
    try:
        answer = endpoint.read(url.removeprefix(server).partition("#")[0], most=MOST_BYTES)
    except TelemetryError as error:
        raise InputError(f"{error}; no price was changed") from error
    finally:
        endpoint.close()
    return _parsed(BytesIO(answer), url)


def _parsed(file: IO[bytes], name: str) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            # Rows longer than the header would otherwise lose their last cells with no more than a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # As it is: a damaged archive would raise errors of its own library.
            table = pd.read_csv(file, dtype=str, keep_default_na=False, index_col=False, encoding="utf-8-sig", compression=None)
    except pd.errors.ParserWarning:
        raise InputError(
            f"{name!r} has rows with more cells than its header; separate cells by commas, quote a text that holds one, and "
            "write decimals with a point"
        ) from None
    except pd.errors.EmptyDataError:
        raise InputError(f"{name!r} is empty; the first line of a price list names its columns") from None
    except (UnicodeDecodeError, pd.errors.ParserError) as error:
        raise InputError(f"{name!r} is not a readable CSV file: {' '.join(str(error).split())}") from error
    # Rows shorter than the header have missing values at their end.
    for column in table.columns:
        table[column] = table[column].fillna("").str.strip()
        if len(odd := table[table[column].str.contains(_CONTROL)]):
            raise InputError(f"{column} of row {odd.index[0] + 1} of {name!r} has a line break or another control character")
    return table
