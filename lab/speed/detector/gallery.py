"""Pictures of what the detector does: where it is right, where it abstains, and where it is wrong.

    EPOCHCAST_SHARED=../shared python -m lab.speed.detector.gallery [--seed 7000] [--write]

Nothing is picked by its outcome except the failures, which are searched for: shown are the real and recorded traces named
below, the first seed's trace of each simulated class, and the first traces that `track` answers confidently and wrongly.
Captions are made from the scores. Pictures are drawn with `--write` only.
"""

from collections.abc import Iterator
from itertools import chain, islice

import numpy as np
from matplotlib.figure import Figure

from epochcast.analyzer.figures import detection_figure
from epochcast.analyzer.figures.style import BLUE, GREEN, ORANGE, draw_series, drawing
from epochcast.detector import Detection, InputError, detect
from epochcast.detector.confidence import ANSWERS
from lab.evaluate.detection import TraceScore, score_trace
from lab.simulator import CLASSES
from lab.speed.detector.comparison import CONTESTANTS
from lab.speed.detector.traces import CPU_TRAININGS, REAL, VISIBLE, LabelledTrace, real, recorded, simulated
from lab.speed.page import DETECTOR, options, publish

#: Traces of real GPUs (`EPOCHCAST_SHARED`), one of each kind, and what they are.
REAL_TRACES = {
    "gtx970_1_pytorch_100_0": "board power of a GTX 970, 20 Hz: idle, 12 epochs of MNIST with validation, idle",
    "gtx970_4_keras_90_1": "the same at 10 Hz, with Keras",
    "titanx_2025-12-04-01-22-31_gpu0": "nvidia-smi of a TITAN X, 10 Hz; the last burst is not labelled",
    "h100_ckpt1_gpu0": "one of eight H100 that save a checkpoint after each step; it blinks outside of training, too",
    "regimes/h100_ckpt100_gpu3": "the same job with a checkpoint every 100 steps: cycles of 41 s, then of 79.5 s",
    "wandb_11291996_naver-bert-sentiment_qozohwal": "BERT, read by wandb every 30 s",
    "wandb_boostcampaitech5_level2_objectdetection-cv-12_3hhsnai0": "object detection, every 30 s: eight readings an epoch",
    "wandb_boostcampaitech2_object-detection-level2-cv-15_3gtfz1qv": "object detection, every 30 s: four epochs in noise",
    "wandb_AbrahamWG_bridge-rna_6305cvve": "a sequence model, every 15 s: its epochs do not show in the plot",
    "more/wandb2_bhoomeendra_Email_Subject_Line_Generation_hk40ia8l_gpu0": "evaluates by number of steps, not by epoch",
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

#: Contestants of the comparison picture (the paper's Fig. 6), in its order of rows.
COMPARED = [
    each for each in CONTESTANTS if each.title in ("track", "paper", "notebook", "PELT rbf", "PELT rbf, every second", "Jenks")
]

#: Failures shown.
MOST = 3

Answered = tuple[Detection, TraceScore]


def answered(each: LabelledTrace, method: str = "track") -> Answered:
    """The method's answer and its score."""
    found = detect(each.time, each.metrics, method=method)
    return found, score_trace(each.name, found, each.labels, each.time, each.metrics)


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
    both = "" if score.jobs < 2 else f"; {score.jobs_found} of {score.jobs} jobs right"
    word = "Right" if score.right else "Wrong"
    truth = f"{score.found_period:.2f} s, true {score.true_period:.2f} s{of_work}"
    return f"**{word}**: {score.error:.1f} % off ({truth}){f1}, {sure}{both}."


def methods_figure(each: LabelledTrace) -> Figure:
    """One trace and the boundaries of several methods, a row each, as in the paper's Fig. 6."""
    origin = each.time[0]
    with drawing():
        figure = Figure(figsize=(10, 1.6 + 0.35 * len(COMPARED)), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, len(COMPARED)])
        draw_series(above, each.time - origin, each.metrics["dram_active"], color=BLUE)
        above.set_ylabel("dram\nactive", rotation=0, ha="right", va="center")
        truth = np.append(each.labels.epoch_starts, each.labels.epoch_ends[-1]) - origin
        rows = [("truth", truth)]
        for contestant in COMPARED:
            title = contestant.title
            try:
                found = detect(each.time, each.metrics, method=contestant.method, **contestant.parameters)
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


