"""What of an answer is kept in a golden, and where two answers differ."""

import json
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXPECTED = Path(__file__).parent / "expected"
LONGEST, FIRST, LAST = 12, 5, 2
"""A longer list keeps so many of its elements, and of all of them the length, sums of the numbers and a check of the words. So
does a longer dictionary of dictionaries, which is a table whose rows have names."""
SUMMED = {"baselines", "by"}
"""Of these tables sums and check alone are kept: all figures of each baseline, or by each device, network and so on."""

# What a run spends, when and with what it ran: beginning of a command -> keys that are dropped from its answer.
VOLATILE = {
    "": {"age_days", "cpu_s", "cpu_s_per_hour", "made", "version"},
    "fit": {"seconds"},
    "fleet analyze": {"seconds"},
    "epochcast-agent": {"sources", "problems"},
}
# Not there while the shipped prices are young.
STALE = re.compile(r"\d+ of \d+ prices? (are|is) older than ")
# Unix times: what lies before the last whole 100 000 s is dropped, as a millionth of it would be half an hour.
TIMES = {"start", "end", "first_sample"}


def text(value: Any, levels: int = 3) -> str:
    """JSON with a line for each key of an answer, each path and each schema: small, and a diff still says where."""
    if not levels or not value or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, list):
        return "[\n" + ",\n".join(text(one, levels - 1) for one in value) + "\n]"
    return "{\n" + ",\n".join(f'"{key}": {text(one, levels - 1)}' for key, one in value.items()) + "\n}"


def kept(value: Any, command: str = "", key: str = "") -> Any:
    """What of a command's answer is compared: numbers of eight digits, the ends of long lists, nothing volatile."""
    if isinstance(value, dict):
        drop = {name for begin, names in VOLATILE.items() if command.startswith(begin) for name in names}
        if key in SUMMED:
            return {name: _sums([kept(one, command)], "") for name, one in value.items()}
        told = {name: kept(one, command, name) for name, one in value.items() if name not in drop}
        if len(told) <= LONGEST or not all(isinstance(one, dict) for one in told.values()):
            return told
        value = [{"name": name, **told[name]} for name in sorted(told)]
    if isinstance(value, list):
        values = [kept(one, command, key) for one in value if not (isinstance(one, str) and STALE.match(one))]
        if len(values) <= LONGEST:
            return values
        return {"first": values[:FIRST], "last": values[-LAST:], "length": len(values), **_sums(values, key)}
    if isinstance(value, float):
        return float(f"{value % 1e5 if key in TIMES else value:.8g}")
    return value


def _sums(values: list[Any], key: str) -> dict[str, Any]:
    sums, words = defaultdict[str, float](float), 0
    for name, leaf in _leaves(values, key):
        if isinstance(leaf, int | float) and not isinstance(leaf, bool):
            sums[name] += abs(leaf)
        else:
            words = zlib.crc32(str(leaf).encode(), words)
    return {"sums": {name: float(f"{total:.8g}") for name, total in sorted(sums.items())}, "words": words}


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Every value with its key; the keys are words, too."""
    if isinstance(value, dict):
        for name in sorted(value):
            yield "", name
            yield from _leaves(value[name], name)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one, key)
    else:
        yield key, value


def shape(value: Any) -> Any:
    """The keys and types of an answer whose values are measured here and now; of a list its first element's."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    return "null" if value is None else type(value).__name__


def differences(expected: Any, found: Any, rel: float, at: str = "") -> Iterator[str]:
    """Where two answers differ: in a key, a type, a word, or a number by more than ``rel`` of it."""
    if isinstance(expected, dict) and isinstance(found, dict):
        yield from (f"{at}/{key}: gone" for key in expected if key not in found)
        yield from (f"{at}/{key}: new" for key in found if key not in expected)
        for key in (key for key in expected if key in found):
            yield from differences(expected[key], found[key], rel, f"{at}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, rel, f"{at}/{number}")
    elif isinstance(expected, float) and isinstance(found, float):
        if not math.isclose(expected, found, rel_tol=rel, abs_tol=1e-9):
            yield f"{at}: {expected} before, {found} now"
    elif type(expected) is not type(found) or expected != found:
        yield f"{at}: {expected!r} before, {found!r} now"
