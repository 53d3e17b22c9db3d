"""Are the figures what they were? Makes them again and compares them with the JSON files next to this one.

    python -m tests.frozen.compare [--write] [NAME ...]

Prints each figure that moved, before and now, and how many were compared. Exits 1 if any moved. ``--write`` keeps the new ones.
"""

# ruff: noqa: T201
import argparse
import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path

from ..arithmetic import add_alike
from .parts import Cases, Figure, Part

NAMES = ("predictions", "detections", "prometheus", "regressor", "distributed", "convmeter", "occupancy", "packing")
DIGITS = 8


def parts(name: str) -> list[Part]:
    """What a module freezes."""
    found: list[Part] = import_module(f".{name}", __package__).PARTS
    return found


def frozen(name: str) -> Cases:
    """What its JSON file holds."""
    path = Path(__file__).with_name(f"{name}.json")
    cases: Cases = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return cases


def made(name: str, part: Part, quick: bool = False) -> Cases:
    """The cases of a part, made here and now, with their whole names and rounded."""
    cases = (part.quick if quick and part.quick else part.cases)()
    return {
        f"{part.name}: {case}": {key: float(f"{one:.{DIGITS}g}") if isinstance(one, float) else one for key, one in row.items()}
        for case, row in cases.items()
    }


def count(cases: Cases) -> int:
    """How many figures."""
    return sum(map(len, cases.values()))


def same(before: Figure, now: Figure, rel: float) -> bool:
    """The same word, or the same number but for the order in which a processor adds."""
    if isinstance(before, float) and isinstance(now, int | float):
        return math.isclose(before, now, rel_tol=rel, abs_tol=1e-9)
    return before == now


def moved(before: Cases, now: Cases, rel: float) -> Iterator[tuple[str, str, str]]:
    """Each figure that is not what it was: its name, before, now. A case that is new or gone is one of them."""
    for case in {**before, **now}:
        old, new = before.get(case), now.get(case)
        if old is None or new is None:
            yield case, "-" if old is None else "there", "new" if old is None else "gone"
            continue
        for key in {**old, **new}:
            if key not in old or key not in new or not same(old[key], new[key], rel):
                yield f"{case} | {key}", str(old.get(key, "-")), str(new.get(key, "-"))


def of(part: Part, cases: Cases) -> Cases:
    """Those of a part."""
    return {case: row for case, row in cases.items() if case.startswith(f"{part.name}: ")}


def write(name: str, now: dict[str, Cases]) -> None:
    """Write the JSON file, a line for each case; parts that were not made and figures that did not move stay as they were."""
    before, lines = frozen(name), []
    for part in parts(name):
        for case, row in now.get(part.name, of(part, before)).items():
            old = before.get(case, {})
            kept = {key: old[key] if key in old and same(old[key], one, part.rel) else one for key, one in row.items()}
            lines.append(f"{json.dumps(case, ensure_ascii=False)}: {json.dumps(kept, ensure_ascii=False)}")
    Path(__file__).with_name(f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def work(name: str, number: int) -> tuple[Cases, float]:
    """The cases of a part, and how many seconds they took."""
    began = time.monotonic()
    return made(name, parts(name)[number]), time.monotonic() - began


def chosen(names: list[str]) -> Iterator[tuple[str, int, Part]]:
    """The parts named as `occupancy` or `occupancy:predicted`, and their numbers, but those that cannot be made here."""
    for name, _, only in (one.partition(":") for one in names):
        for number, part in enumerate(parts(name)):
            if part.name.startswith(only) and part.missing:
                print(f"skipped, as {' and '.join(part.missing)} is missing: {name}, {part.name}")
            elif part.name.startswith(only):
                yield name, number, part


def main() -> int:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME[:PART]", help=f"which of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--write", action="store_true", help="keep the new figures")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="(default: cores)")
    options = parser.parse_args()
    add_alike()
    changed, now, failed = list[tuple[str, str, str]](), defaultdict[str, dict[str, Cases]](dict), 0
    # Each part in a process of its own, which nothing that came before can have changed.
    fresh = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as cache, ProcessPoolExecutor(options.processes, fresh, max_tasks_per_child=1) as pool:
        os.environ["XDG_CACHE_HOME"] = cache
        begun = {pool.submit(work, name, number): (name, part) for name, number, part in chosen(options.names or [*NAMES])}
        for done in as_completed(begun):
            name, part = begun[done]
            if error := done.exception():
                failed += 1
                print(f"{name}, {part.name}: failed: {error!r}", flush=True)
                continue
            cases, seconds = done.result()
            now[name][part.name] = cases
            found = list(moved(of(part, frozen(name)), cases, part.rel))
            changed += [(f"{name} | {which}", *values) for which, *values in found]
            print(f"{name}, {part.name}: {count(cases)} figures, {len(found)} moved, {seconds:.0f} s", flush=True)
    if changed:
        print("\nfigure | before | now")
    for row in sorted(changed):
        print(" | ".join(row))
    for name, its in now.items():
        if options.write:
            write(name, its)
        print(f"{name}: {sum(map(count, its.values()))} figures of {sum(map(len, its.values()))} cases compared")
    print(f"{len(changed)} moved{', and are kept' * options.write}; {failed} parts failed")
    return int(bool(failed or (changed and not options.write)))


if __name__ == "__main__":
    sys.exit(main())
