"""What every measurement shares: public data, options, tables, and the parts of pages in docs/ that it writes.

    python -m lab.speed.regressor.accuracy [--write]     measure; with --write, put the tables into the page too

A measurement is a module with its data, its protocol and its targets, a function that yields lines of Markdown, and a last line
that calls :func:`publish`. A part lies between `<!-- NAME:begin -->` and `<!-- NAME:end -->`; the rest is written by hand.
"""

import argparse
import io
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from matplotlib.figure import Figure
from PIL import Image

from epochcast.analyzer.charts import drawing
from epochcast.common.files import write_whole

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SHARED = Path(os.environ.get("EPOCHCAST_SHARED", ROOT.parent / "shared")) / "data"
"""Public data, which is not part of the product."""

_DPI = 75
_COLOURS = 64


@dataclass(frozen=True)
class Page:
    """docs/NAME.md and lab/NAME.md, and their pictures in docs/images/NAME/."""

    name: str
    docs: Path = DOCS

    @property
    def path(self) -> Path:
        """The Markdown file."""
        return self.docs / f"{self.name}.md"

    def fill(self, part: str, lines: Iterable[str]) -> None:
        """Replace a part of the page, or of the workshop's page of that name; ValueError if neither has such markers."""
        marked = re.compile(rf"(<!-- {re.escape(part)}:begin -->\n).*?(<!-- {re.escape(part)}:end -->)", re.DOTALL)
        content = "\n".join(lines).strip("\n")
        for path in (self.path, self.docs.parent / "lab" / self.path.name):
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            if place := marked.search(text):
                own = content if path == self.path else content.replace("](images/", f"](../{self.docs.name}/images/")
                filled = f"{text[: place.start()]}{place[1]}{own}\n{place[2]}{text[place.end() :]}".encode()
                write_whole(path, partial(_write, filled))
                return
        raise ValueError(
            f"{self.path.name} has no markers <!-- {part}:begin --> and <!-- {part}:end -->: add them where the part goes"
        )

    def save_picture(self, figure: Figure, name: str) -> str:
        """Write the figure as a small PNG (few colours) and return the path that the page links to."""
        buffer = io.BytesIO()
        with drawing():
            figure.savefig(buffer, format="png", dpi=_DPI, facecolor="white")
        picture = Image.open(buffer).convert("RGB").quantize(_COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        link = Path("images") / self.name / f"{name}.png"
        (self.docs / link).parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.docs / link, lambda file: picture.save(file, format="PNG", optimize=True))
        return link.as_posix()


DETECTOR = Page("detector")
REGRESSOR = Page("regressor")
RECOMMENDATION = Page("recommendation")
DISTRIBUTED = Page("distributed")
CONVMETER = Page("convmeter")
OCCUPANCY = Page("occupancy")
MEASUREMENTS = Page("measurements")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """First column left, the others right."""
    return [f"| {' | '.join(row)} |" for row in (header, ("---", *["---:"] * (len(header) - 1)), *rows)]


def public(name: str) -> Path:
    """A file of the public data by its path there; a process without it ends with a sentence."""
    path = SHARED / name
    if not path.exists():
        sys.exit(f"{path} is not there; EPOCHCAST_SHARED names the folder with the public data")
    return path


def options(module_doc: str | None, *, page: bool = True) -> argparse.ArgumentParser:
    """The parser of a measurement, which may add options of its own; ``page``: whether it writes a part of one."""
    parser = argparse.ArgumentParser(description=module_doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if page:
        parser.add_argument("--write", action="store_true", help="put the part into its page of docs/")
    return parser


def publish(page: Page, part: str, lines: Iterable[str], *, write: bool) -> None:
    """Print the lines as they come; with ``write`` put them into the part, below the command that made them."""
    printed = []
    for line in lines:
        print(line, flush=True)
        printed.append(line)
    if write:
        page.fill(part, [f"`{_command()}`", "", *printed])


def part_options(module_doc: str | None) -> argparse.Namespace:
    """The options of a measurement of several parts of a page, for :func:`publish_parts`."""
    parser = options(module_doc)
    parser.add_argument("part", nargs="*", help="parts of the page (all)")
    return parser.parse_args()


def publish_parts(page: Page, parts: Mapping[str, Iterable[str]], chosen: argparse.Namespace) -> None:
    """Publish the parts that were named, or all; the lines of a part are made when they are taken."""
    if unknown := set(chosen.part) - set(parts):
        sys.exit(f"no part {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    for part in chosen.part or parts:
        publish(page, part, parts[part], write=chosen.write)


def _command() -> str:
    """How this process was started, as a reader would start it."""
    spec = sys.modules["__main__"].__spec__
    assert spec is not None
    return " ".join(["python", "-m", spec.name, *sys.argv[1:]])


def _write(content: bytes, file: BinaryIO) -> None:
    file.write(content)
