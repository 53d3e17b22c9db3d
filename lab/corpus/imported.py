"""Import wandb runs (run folders or .wandb files, offline ones too) into a corpus, as rows to train on.

A folder of TensorBoard event files becomes a row if --trace gives the telemetry recorded during that run. Epochs come from the
run's history or its printed lines; otherwise they are detected. A run without epochs, or with several busy GPUs, is left out
with the reason.

python -m lab.corpus import wandb/run-* --out corpus
python -m lab.corpus import logs/ --trace run.parquet --workload resnet50 --out corpus
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.trace import write_trace
from epochcast.regressor import Catalog, load_catalog
from lab.commands import note
from lab.corpus.kept_run import ImportOptions, read_kept_run, saying_what_gives_epochs
from lab.corpus.labelled_traces import TRACES
from lab.corpus.run import Run, read_run
from lab.corpus.table import add_run, copy_traces, make_folder

_FIGURES = ("gpu", "workload", "group", "epoch_s", "epoch_s_low", "epoch_s_high")


def options(parser: argparse.ArgumentParser) -> None:
    """Which runs, what they do not say, and where to."""
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="corpus folder to write to")
    parser.add_argument("--trace", type=Path, help="telemetry recorded during the run: TensorBoard needs it, wandb has its own")
    parser.add_argument("--workload", help="its name (default: the project and a digest of the configuration)")
    parser.add_argument("--group", help="family of the workload (default: the configuration's network or model)")
    parser.add_argument("--gpu", help="GPU that the runs used, if they do not name it")
    parser.add_argument("--device", type=int, help="index of the GPU that the runs used, if several were busy")
    parser.add_argument("--steps-per-epoch", type=float, help="if the history counts none")


def study(asked: argparse.Namespace) -> dict[str, Any]:
    """Import what can be imported."""
    if asked.trace is not None and len(asked.runs) > 1:
        raise InputError(f"--trace is the telemetry of one run, but {len(asked.runs)} were given; import them one at a time")
    kept = ("trace", "workload", "group", "gpu", "device", "steps_per_epoch")
    of_user = ImportOptions(**{name: getattr(asked, name) for name in kept})
    catalog, added, left_out = load_catalog(), [], []
    for path in asked.runs:
        try:
            run = import_run(path, asked.out, catalog, of_user)
            figures = {key: getattr(run.profile, key) for key in _FIGURES}
            added.append({"run": str(path), **figures, "marks": run.marks, "trace": run.trace})
        except InputError as error:
            left_out.append({"run": str(path), "why": str(error)})
    if not added:
        raise InputError(f"no run can be imported; {left_out[0]['run']!r} because: {left_out[0]['why']}")
    note(f"{asked.out}: {len(added)} imported, {len(left_out)} left out")
    return {"imported": added, "left_out": left_out}


def import_run(path: Path, corpus: Path, catalog: Catalog, of_user: ImportOptions) -> Run:
    """Bring a run of wandb or TensorBoard (its folder, or its file) into the corpus, a folder; again, it replaces its own row.

    The trace, and all but the detected epochs, are kept in ``traces/`` as a campaign's are. Raises InputError for a run that
    gives no row, with nothing written.
    """
    kept = read_kept_run(path, of_user)
    with TemporaryDirectory(prefix="epochcast-import-") as folder:
        trace = write_trace(kept.trace, Path(folder) / f"{kept.name}.parquet")
        labels = trace.with_suffix(".json")
        labels.write_text(json.dumps(kept.labels), encoding="utf-8")
        with saying_what_gives_epochs():
            run = read_run(trace, labels, catalog, f"{TRACES}/{kept.name}.parquet")
        make_folder(corpus)
        copy_traces(trace, corpus / TRACES / trace.name)
        add_run(corpus, run)
    return run
