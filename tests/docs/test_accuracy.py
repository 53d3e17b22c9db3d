"""Figures and outputs on one page are those of the page that has their command; scripts that pages name exist."""

import re
from pathlib import Path


def test_every_script_that_is_named_exists(root: Path) -> None:
    known = {path.name for path in (root / "lab/speed").rglob("*.py")}
    named = set(re.findall(r"`([a-z_]+\.py)`", (root / "docs/accuracy.md").read_text(encoding="utf-8")))
    assert len(named) > 10 and named <= known, f"no {', '.join(sorted(named - known))} in lab/speed"
    for page in (root / "docs").rglob("*.md"):
        for module in re.findall(r"python -m (lab(?:\.[a-z_]+)+)", page.read_text(encoding="utf-8")):
            path = root / module.replace(".", "/")
            assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), f"{page.name} names {module}"


def test_the_headline_figures_of_the_readme_are_those_of_the_page(root: Path) -> None:
    """Figures of the README are stated, to their own decimals, on the page that has the command behind them."""
    section = (root / "README.md").read_text(encoding="utf-8").split("## How good is it")[1].split("\n## ")[0]
    page = (root / "docs/accuracy.md").read_text(encoding="utf-8")
    stated = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", page)]
    headlines = re.findall(r"\d+\.\d+", section)
    assert len(headlines) >= 5
    for number in headlines:
        half = 0.5 * 10 ** -len(number.split(".")[1])
        assert any(abs(float(number) - other) <= half + 1e-9 for other in stated), f"README says {number}, accuracy.md does not"


def test_the_output_in_the_readme_is_that_of_the_tutorial(root: Path) -> None:
    """The tutorial's test runs the command and compares what comes out."""
    shown = (root / "README.md").read_text(encoding="utf-8").split("```console\n$ ")[1].split("\n```")[0].splitlines()
    tutorial = (root / "docs/tutorial.md").read_text(encoding="utf-8").splitlines()
    assert len(shown) > 5 and not set(shown) - set(tutorial)
