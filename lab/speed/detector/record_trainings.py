"""Record every training of ``trainings.toml`` with the product's own recorder: a trace and its true epoch marks each.

Run on an otherwise idle machine: python -m lab.speed.detector.record_trainings [--out data] [--only NAME]

Each trace starts before the process does (imports and the making of data are in it) and goes on after its end. A run whose
trace and labels are both there is skipped; nothing is ever cut, chosen or repeated by what a detector says of it.
"""

import shlex
import subprocess
import sys
from pathlib import Path

from lab.speed.detector.trainings import BUSY, Run, plan
from lab.speed.page import options

LEAD_S, TAIL_S = 2, 5


def record(name: str, run: Run, trace: Path, labels: Path) -> bool:
    """Record one run next to its busy loops; whether it succeeded."""
    training = shlex.join([sys.executable, "-m", "lab.speed.detector.trainings", name, "--labels", str(labels)])
    command = ["sh", "-c", f"sleep {LEAD_S} && {training} && sleep {TAIL_S}"]
    recorder = [sys.executable, "-m", "epochcast.analyzer", "record", "--source", "host", "--out", str(trace), "--"]
    loops = [subprocess.Popen([sys.executable, "-c", BUSY.format(start=0, lasts=3600)]) for _ in range(run.others)]
    try:
        return subprocess.run(recorder + command, check=False).returncode == 0
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> int:
    """Record what is missing; 1 if a run failed."""
    parser = options(__doc__, page=False)
    parser.add_argument("--out", type=Path, default=Path("data"), help="the folder of the runs' folders")
    parser.add_argument("--only", choices=list(plan()), metavar="NAME", help="this run alone")
    arguments = parser.parse_args()
    failed = []
    for name, run in plan().items():
        folder = arguments.out / run.folder
        folder.mkdir(parents=True, exist_ok=True)
        trace, labels = folder / f"{name}.csv", folder / f"{name}.json"
        if arguments.only not in (None, name):
            continue
        if trace.exists() and labels.exists():
            print(f"{name}: already recorded")
        elif not record(name, run, trace, labels):
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all recorded")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
