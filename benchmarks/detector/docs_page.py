"""The generated parts of docs/detector.md: text between markers, and pictures beside it.

Run: python benchmarks/detector/docs_page.py [comparison comparison.md]     (puts the file between the markers of that name;
without arguments it lists the parts and their lengths)

A part stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->`; what lies outside the markers is written by hand.
"""

import argparse
import io
import re
from collections.abc import Iterable
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from epochcast.analyzer.figures.style import drawing
from epochcast.analyzer.files import write_whole

PAGE = Path(__file__).parents[2] / "docs" / "detector.md"
PICTURES = PAGE.parent / "images" / "detector"

_DPI = 75
_COLOURS = 64


def fill(name: str, lines: Iterable[str], page: Path = PAGE) -> None:
    """Replace the part `name` of the page; ValueError if the page has no such markers."""
    text = page.read_text(encoding="utf-8")
    part = re.compile(rf"(<!-- {re.escape(name)}:begin -->\n).*?(<!-- {re.escape(name)}:end -->)", re.DOTALL)
    if not part.search(text):
        raise ValueError(
            f"{page.name} has no markers <!-- {name}:begin --> and <!-- {name}:end -->: add them where the part goes"
        )
    content = "\n".join(lines).strip("\n")
    filled = part.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)
    write_whole(page, lambda file: file.write(filled.encode()))


def save_picture(figure: Figure, name: str, folder: Path = PICTURES) -> str:
    """Write the figure as a small PNG (few colours) and return the path that the page links to."""
    buffer = io.BytesIO()
    with drawing():
        figure.savefig(buffer, format="png", dpi=_DPI, facecolor="white")
    picture = Image.open(buffer).convert("RGB").quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / f"{name}.png", lambda file: picture.save(file, format="PNG", optimize=True))
    return f"images/detector/{name}.png"


def main() -> None:
    """Put a Markdown file between its markers, or list the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?")
    parser.add_argument("markdown", nargs="?", type=Path)
    options = parser.parse_args()
    if options.markdown is not None:
        fill(options.name, options.markdown.read_text(encoding="utf-8").splitlines())
    for part in re.finditer(r"<!-- (\w+):begin -->\n(.*?)<!-- \1:end -->", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        print(f"{part[1]}: {part[2].count(chr(10))} lines")


if __name__ == "__main__":
    main()
