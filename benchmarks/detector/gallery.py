"""Pictures of what the detector does: where it is right, where it abstains, and where it is wrong.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.detector.gallery [--seed 7000] [--write]

Nothing is picked by its outcome except the failures, which are searched for: shown are the real and recorded traces named
below, the first seed's trace of each simulated class, and up to `--failures` traces that `track` answers confidently and
wrongly.
Captions are made from the scores. `--write` puts pictures and text into docs/detector.md; without it the captions are printed.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from epochcast.analyzer.figures import detection_figure
from epochcast.analyzer.figures.series import draw_series
from epochcast.analyzer.figures.style import BLUE, GREEN, ORANGE, drawing
from epochcast.analyzer.traces.labels import labelled_traces, read_labels
from epochcast.analyzer.traces.trace import Trace, read_trace
from epochcast.detector import Detection, InputError, detect
from epochcast.detector.confidence import ANSWERS
from epochcast.detector.evaluation import Labels, TraceScore, score_trace
from epochcast.detector.simulator import CLASSES, simulate_class

from ..page import DETECTOR
from .comparison import ROOT, SHARED

#: Traces of real GPUs (`EPOCHCAST_SHARED`), one of each kind, and what they are.
REAL = {
    "gtx970_1_pytorch_100_0": "board power of a GTX 970, 20 Hz: idle, 12 epochs of MNIST with validation, idle",
    "gtx970_4_keras_90_1": "the same at 10 Hz, with Keras",
    "titanx_2025-12-04-01-22-31_gpu0": "nvidia-smi of a TITAN X, 10 Hz; the last burst is not labelled",
    "h100_ckpt1_gpu0": "one of eight H100 that save a checkpoint after each step; it blinks outside of training, too",
    "regimes/h100_ckpt100_gpu3": "the same job with a checkpoint every 100 steps: cycles of 41 s, then of 79.5 s",
    "wandb_11291996_naver-bert-sentiment_qozohwal": "BERT, read by wandb every 30 s",
    "wandb_boostcampaitech5_level2_objectdetection-cv-12_3hhsnai0": "object detection, every 30 s: eight readings an epoch",
    "wandb_boostcampaitech2_object-detection-level2-cv-15_3gtfz1qv": "object detection, every 30 s: four epochs in noise",
    "wandb_AbrahamWG_bridge-rna_6305cvve": "a sequence model, every 15 s: nobody sees its epochs in the plot",
    "more/wandb2_bhoomeendra_Email_Subject_Line_Generation_hk40ia8l_gpu0": "evaluates every so many steps, which is no epoch",
}

#: What each class of the gallery shows.
SIMULATED = {
    "paper": "the paper's own kind of job: ten epochs, each with validation and a gap",
    "many": "hundreds of epochs; the close-up shows a few of them",
    "checkpoints": "a long save after every k-th epoch only",
    "evaluations": "the same validation also in the middle of an epoch",
    "messy": "stalls, drift, throttling and glitches",
    "missing": "missing rows, jitter and holes",
    "two_jobs": "two trainings on one GPU",
    "no_gap": "neither validation nor a visible gap",
    "llm_steps": "strictly even steps without epochs",
    "serving": "an inference server",
}

#: Of the recorded CPU trainings, shared ones and our own: one of each kind, named before any was scored by this script.
RECORDED = ("r3_resnet_b32_val_ck", "r1_cnn_b64_val", "cnn_b128_val", "resnet_b64_val_checkpoint")

#: Methods of the comparison picture (the paper's Fig. 6), in its order of rows.
COMPARED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("track", "track", {}),
    ("paper", "paper", {}),
    ("notebook", "notebook", {}),
    ("PELT rbf", "pelt", {}),
    ("PELT rbf, every second", "pelt", {"every": 2}),
    ("Jenks", "jenks", {}),
)


@dataclass(frozen=True)
class Exhibit:
    """A labelled trace: where it comes from, and what is to be seen in it."""

    name: str
    origin: str
    trace: Trace
    labels: Labels
    note: str = ""

    def detection(self, method: str = "track", **parameters: Any) -> tuple[Detection, TraceScore]:
        """The method's answer and its score."""
        time, metrics = self.trace.time, self.trace.metrics()
        found = detect(time, metrics, method=method, **parameters)
        return found, score_trace(self.name, found, self.labels, time, metrics)


