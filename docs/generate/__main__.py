"""Write docs/reference/*.md from the code: commands, HTTP interfaces, metrics, settings, file formats.

Run: python docs/generate            (writes what has changed)
     python docs/generate --check    (writes nothing; exit 1 names the pages that no longer say what the code does)
"""

import argparse
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
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name, page in PAGES.items():
        path, text = REFERENCE / name, page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.write_text(text, encoding="utf-8")
                sys.stdout.write(f"wrote {path.name}\n")
    if check and stale:
        sys.stderr.write(f"docs/reference is stale ({', '.join(stale)}): run python docs/generate\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
