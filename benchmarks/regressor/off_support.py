"""What the regressor says of jobs unlike those it was trained on: how much support it claims, and how wide its intervals get.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.off_support [--write]        (about 3 minutes on a core)

Trained on all public rows (convolutional networks on four GPUs), and asked about public rows whose telemetry is scaled to an
extreme, and about simulated jobs of each class of the detector's simulator on those GPUs: trainings, language-model steps,
inference, preprocessing. None of these has a true ratio; what can be judged is the warning: support, width, and how many
answers are of measured speeds, as the arithmetic is not known or not that of the public rows. Last, public rows of
architectures that were left out of training (protocol P3), with the error that came of them.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from epochcast.detector.simulator import CLASSES, simulate_class
from epochcast.detector.simulator.trace import SimulatedTrace
from epochcast.regressor import Catalog, Profile, load_catalog, load_corpus
from epochcast.regressor.answers import Answers
from epochcast.regressor.intervals import Interval, half_widths
from epochcast.regressor.pairs import Pair, actual_ratio, make_pairs
from epochcast.regressor.protocols import out_of_fold
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.reliability import Reliability
from epochcast.regressor.summary import summarise

from .public_pairs import DATA, SEED, header, line, report

_TRACES = 12  # of each class, on GPUs that training knows
_ROWS = 60  # public rows that are scaled

Statistics = Mapping[str, Mapping[str, float]]

BANDS = {"1": (1.0, 1.01), "0.5 to 1": (0.5, 1.0), "under 0.5": (-0.01, 0.5)}


def constant(value: float) -> dict[str, float]:
    """Statistics of a metric that never moves."""
    return dict.fromkeys(("mean", "min", "p25", "p50", "p75", "max"), value) | {"std": 0.0}


def scaled(statistics: Mapping[str, float], factor: float, most: float = np.inf) -> dict[str, float]:
    """Statistics of a metric that is some times as large, up to a bound."""
    return {name: min(value * factor, most) for name, value in statistics.items()}


def extremes(row: Profile, tdp: float) -> dict[str, Statistics]:
    """The row's metrics pushed to what no training row shows."""
    metrics = row.metrics
    busy = {"gpu_utilization": constant(1.0)}
    return {
        "as measured": metrics,
        "utilisation 1, power at TDP": {**metrics, **busy, "power": constant(tdp)},
        "utilisation and memory 1, power at TDP": {
            **metrics,
            **busy,
            "memory_utilization": constant(1.0),
            "power": constant(tdp),
        },
        "utilisation 1, power at 25 % of TDP": {**metrics, **busy, "power": constant(tdp / 4)},
        "utilisation and memory of 0.02": {
            **metrics,
            "gpu_utilization": constant(0.02),
            "memory_utilization": constant(0.02),
        },
        "SM clock halved": {**metrics, "sm_clock": scaled(metrics["sm_clock"], 0.5)},
        "power doubled": {**metrics, "power": scaled(metrics["power"], 2.0)},
    }


def summary_of(drawn: SimulatedTrace) -> Profile:
    """The profile of a simulated trace over its true epochs, or over all of it where there are none."""
    spans = list(zip(drawn.epoch_starts[:-1], drawn.epoch_starts[1:], strict=True)) if drawn.epoch_starts.size > 1 else []
    return summarise(drawn.gpu, drawn.time, drawn.metrics, spans, simulated=True)


def of_class(cls: str, catalog: Catalog, known: Sequence[str]) -> Iterator[Profile]:
    """Profiles of a class on GPUs that training knows."""
    seed = found = 0
    while found < _TRACES:
        drawn = simulate_class(cls, seed)
        seed += 1
        if catalog.resolve(drawn.gpu).name in known:
            found += 1
            yield summary_of(drawn)


def questions(profiles: Sequence[Profile], catalog: Catalog, known: Sequence[str]) -> list[Pair]:
    """Each profile asked for each other GPU that training knows."""
    sources = [(profile, catalog.resolve(profile.gpu)) for profile in profiles]
    return [Pair(profile, gpu, catalog[name]) for profile, gpu in sources for name in known if name != gpu.name]


def width(answers: Answers, intervals: Mapping[str, Interval]) -> float:
    """Median half-width of the intervals, in percent."""
    return 100 * float(np.expm1(np.median(half_widths(intervals, answers))))


def claims(name: str, answers: Answers, intervals: Mapping[str, Interval], usual: float) -> str:
    """One line: how many, the share of less than full and less than half support and of route speeds, how wide they are."""
    wide = width(answers, intervals)
    shares = (f"{np.mean(answers.support < bound):.0%}" for bound in (1.0, 0.5))
    by_speeds = f"{np.mean(answers.routes == 'speeds'):.0%}"
    return line(name, f"{len(answers.support)}", *shares, by_speeds, f"{wide:.1f}", f"{wide / usual:.2f}")


def by_support(pairs: Sequence[Pair], protocol: str, intervals: Mapping[str, Interval]) -> Iterator[str]:
    """Error and coverage of a protocol's answers by the support that they claim."""
    _, _, answers = out_of_fold(pairs, protocol, DefaultRecipe(), SEED)
    assert answers is not None
    error = answers.log_ratio - np.log(actual_ratio(pairs))
    half = half_widths(intervals, answers)
    for name, (low, high) in BANDS.items():
        rows = (answers.support >= low) & (answers.support < high)
        if rows.any():
            ape = 100 * np.abs(np.expm1(error[rows]))
            held = np.mean(np.abs(error[rows]) <= half[rows])
            wide = 100 * np.expm1(np.median(half[rows]))
            yield line(
                protocol, name, f"{rows.sum()}", f"{ape.mean():.2f}", f"{np.median(ape):.2f}", f"{wide:.1f}", f"{held:.0%}"
            )


def tables() -> Iterator[str]:
    """All figures as Markdown."""
    catalog = load_catalog()
    pairs = make_pairs(load_corpus(DATA), catalog)
    known = sorted({pair.source_gpu.name for pair in pairs})
    _, _, left_out = out_of_fold(pairs, "P3", DefaultRecipe(), SEED)
    assert left_out is not None
    intervals = Reliability.measure(pairs, DefaultRecipe()).intervals
    usual = width(left_out, intervals)
    recipe = DefaultRecipe().fit(pairs).forgetting_jobs()
    columns = "answers", "support under 1", "under 0.5", "route `speeds`", "half-width %", "times the usual"
    yield f"Usual half-width, of architectures left out of training: {usual:.1f} %."
    yield ""
    yield from header("public rows, scaled", *columns)
    rows = list({id(pair.source): pair for pair in pairs}.values())
    chosen = [rows[i] for i in np.random.default_rng(SEED).permutation(len(rows))[:_ROWS]]
    for name in extremes(chosen[0].source, 1.0):
        asked = [replace(row.source, metrics=extremes(row.source, row.source_gpu.tdp)[name]) for row in chosen]
        yield claims(name, recipe.answer(questions(asked, catalog, known)), intervals, usual)
    yield ""
    yield from header("simulated class", *columns)
    for cls, spec in CLASSES.items():
        answers = recipe.answer(questions(list(of_class(cls, catalog, known)), catalog, known))
        yield claims(f"{cls} ({'training' if spec.training else 'no training'})", answers, intervals, usual)
    yield ""
    yield from header("left out", "support", "pairs", "MAPE %", "median %", "half-width %", "held")
    for protocol in ("P2", "P3"):
        yield from by_support(pairs, protocol, intervals)


def main() -> None:
    """Print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the part into docs/regressor.md")
    report("off_support", tables(), parser.parse_args())


if __name__ == "__main__":
    main()
