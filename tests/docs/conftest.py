"""Pages and their fenced blocks, as parameters of the tests here: ``page`` and ``block``.

A block may have a remark on the line before it: ``<!-- not run: REASON -->`` (nobody can run it here, and why) or
``<!-- slow -->`` (`make soak` runs it).
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```[ \t]*$", re.DOTALL | re.MULTILINE)
_REMARK = re.compile(r"<!-- (not run: [^\n]+?|slow) -->\n *$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its page (relative to the repository), its first line's number, language and text, why it is not run."""

    page: str
    line: int
    language: str
    text: str
    not_run: str = ""
    slow: bool = False

    @property
    def commands(self) -> list[str]:
        """Its commands, a line each; of a ``console`` block those behind ``$``. What continues a line is joined to it."""
        text = re.sub(r"\\\n\s*", " ", self.text)
        if self.language == "console":
            return re.findall(r"^\$ (.*)$", text, re.MULTILINE)
        return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def pages() -> list[Path]:
    """Every Markdown file of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode == 0:
        return sorted(path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file())
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("data/**/*.md")])


def blocks() -> Iterator[Block]:
    """Every fenced block of every page."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for found in _FENCE.finditer(text):
            remark = _REMARK.search(text[: found.start()])
            said = remark[1] if remark else ""
            yield Block(
                page.relative_to(ROOT).as_posix(),
                text[: found.start()].count("\n") + 1,
                found["language"],
                re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
                said.removeprefix("not run: ") if said.startswith("not run") else "",
                said == "slow",
            )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
    if "block" in metafunc.fixturenames:
        marks = {True: (pytest.mark.soak,), False: ()}
        of_interest = getattr(metafunc.module, "LANGUAGES", None)
        chosen = [one for one in blocks() if of_interest is None or one.language in of_interest]
        metafunc.parametrize("block", [pytest.param(one, id=f"{one.page}:{one.line}", marks=marks[one.slow]) for one in chosen])
