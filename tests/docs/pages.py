"""Pages and their fenced blocks.

A block may have a remark on the line before it: ``<!-- not run: REASON -->`` (nobody can run it here, and why) or
``<!-- slow -->`` (`make soak` runs it).
"""

import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
    def where(self) -> str:
        """Its page and line."""
        return f"{self.page}:{self.line}"

    @property
    def is_commands(self) -> bool:
        """Whether it is what one types into a shell."""
        return self.language in ("sh", "bash", "console")

    @property
    def commands(self) -> list[str]:
        """Its commands, a line each; of a ``console`` block those behind ``$``. What continues a line is joined to it."""
        text = re.sub(r"\\\n\s*", " ", self.text)
        if self.language == "console":
            return re.findall(r"^\$ (.*)$", text, re.MULTILINE)
        return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


@cache
def pages() -> tuple[Path, ...]:
    """Every Markdown file of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode == 0:
        names = filter(None, listed.stdout.decode().split("\0"))
        return tuple(sorted(path for name in names if (path := ROOT / name).is_file()))
    return tuple(sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("data/**/*.md")]))


@cache
def blocks() -> tuple[Block, ...]:
    """Every fenced block of every page."""
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for fence in _FENCE.finditer(text):
            remark = _REMARK.search(text[: fence.start()])
            said = remark[1] if remark else ""
            found.append(
                Block(
                    page.relative_to(ROOT).as_posix(),
                    line_at(text, fence.start()),
                    fence["language"],
                    re.sub(rf"^{fence['indent']}", "", fence["text"], flags=re.MULTILINE),
                    said.removeprefix("not run: ") if said.startswith("not run") else "",
                    said == "slow",
                )
            )
    return tuple(found)


def line_at(text: str, place: int) -> int:
    """The number of the line in which a character stands, from 1."""
    return text.count("\n", 0, place) + 1
