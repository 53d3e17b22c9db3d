"""What our pages share, the service's and the reports of a demo and a fleet: how templates are read, and the style sheet."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined


def templates(package: str, folder: str = "") -> Environment:
    """The templates in a ``folder`` of a package: all texts are escaped, and a name that is not known is an error."""
    return Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,  # names of jobs and GPUs come from users who start processes
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def style_sheet() -> str:
    """``page.css``."""
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")
