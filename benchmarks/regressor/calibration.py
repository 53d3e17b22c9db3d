"""What k anchor workloads measured on a new GPU bring: protocol P4 on the public pairs, each GPU left out in turn.

    EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.calibration [--write]

Errors are over the pairs into the new GPU whose workload is no anchor. The process's hyper-parameters were fixed before any of
these figures were seen (regressor/residual_process.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.anchored import Anchoring, chosen_anchors, with_anchors
from epochcast.regressor.answers import Answers
from epochcast.regressor.features import prior_log_ratio
from epochcast.regressor.protocols import out_of_fold
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.reliability import from_new_gpus

from .public_pairs import PublicPairs, header, line, options, report

COUNTS = (3, 5, 10, 20, 40)
DRAWS = 12
SHORT_S = 8.0

Orders = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Setting:
    """The public pairs, answers of recipes fitted without the target GPU or the source GPU, and the log ratios measured."""

    public: PublicPairs
    base: Answers
    out: Answers
    actual: NDArray[np.float64]

    def gpus(self) -> list[str]:
        """The GPUs that are left out in turn."""
        return np.unique(self.public.targets).tolist()

    def mape(self, orders: Orders, count: int) -> float:
        """Percent over the tested pairs into all GPUs."""
        rows, answers = with_anchors(self.public.pairs, self.base, count, orders)
        return percent(answers.log_ratio - self.actual[rows])


def percent(log_errors: NDArray[np.float64]) -> float:
    """MAPE of log errors."""
    return float(100 * np.abs(np.expm1(log_errors)).mean())


def errors(setting: Setting, prior: Setting, orders: Orders) -> Iterator[str]:
    """MAPE by k, for several ways to choose the anchors."""
    short = {
        gpu: [name for name in order if setting.public.actual[_row(setting.public, name, gpu)] < SHORT_S]
        for gpu, order in orders.items()
    }
    draws = [
        {gpu: np.random.default_rng(draw).permutation(sorted(order)).tolist() for gpu, order in orders.items()}
        for draw in range(DRAWS)
    ]
    yield from header("MAPE %, anchors", "0", *(str(count) for count in COUNTS))
    none = percent(setting.base.log_ratio - setting.actual)
    yield line("chosen", f"{none:.1f}", *(f"{setting.mape(orders, count):.1f}" for count in COUNTS))
    yield line(f"chosen, epochs below {SHORT_S:.0f} s only", f"{none:.1f}", *(f"{setting.mape(short, k):.1f}" for k in COUNTS))
    yield line(f"random, mean of {DRAWS} draws (range)", f"{none:.1f}", *(_spread(setting, draws, k) for k in COUNTS))
    bare = percent(prior.base.log_ratio - prior.actual)
    yield line("chosen, on the prior alone (no library)", f"{bare:.1f}", *(f"{prior.mape(orders, k):.1f}" for k in COUNTS))
    yield line("chosen, its architecture not among the anchors", f"{none:.1f}", *_new_architecture(setting, orders))
    yield line("chosen, answers out of the new GPU", *_out_of(setting, orders))


def _row(public: PublicPairs, workload: str, gpu: str) -> int:
    return int(np.flatnonzero((public.workloads == workload) & (public.targets == gpu))[0])


def _spread(setting: Setting, draws: Sequence[Orders], count: int) -> str:
    figures = [setting.mape(draw, count) for draw in draws]
    return f"{np.mean(figures):.1f} ({min(figures):.1f}–{max(figures):.1f})"


def _new_architecture(setting: Setting, orders: Orders) -> Iterator[str]:
    """Each architecture is tested with anchors of the others; the recipe saw it on other GPUs, as in P4."""
    groups = np.array([pair.source.group for pair in setting.public.pairs])
    group_of = dict(zip(setting.public.workloads.tolist(), groups.tolist(), strict=True))
    for count in COUNTS:
        found = []
        for group in np.unique(groups).tolist():
            foreign = {gpu: [name for name in order if group_of[name] != group] for gpu, order in orders.items()}
            rows, answers = with_anchors(setting.public.pairs, setting.base, count, foreign)
            found.append((answers.log_ratio - setting.actual[rows])[groups[rows] == group])
        yield f"{percent(np.concatenate(found)):.1f}"


def _out_of(setting: Setting, orders: Orders) -> Iterator[str]:
    """Pairs out of the new GPU: its telemetry is as new as its speed."""
    for count in (0, *COUNTS):
        rows, answers = with_anchors(setting.public.pairs, setting.out, count, orders, "out")
        yield f"{percent(answers.log_ratio - setting.actual[rows]):.1f}"


def by_gpu(setting: Setting, orders: Orders) -> Iterator[str]:
    """Error and interval on each new GPU; the interval comes from the other three, calibrated alike."""
    yield ""
    yield from header("anchors", "", *(f"to {gpu}" for gpu in setting.gpus()), "all")
    for count in COUNTS:
        rows, answers = with_anchors(setting.public.pairs, setting.base, count, orders)
        log_errors, targets = answers.log_ratio - setting.actual[rows], setting.public.targets[rows]
        widths = np.full(len(rows), np.nan)
        for gpu in setting.gpus():
            elsewhere = np.flatnonzero((setting.public.targets != gpu) & (setting.public.sources != gpu))
            rest = [setting.public.pairs[row] for row in elsewhere.tolist()]
            here = np.flatnonzero(targets == gpu)
            widths[here] = Anchoring.measure(rest, setting.base[elsewhere], setting.out[elsewhere]).interval.half_widths(
                answers[here]
            )
        which = [*(targets == gpu for gpu in setting.gpus()), np.ones(len(rows), dtype=bool)]
        inside = np.abs(log_errors) <= widths
        yield line(str(count), "MAPE %", *(f"{percent(log_errors[here]):.1f}" for here in which))
        yield line("", "inside the 90 % interval, %", *(f"{100 * inside[here].mean():.0f}" for here in which))
        yield line("", "median half-width, %", *(f"{100 * np.expm1(np.median(widths[here])):.0f}" for here in which))
        yield line("", "n", *(str(here.sum()) for here in which))


def lines() -> Iterator[str]:
    """The part of the page."""
    public = PublicPairs.load()
    actual = np.log(public.actual / np.array([pair.source.epoch_s for pair in public.pairs]))
    out = from_new_gpus(public.pairs)
    base = out_of_fold(public.pairs, "P4", DefaultRecipe(), also=out)[2]
    assert base is not None
    one = np.ones(len(actual))
    prior = Answers(prior_log_ratio(public.pairs), one, one, np.full(len(one), "prior"), public.sources, np.full(len(one), ""))
    setting = Setting(public, base, out.answers(), actual)
    orders = {gpu: chosen_anchors(public.pairs, gpu) for gpu in setting.gpus()}
    yield from errors(setting, Setting(public, prior, prior, actual), orders)
    yield from by_gpu(setting, orders)


if __name__ == "__main__":
    report("calibration", lines(), options(__doc__ or ""))