def failures(traces: Iterator[tuple[str, LabelledTrace]]) -> Iterator[tuple[str, LabelledTrace, Answered]]:
    """Those that `track` answers confidently and wrongly."""
    for note, each in traces:
        found, score = answered(each)
        wrong = score.false_alarm or (score.error is not None and not score.right)
        if wrong and score.confidence >= ANSWERS:
            yield note, each, (found, score)


def report(seed: int, write: bool) -> Iterator[str]:
    """The part of the page."""

    def shown(note: str, each: LabelledTrace, answer: Answered, name: str) -> Iterator[str]:
        found, score = answer
        yield from (f"{note[:1].upper()}{note[1:]}{'. ' if note else ''}{outcome(score)}", "")
        if write:
            title, starts = each.origin.replace("`", ""), each.labels.epoch_starts
            figure = detection_figure(each.trace, found, title=title, true_starts=starts)
            yield from (f"![{each.name}, method {found.method}]({DETECTOR.save_picture(figure, name)})", "")

    reals = [(note, real(name)) for name, note in REAL_TRACES.items() if (REAL / f"{name}.json").exists()]
    recordings = [
        ("", each) for whose, folder in CPU_TRAININGS.items() for each in recorded(folder, f"recorded CPU run, {whose}")
    ]
    of_classes = [(note, simulated(cls, seed)) for cls, note in SIMULATED.items()]
    sections: dict[str, list[tuple[str, str | None, str, LabelledTrace]]] = {
        "Real GPUs": [(f"real_{each.name}", each.name, note, each) for note, each in reals],
        "Simulated traces, the first seed of each class": [
            (f"simulated_{each.labels.cls}", each.labels.cls, note, each) for note, each in of_classes
        ],
        "Recorded CPU trainings": [
            (f"recorded_{each.name}", each.name, note, each) for note, each in recordings if each.name in RECORDED
        ],
    }
    for title, exhibits in sections.items():
        yield from (f"### {title}", "") if exhibits else ()
        for picture, name, note, each in exhibits:
            yield from (f"**`{name}`.**", "")
            yield from shown(note, each, answered(each), picture)

    yield from ("### Confident and wrong", "")
    searched = "the real traces above, all recorded CPU runs, and 1 seed of each visible class"
    yield from (f"Searched: {searched}. Shown: at most {MOST}, in that order.", "")
    visible = ((SIMULATED.get(cls, CLASSES[cls].description.rstrip(".")), simulated(cls, seed)) for cls in VISIBLE)
    for number, (note, each, answer) in enumerate(islice(failures(chain(reals, recordings, visible)), MOST), start=1):
        yield from (f"**{each.origin}.**", "")
        yield from shown(note, each, answer, f"failure_{number}")

    yield from ("### The paper's recipe, pass by pass (its Figs. 3, 5 and 6)", "")
    paper = simulated("paper", seed)
    crop = paper.cropped(len(paper.labels.epoch_starts))
    for each, what, name in (
        (crop, "Cropped with the true marks to its ten epochs, as in the paper.", "paper_cropped"),
        (paper, "The same trace as it was recorded.", "paper_uncropped"),
    ):
        yield from (f"{what} Grey: Luminol's score; green: after the Savitzky-Golay filter; triangles: peaks.", "")
        yield from shown("", each, answered(each, "paper"), name)
    if write:
        yield from ("The cropped trace and the boundaries that each method finds in it:", "")
        yield f"![Boundaries of several methods]({DETECTOR.save_picture(methods_figure(crop), 'methods')})"


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("--seed", type=int, default=7000)
    chosen = parser.parse_args()
    publish(DETECTOR, "gallery", report(chosen.seed, chosen.write), write=chosen.write)
