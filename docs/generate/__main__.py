"""Write docs/reference/*.md from the code: commands, HTTP interfaces, metrics, settings, file formats.

Run: python docs/generate. They are not committed: `make docs` and the tests of the pages write them.
"""

import sys
from pathlib import Path

import command_line
import configuration
import file_formats
import http_api
import metric_tables

REFERENCE = Path(__file__).parents[1] / "reference"

PAGES = {
    "command-line.md": command_line.page,
    "http-api.md": http_api.page,
    "metrics.md": metric_tables.page,
    "configuration.md": configuration.page,
    "file-formats.md": file_formats.page,
}


def main() -> int:
    """Write the pages that have changed."""
    for name, page in PAGES.items():
        path, text = REFERENCE / name, page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
