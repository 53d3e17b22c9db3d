"""Public tables of measured jobs as lines of profiles, which ``epochcast fit regressor --data`` reads."""

import argparse
import json
import sys
from pathlib import Path

from epochcast.regressor import InputError
from epochcast.regressor.profile_json import profile_json
from lab.corpora import load_corpus


def main(arguments: list[str] | None = None) -> int:
    """Print the profiles; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.corpora", description=__doc__)
    parser.add_argument("tables", type=Path, nargs="+", metavar="TABLE")
    try:
        profiles = [profile for path in parser.parse_args(arguments).tables for profile in load_corpus(path)]
    except InputError as error:
        sys.stderr.write(f"lab.corpora: {error}\n")
        return 2
    print("\n".join(json.dumps(profile_json(profile)) for profile in profiles))
    return 0


if __name__ == "__main__":
    sys.exit(main())
