"""What is rented where: a table of nodes."""

from __future__ import annotations

from pathlib import Path

from ..csv_text import parse_csv, read_text
from ..errors import InputError
from ..telemetry.settings import Place

_COLUMNS = ("node", "instance", "cloud", "region")


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