def simulated(cls: str, seed: int) -> Exhibit:
    """The trace of a class and a seed."""
    run = simulate_class(cls, seed)
    trace = Trace(pd.DataFrame({"time": run.time, **run.metrics}), gpu=run.gpu, simulated=True)
    origin = f"simulated {run.gpu}, class `{cls}`, seed {seed}"
    labels = Labels.from_json(run.labels())
    return Exhibit(f"{cls}_{seed}", origin, trace, labels, SIMULATED.get(cls, CLASSES[cls].description.rstrip(".")))


def real() -> Iterator[Exhibit]:
    """The traces of real GPUs; none where the shared data is absent."""
    for name, note in REAL.items():
        path = SHARED / "data" / "real_traces" / name
        if path.with_name(f"{path.name}.json").exists():
            trace = read_trace(f"{path}.csv.gz")
            yield Exhibit(
                path.name, f"{trace.gpu}, `{path.name}`", trace, read_labels(path.with_name(f"{path.name}.json")), note
            )


def recorded() -> Iterator[Exhibit]:
    """Every recorded CPU run, the shared ones first; those of a folder that is absent are left out."""
    for folder, origin in (
        (SHARED / "data" / "detector" / "cpu_training", "recorded CPU run, shared"),
        (ROOT / "data" / "cpu_training", "recorded CPU run, our own"),
    ):
        if folder.is_dir():
            for name, trace, labels in labelled_traces(folder):
                yield Exhibit(name, f"{origin}, `{name}`", trace, labels)


def cropped(exhibit: Exhibit) -> Exhibit:
    """From the first true epoch's start to the last one's end, as the authors' notebook crops."""
    time = exhibit.trace.time
    inside = (time >= exhibit.labels.epoch_starts[0]) & (time <= exhibit.labels.epoch_ends[-1])
    frame = exhibit.trace.frame[inside].reset_index(drop=True).dropna(axis="columns", how="all")
    trace = Trace(frame, gpu=exhibit.trace.gpu, simulated=exhibit.trace.simulated)
    return Exhibit(f"{exhibit.name}_cropped", exhibit.origin, trace, exhibit.labels)


def outcome(score: TraceScore) -> str:
    """The caption's judgement, from the score alone."""
    sure = f"confidence {score.confidence:.2f}"
    of_work = " of work" if score.clock == "work" else ""
    if not score.training:
        if score.verdict == "none":
            return f"**Right**: nothing to find, no answer ({sure})."
        if score.verdict == "steps":
            return f"{'**Right**: s' if score.steps else 'S'}teps of {score.found_period:.2f} s, no epochs ({sure})."
        return f"**False alarm**: epochs of {score.found_period:.1f} s where there are none ({sure})."
    if score.error is None:
        return f"**Silent** ({sure}); true: {score.true_period:.2f} s{of_work}."
    f1 = "" if score.boundary_f1 is None else f", boundary F1 {score.boundary_f1:.2f}"
    both = "" if score.jobs < 2 else f"; reports {score.jobs_found} of {score.jobs} jobs"
    word = "Right" if score.right else "Wrong"
    truth = f"{score.found_period:.2f} s, true {score.true_period:.2f} s{of_work}"
    return f"**{word}**: {score.error:.1f} % off ({truth}){f1}, {sure}{both}."


def picture(exhibit: Exhibit, found: Detection) -> Figure:
    """The figure of `epochcast detect --plot`, with the truth."""
    return detection_figure(
        exhibit.trace, found, title=exhibit.origin.replace("`", ""), true_starts=exhibit.labels.epoch_starts
    )


def methods_figure(exhibit: Exhibit) -> Figure:
    """One trace and the boundaries of several methods, a row each, as in the paper's Fig. 6."""
    origin = exhibit.trace.time[0]
    with drawing():
        figure = Figure(figsize=(10, 1.6 + 0.35 * len(COMPARED)), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, len(COMPARED)])
        draw_series(above, exhibit.trace.time - origin, exhibit.trace.metrics(["dram_active"])["dram_active"], color=BLUE)
        above.set_ylabel("dram\nactive", rotation=0, ha="right", va="center")
        truth = np.append(exhibit.labels.epoch_starts, exhibit.labels.epoch_ends[-1]) - origin
        rows = [("truth", truth)]
        for title, method, parameters in COMPARED:
            try:
                found = detect(exhibit.trace.time, exhibit.trace.metrics(), method=method, **parameters)
                marks = np.unique([time for epoch in found.epochs for time in (epoch.start, epoch.end)]) - origin
            except InputError as error:
                title, marks = f"{title} ({error})", np.empty(0)
            rows.append((title, marks))
        for row, (_, marks) in enumerate(rows):
            below.vlines(marks, -row - 0.35, -row + 0.35, color=ORANGE if row else GREEN, linewidth=1.4)
        below.set_yticks([-row for row in range(len(rows))], [title for title, _ in rows])
        below.set_xlabel("seconds since the first sample")
        below.grid(visible=False)
        return figure


