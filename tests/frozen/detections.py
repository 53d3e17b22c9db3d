"""Verdict, period and confidence on every real trace: GPUs, CPU runs, node power of MLPerf; whole jobs, and damaged logs."""

import shlex
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .parts import ROOT, SHARED, Cases, Figure, Part, ask, evaluate

REAL = SHARED / "real_traces"
OVERALL = (
    *("n", "answered", "within_5", "confident_wrong", "confident_wrong_8", "mape"),
    *("epochs_right", "ends_right", "boundary_f1"),
)
FOUND = ("verdict", "found_period", "confidence", "epochs_found", "clock", "reason", "error")
MLPERF = "--protocol mlperf --data SHARED/detector/mlperf_v4.0_power.csv.gz --events SHARED/detector/mlperf_v4.0_events.csv.gz"


def labelled(folder: Path, *only: str) -> Cases:
    """Each trace of a folder that says its epochs, or only these, and the figures over all of them."""
    if not only:
        return scored(f"--data {shlex.quote(str(folder))}")
    with tempfile.TemporaryDirectory() as chosen:
        for path in folder.iterdir():
            if path.name.split(".")[0] in only:
                Path(chosen, path.name).symlink_to(path)
        document = scored(f"--data {chosen}")
    return {case: row for case, row in document.items() if case != "all"}


def scored(options: str) -> Cases:
    """Each trace of an evaluation, and its figures over all."""
    document = evaluate(f"detector {options}")
    cases: Cases = {"all": {key: document[key] for key in OVERALL}}
    for name, row in document["by"]["trace"].items():
        cases[name] = {key: row[key] for key in FOUND}
    return cases


def changing() -> Cases:
    """The traces whose period changes: the periods that are found one after the other."""
    document = evaluate(f"detector --data {REAL / 'more3'} --regimes {REAL / 'regimes'}")["regimes"]
    cases: Cases = {"all": {key: document[key] for key in ("n", "one_period_sure", "stretches_right")}}
    for name, row in document["by"].items():
        periods = {f"period_{number}": one["period_s"] for number, one in enumerate(row["stretches"], start=1)}
        cases[name] = {key: row[key] for key in ("verdict", "confidence", "reason")} | periods
    return cases


def detected(*traces: Path) -> dict[str, Figure]:
    """What `detect` says of one trace, or of those of one job."""
    status, document, _ = ask(f"detect {shlex.join(map(str, traces))}")
    if document is None:
        return {"exit": status}
    found = document.get("job", document)
    row: dict[str, Any] = {key: found[key] for key in ("verdict", "unit", "period_s", "confidence", "reason")}
    odd = {"odd_gpus": sum(bool(gpu["odd"]) for gpu in document["gpus"])} if "gpus" in document else {}
    return {"exit": status, **row, "epochs": len(found["epochs"]), "stretches": len(found["stretches"]), **odd}


def jobs(*names: str) -> Cases:
    """The traces of several GPUs as one answer; by the beginning of their names."""
    return {name.split("/")[-1]: detected(*sorted(REAL.glob(f"{name}_gpu*.csv.gz"))) for name in names}


def logs() -> Cases:
    """Logs as people have them."""
    return {path.name: detected(path) for path in sorted((SHARED / "logs").iterdir()) if path.suffix != ".md"}


def part(name: str, folder: Path, *quick: str) -> Part:
    needs = ("shared",) if folder.is_relative_to(SHARED) else ()
    few: Callable[[], Cases] | None = partial(labelled, folder, *quick) if quick else None
    return Part(name, partial(labelled, folder), quick=few, needs=needs)


TITANS = ("titanx_2025-12-04-01-22-31", "titanx_2025-12-05-01-42-25")
PAIR = "more/wandb2_bhoomeendra_Email_Subject_Line_Generation_hk40ia8l"

PARTS = [
    part(
        *("real_traces", REAL, "gtx970_1_keras_100_0", "titanx_2025-12-05-01-42-25_gpu0", "h100_ckpt1_gpu0"),
        *("wandb_boostcampaitech2_object-detection-level2-cv-15_7e9u16lm",),
    ),
    part("more", REAL / "more", "wandb2_arigra_Heavy-Clutter-Detection_h976y4ld_gpu0"),
    part("more3", REAL / "more3"),
    part("evaluations", REAL / "evaluations", "wandb_boostcampaitech2_object-detection-level2-cv-11_1it23vkb"),
    part("h100_dcgm", REAL / "h100_dcgm", "h100_dcgm_b1_gpu0", "h100_dcgm_i4_gpu0"),
    Part("regimes", changing, needs=("shared",)),
    part("shared cpu_training", SHARED / "detector" / "cpu_training"),
    part("process_training", ROOT / "data" / "process_training", "beside_resnet_steps", "beside_lstm_line"),
    part("cpu_training", ROOT / "data" / "cpu_training"),
    part("cpu_demo", ROOT / "data" / "cpu_demo", "numpy_1"),
    part("cpu_campaign", ROOT / "data" / "cpu_campaign"),
    part("record_epochs", ROOT / "data" / "h200" / "record_epochs"),
    Part("mlperf", partial(scored, MLPERF), needs=("shared",)),
    Part(
        "job",
        partial(jobs, "h100_ckpt1", "regimes/h100_ckpt100", "h100_dcgm/h100_dcgm_t3", *TITANS, PAIR),
        partial(jobs, TITANS[0]),
        ("shared",),
    ),
    Part("log", logs, needs=("shared",)),
]
