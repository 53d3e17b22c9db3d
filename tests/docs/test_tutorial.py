"""docs/tutorial.md and docs/llm-jobs.md, followed literally: every block runs, in order, and prints what is shown.

A ``bash`` block runs; the ``text`` block behind it is what it prints. A line of ``…`` stands for any number of lines, a ``…``
at the end of a line for its rest. Numbers may differ by two per cent; after ``<!-- figures vary -->`` they may be any.
``<!-- not run: REASON -->`` leaves a block out, but for installing packages, which a fresh clone does.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ..processes import free_port

INSTALLS = "installs packages"
_BLOCK = re.compile(r"((?:^<!--[^\n]*-->\n)*)^```(bash|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_BETWEEN = "@@@ block {}"


@dataclass(frozen=True)
class Step:
    """One command block: its text, why it is not run (or None), whether it is slow, what the page says that it prints."""

    commands: str
    left_out: str | None
    slow: bool
    shown: str | None
    varies: bool


def steps_of(page: str) -> list[Step]:
    """The command blocks of a page, in order, each with the output that stands behind it."""
    steps: list[Step] = []
    end = 0
    for match in _BLOCK.finditer(page):
        remarks, language, body = match.groups()
        if language == "bash":
            reason = re.search(r"<!-- not run: (.*?) -->", remarks)
            steps.append(Step(body, reason and reason[1], "<!-- slow -->" in remarks, None, False))
        else:
            assert steps and not page[end : match.start()].strip(), f"an output without a command before it: {body[:60]!r}"
            steps[-1] = replace(steps[-1], shown=body, varies="<!-- figures vary -->" in remarks)
        end = match.end()
    return steps


def follow(steps: list[Step], folder: Path, path: str) -> list[str]:
    """Run the steps in one bash in ``folder``, with ``path`` as PATH; what each printed, its errors too."""
    script = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", "exec 2>&1"]
    for i in range(len(steps)):
        script += [f"echo; echo '{_BETWEEN.format(i)}'", steps[i].commands]
    environment = os.environ | {"PATH": path, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=folder, env=environment, capture_output=True, text=True, timeout=550
    )
    assert done.returncode == 0, f"the tutorial ends with status {done.returncode}:\n{done.stdout[-4000:]}"
    return re.split(r"^@@@ block \d+\n", done.stdout, flags=re.MULTILINE)[1:]


def shows(shown: str, printed: str, *, any_figures: bool) -> str | None:
    """None if ``printed`` is what the page shows, else the first line of it that cannot be found where it should be."""
    wanted = [" ".join(line.split()) for line in shown.splitlines()]
    lines = [" ".join(line.split()) for line in printed.splitlines() if line.strip()]
    ends = set(range(len(lines) + 1))  # where a line may stand next: anywhere at first, later behind the last one or past a gap
    for line in wanted:
        if line == "…":
            ends = set(range(min(ends), len(lines) + 1))
            continue
        ends = {k + 1 for k in ends if k < len(lines) and same(line, lines[k], any_figures=any_figures)}
        if not ends:
            return line
    return None


def same(shown: str, printed: str, *, any_figures: bool) -> bool:
    """Whether two lines have the same words, and numbers within two per cent (or any)."""
    if shown.endswith("…"):
        shown = shown[:-1].rstrip("0123456789. ") if any_figures else shown[:-1].rstrip()
        printed = printed[: len(shown)]
    if _NUMBER.sub("#", shown) != _NUMBER.sub("#", printed):
        return False
    pairs = zip(map(float, _NUMBER.findall(shown)), map(float, _NUMBER.findall(printed)), strict=True)
    return any_figures or all(abs(a - b) <= 0.02 * abs(a) + 1e-9 for a, b in pairs)


def compare(steps: list[Step], outputs: list[str]) -> None:
    for step, printed in zip(steps, outputs, strict=True):
        if step.shown is not None:
            missing = shows(step.shown, printed, any_figures=step.varies)
            assert missing is None, f"the page shows {missing!r}, which is not in\n{printed}"


def on_free_port(steps: list[Step]) -> list[Step]:
    """The same with a service that listens elsewhere than on the default port, which may be taken."""
    port = free_port()
    state = 'state = "./state.db"\n'
    return [
        replace(step, commands=step.commands.replace(":9913", f":{port}").replace(state, f"{state}port = {port}\n"))
        for step in steps
    ]


def test_the_tutorial_with_what_is_installed(root: Path, tmp_path: Path) -> None:
    """All of it but the minute of training, which `soak` does: a command of two seconds is recorded instead."""
    steps = [step for step in steps_of((root / "docs/tutorial.md").read_text(encoding="utf-8")) if step.left_out is None]
    assert len(steps) >= 8
    steps = [
        Step(s.commands.replace("python train.py", "sleep 2"), None, False, None, False) if s.slow else s
        for s in on_free_port(steps)
    ]
    compare(steps, follow(steps, tmp_path, f"{Path(sys.executable).parent}:{os.environ['PATH']}"))


def test_the_page_on_llm_jobs(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(root), prepend=os.pathsep)  # of lab/
    steps = [step for step in steps_of((root / "docs/llm-jobs.md").read_text(encoding="utf-8")) if step.left_out is None]
    assert len(steps) == 2
    compare(steps, follow(steps, tmp_path, f"{Path(sys.executable).parent}:{os.environ['PATH']}"))


@pytest.mark.soak
def test_the_tutorial_on_a_fresh_clone(root: Path, tmp_path: Path) -> None:
    """Installation and training included: some minutes, and packages from the index that pip is set up for."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(root), str(clone)], check=True)
    page = (clone / "docs/tutorial.md").read_text(encoding="utf-8")
    steps = on_free_port([step for step in steps_of(page) if step.left_out in (None, INSTALLS)])
    assert any(step.left_out == INSTALLS for step in steps)
    system = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if Path(p) != Path(sys.executable).parent)
    assert shutil.which("python3", path=system), "no python3 next to this environment"
    compare(steps, follow(steps, clone, system))