def failures(seed: int, tries: int, most: int) -> Iterator[tuple[Exhibit, Detection, TraceScore]]:
    """Real and recorded runs first, then simulated ones by class and seed, that `track` answers confidently and wrongly."""
    shown = 0
    visible = [cls for cls, spec in CLASSES.items() if spec.visible]
    for exhibit in (*real(), *recorded(), *(simulated(cls, seed + number) for cls in visible for number in range(tries))):
        found, score = exhibit.detection()
        wrong = score.false_alarm or (score.error is not None and not score.right)
        if wrong and score.confidence >= ANSWERS and shown < most:
            shown += 1
            yield exhibit, found, score


def page(seed: int, tries: int, most: int, write: bool) -> Iterator[str]:
    """Markdown of the gallery."""

    def shown(exhibit: Exhibit, found: Detection, score: TraceScore, name: str) -> Iterator[str]:
        note = f"{exhibit.note[0].upper()}{exhibit.note[1:]}. " if exhibit.note else ""
        yield from (f"{note}{outcome(score)}", "")
        if write:
            yield from (f"![{exhibit.name}, method {found.method}]({DETECTOR.save_picture(picture(exhibit, found), name)})", "")

    if exhibits := list(real()):
        yield from ("### Real GPUs", "")
        for exhibit in exhibits:
            yield from (f"**`{exhibit.name}`.**", "")
            yield from shown(exhibit, *exhibit.detection(), name=f"real_{exhibit.name}")

    yield from ("### Simulated traces, the first seed of each class", "")
    for cls in SIMULATED:
        exhibit = simulated(cls, seed)
        yield from (f"**`{cls}`.**", "")
        yield from shown(exhibit, *exhibit.detection(), name=f"simulated_{cls}")

    if exhibits := [exhibit for exhibit in recorded() if exhibit.name in RECORDED]:
        yield from ("### Recorded CPU trainings", "")
        for exhibit in exhibits:
            yield from (f"**`{exhibit.name}`.**", "")
            yield from shown(exhibit, *exhibit.detection(), name=f"recorded_{exhibit.name}")

    yield from ("### Confident and wrong", "")
    seeds = f"{tries} {'seed' if tries == 1 else 'seeds'} of each visible class"
    searched = f"Searched: the real traces above, all recorded CPU runs, and {seeds}."
    found_any = False
    for number, (exhibit, found, score) in enumerate(failures(seed, tries, most), start=1):
        if not found_any:
            yield from (f"{searched} Shown: at most {most}, in that order.", "")
        found_any = True
        yield from (f"**{exhibit.origin}.**", "")
        yield from shown(exhibit, found, score, name=f"failure_{number}")
    if not found_any:
        yield from (f"{searched} None was found.", "")

    yield from ("### The paper's recipe, pass by pass (its Figs. 3, 5 and 6)", "")
    papers = simulated("paper", seed)
    crop = cropped(papers)
    for exhibit, what, name in (
        (crop, "Cropped with the true marks to its ten epochs, as in the paper.", "paper_cropped"),
        (papers, "The same trace as it was recorded.", "paper_uncropped"),
    ):
        found, score = exhibit.detection("paper")
        yield from (f"{what} Grey: Luminol's score; green: after the Savitzky-Golay filter; triangles: peaks.", "")
        yield from shown(Exhibit(exhibit.name, exhibit.origin, exhibit.trace, exhibit.labels), found, score, name)
    if write:
        yield from ("The cropped trace and the boundaries that each method finds in it:", "")
        yield f"![Boundaries of several methods]({DETECTOR.save_picture(methods_figure(crop), 'methods')})"


def main() -> None:
    """Print the captions, or write pictures and text into the docs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=7000)
    parser.add_argument("--tries", type=int, default=1, help="seeds of each class that failures are searched in")
    parser.add_argument("--failures", type=int, default=3, help="failures shown")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = []
    for line in page(options.seed, options.tries, options.failures, options.write):
        print(line, flush=True)
        lines.append(line)
    if options.write:
        DETECTOR.fill("gallery", [f"`python -m benchmarks.detector.gallery --seed {options.seed} --write`", "", *lines])


if __name__ == "__main__":
    main()
