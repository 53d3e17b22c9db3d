"""Record every training of ``trainings.toml`` with the product's own recorder: a trace and its true epoch marks each.

Run on an otherwise idle machine: python benchmarks/detector/record_trainings.py [--out data/cpu_training] [--only NAME]

Each trace starts before the process does (imports and the making of data are in it) and goes on after its end. A run whose
trace and labels are both there is skipped; nothing is ever cut, chosen or repeated by what a detector says of it.
"""

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from trainings import plan

LEAD_S, TAIL_S = 2, 5
TRAININGS = Path(__file__).with_name("trainings.py")


def record(name: str, folder: Path) -> bool:
    """Record one run into ``folder`` as NAME.csv and NAME.json; whether it succeeded."""
    trace, labels = folder / f"{name}.csv", folder / f"{name}.json"
    training = shlex.join([sys.executable, str(TRAININGS), name, "--labels", str(labels)])
    command = ["sh", "-c", f"sleep {LEAD_S} && {training} && sleep {TAIL_S}"]
    recorder = [sys.executable, "-m", "epochcast.analyzer", "record", "--source", "host", "--out", str(trace), "--"]
    return subprocess.run(recorder + command, check=False).returncode == 0


def main() -> int:
    """Record what is missing; 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("data/cpu_training"))
    parser.add_argument("--only", choices=list(plan()), metavar="NAME", help="this run alone")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in [arguments.only] if arguments.only else plan():
        if all((arguments.out / f"{name}{suffix}").exists() for suffix in (".csv", ".json")):
            print(f"{name}: already recorded")
        elif not record(name, arguments.out):
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all recorded")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
