"""What is special in logs of ``nvidia-smi --query-gpu=timestamp,index,… --format=csv[,nounits][,noheader] -lms 100``.

The first line names the fields with their units, ``timestamp, index, utilization.gpu [%]``; without ``nounits`` each cell
repeats its unit; a field that the GPU does not have reads ``[N/A]``: `..table` reads all that. Of a log with ``noheader`` the
fields are those of the command, where its first line repeats that, else metrics named by their places. The log has no time
zone: its local times are taken as UTC, so that lengths are right and dates may be hours off.

What nvidia-smi and others print for people to look at is refused here, with the command that logs.
"""

from __future__ import annotations

import re

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.columns import meaning_of
from epochcast.analyzer.traces.table import REMEDY

_TIMESTAMP = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d[.,]\d{3}")
_COMMAND = re.compile(r"^[#$>\s]*nvidia-smi\b.*?--query-gpu[=\s]\s*[\"']?([\w.,]+).*$")
#: What a field without a header is known by.
_LOOKS = (
    ("timestamp", _TIMESTAMP),
    ("uuid", re.compile(r"(GPU|MIG)-[0-9a-f]+-[0-9a-f-]+")),
    ("pci.bus_id", re.compile(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d")),
    ("name", re.compile(r"(NVIDIA|Tesla|GeForce|Quadro|TITAN|GRID)\b.*")),
)

#: First lines of what is printed for people -> what it is.
_PRINTED = (
    (re.compile(r"^\+-{20,}\+?$|NVIDIA-SMI \d+\."), "nvidia-smi's table for people"),
    (re.compile(r"^=+\s*NVSMI LOG\s*=+"), "the output of nvidia-smi -q"),
    (re.compile(r"<!DOCTYPE nvidia_smi_log|<nvidia_smi_log"), "the output of nvidia-smi -q -x"),
    (re.compile(r"^\[\d+\] .+\|.*\d+ */ *\d+ MB"), "gpustat's table for people"),
)


def refuse_printed(head: str, name: str) -> None:
    """Raise InputError, with the command to use instead, for a text that begins like one for people."""
    if name.endswith(".py"):
        raise InputError(
            f"{name!r} is a program, not what it does to a GPU: record it (epochcast record --out run.parquet -- python "
            f"{name}), or predict its network before it runs (epochcast predict-model)"
        )
    for line in head.split("\n")[:40]:
        for looks, what in _PRINTED:
            if looks.search(line.strip()):
                raise InputError(f"{name!r} is {what}, which is no log; {REMEDY.partition(', or')[0]}")


def with_header(text: str, name: str) -> tuple[str, list[str], bool]:
    """The text with the names of its fields in its first line, a note where it names none, and whether it is nvidia-smi's.

    Raises InputError for a command in the first line that logs other fields than the rows have.
    """
    command, text = _without_command(text)
    first = text.partition("\n")[0]
    cells = [cell.strip() for cell in (first.split(", ") if ", " in first else re.split("[,;]", first))]
    if not any(map(_TIMESTAMP.fullmatch, cells)):
        known = "timestamp" in cells and any(meaning_of(cell)[1] not in (None, cell) for cell in cells)
        return text, [], bool(command) or known
    if command and len(command) != len(cells):
        raise InputError(
            f"the command in the first line of {name!r} requests {len(command)} fields, but its rows have {len(cells)}; "
            "repeat the logging command"
        )
    note = (
        "the log has no header, so its metrics are named by position; for their real names put the logging command "
        "into its first line (# nvidia-smi --query-gpu=timestamp,index,…)"
    )
    return ", ".join(command or _fields_of(cells)) + "\n" + text, [] if command else [note], True


def _without_command(text: str) -> tuple[list[str], str]:
    """The fields of the command that a text begins with, if it does, and the rest."""
    first, _, rest = text.partition("\n")
    command = _COMMAND.match(first)
    return (command[1].split(","), rest) if command else ([], text)


def _fields_of(cells: list[str]) -> list[str]:
    fields: list[str] = []
    for place, cell in enumerate(cells, start=1):
        known = next((field for field, looks in _LOOKS if looks.fullmatch(cell) and field not in fields), None)
        unit = re.match(r"[-+]?\d+(?:[.,]\d+)?\s*([^\s\d]\S*)$", cell)
        fields.append(known or f"field {place}{f' in {unit[1]}' if unit else ''}")
    return fields
