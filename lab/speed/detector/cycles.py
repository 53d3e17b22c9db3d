"""Which cycles of a job are named, and how: steps, checkpoints, evaluations and epochs of simulated jobs, and idle shares.

    OMP_NUM_THREADS=1 python -m lab.speed.detector.cycles [--seed 90000] [--jobs 200] [--processes 1]

What telemetry cannot tell apart, and the names that count as right here:

- The base cycle that a validation ends is an `epoch`, also where the program counts it as N steps between two evaluations.
- A cycle that nothing but a save ends, or that differs from the shorter ones within it by a save alone, is a `checkpoint`,
  also where its program counts epochs. One that ends with a validation and a save each time is an `epoch`; `checkpoint` is
  true too.
- A shorter cycle that a validation ends is an `evaluation` if the longer one around it ends with a longer validation, or with
  a gap. If the longer one differs by its save alone, `epoch` (a save every k epochs) and `evaluation` (evaluated every N
  steps, saved every m N) are the same telemetry and both right; only `epoch` is if a gap follows each validation.
- Steps may be named in groups (workers of a loader, accumulation): a whole multiple of a step up to 10, or as many as
  the loader has workers; so may micro-batches.

An answered cycle matches a true one if their periods are within 5 %. The period of a true cycle is the median of its lengths;
lengths alternate where every second cycle holds a save, a longer validation or a wait for the loader, so anything between their
quartiles will do, and of steps and evaluations also their mean.
A true cycle is visible with 3 repetitions or more, and a step with 8 samples or more: these have to be named, others may be. A
named cycle (a kind other than `unknown`) that matches no true one of its kind is misnamed. Wanted: at least 90 % of the visible
ones named rightly, at most 2 % of the named ones misnamed, idle shares within 3 points.

The true idle share, over all whole cycles, is stated in two ways. *Device*: the time in which no kernel runs, by the share of
each phase in which the simulated device computes; that is what is measured. *Process*: the time that the process waits, saves
or sets up; a device that computes in 0.9 of a step idles for a tenth of it, and a process does not.
"""

from collections import Counter
from dataclasses import dataclass
from multiprocessing import Pool
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.detector import detect
from lab.evaluate.detection import TOLERANCE
from lab.simulator import SimulatedTrace
from lab.simulator.draws import log_uniform, uncropped
from lab.simulator.scenario import RecordingFaults, Scenario, SimulatedProcess, observe
from lab.simulator.timeline import Phase, SimulatedTimeline
from lab.speed.detector.cycle_jobs import SHARES, Family, Indices
from lab.speed.page import options

Row = dict[str, Any]

NVML_SHARE = 0.15  # of the jobs are read as NVML's rows of a second
REPETITIONS, STEP_SAMPLES, GROUP = 3, 8, 10
IDLE = (Phase.WAIT, Phase.SAVE, Phase.SETUP)


@dataclass(frozen=True)
class Truth:
    """One true cycle.

    Attributes:
        kinds: names that are right; the first one is what the program would call it.
        period_s: median length [s].
        low_s, high_s: bounds of the lengths that count as this cycle, before the tolerance [s].
        repetitions: how many there are.
        visible: whether it has to be named.
        idle: share of its time in which the device idles, and in which the process waits, saves or sets up.
    """

    kinds: tuple[str, ...]
    period_s: float
    low_s: float
    high_s: float
    repetitions: int
    visible: bool
    idle: dict[str, float]

    def matches(self, period_s: float) -> bool:
        """Whether a period is this cycle's."""
        return self.low_s * (1 - TOLERANCE) < period_s < self.high_s * (1 + TOLERANCE)

    def grouped(self, period_s: float) -> bool:
        """Whether a period is that of some of these steps; their mean and their median differ where a loader hiccups."""
        return self.kinds == ("step",) and any(
            abs(period_s / (count * length) - 1) < TOLERANCE
            for count in range(1, GROUP + 1)
            for length in (self.low_s, self.high_s, self.period_s)
        )


def true_cycle(
    timeline: SimulatedTimeline,
    kinds: tuple[str, ...],
    marks: Indices,
    shows: bool,
    interval_s: float,
    busy: NDArray[np.float64],
) -> Truth | None:
    """The cycle that begins at each mark; None if it has no length. `busy`: (phases,) share in which the device computes."""
    if marks.size < 2:
        return None
    edges = np.concatenate([[0.0], np.cumsum(timeline.seconds)])

    def spent(share: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.diff(np.concatenate([[0.0], np.cumsum(share * timeline.seconds)])[marks])

    def within(phases: tuple[Phase, ...]) -> NDArray[np.float64]:
        return spent(np.isin(timeline.phases, phases).astype(np.float64))

    lengths, device, process = np.diff(edges[marks]), spent(1 - busy[timeline.phases]), within(IDLE)
    step = kinds == ("step",)
    if step:  # from one step to the next, not across a validation, a save or an epoch's end
        whole = (within((Phase.VALIDATE, Phase.SAVE)) == 0) & (np.diff(np.searchsorted(timeline.starts, marks, "right")) == 0)
        lengths, device, process = lengths[whole], device[whole], process[whole]
    if not lengths.size:
        return None
    period = float(np.median(lengths))
    around = [period, *np.quantile(lengths, (0.25, 0.75)).tolist()]
    if step or kinds == ("evaluation",):  # a group of steps has their mean
        around.append(float(lengths.mean()))
    return Truth(
        kinds=kinds,
        period_s=period,
        low_s=min(around),
        high_s=max(around),
        repetitions=marks.size,
        visible=shows and marks.size >= REPETITIONS and (not step or period >= STEP_SAMPLES * interval_s),
        idle={"device": float(device.sum() / lengths.sum()), "process": float(process.sum() / lengths.sum())},
    )


def simulated(family: Family, seed: int) -> tuple[SimulatedTrace, list[Truth]]:
    """One job of a family as it is read, and its true cycles; the same seed gives the same."""
    rng = np.random.default_rng([25, seed])
    interval_s = 1.0 if rng.random() < NVML_SHARE else 0.1
    drawn = family(rng, interval_s)
    scenario = Scenario(
        (SimulatedProcess(uncropped(rng, drawn.timeline), drawn.plan, log_uniform(rng, 0.14, 0.6)),),
        RecordingFaults(interval_s=interval_s),
    )
    trace = observe(family.__name__, seed, scenario, rng)
    busy = np.array(trace.settings["busy"][0])
    truths = (true_cycle(drawn.timeline, *cycle, interval_s, busy) for cycle in drawn.cycles)
    return trace, sorted((truth for truth in truths if truth), key=lambda truth: truth.period_s)


def matched(truths: list[Truth], kind: str, period_s: float) -> Truth | None:
    """The true cycle that an answered one is: of its kind if there is one, else the first; groups of steps come last."""
    exact = [truth for truth in truths if truth.matches(period_s)]
    exact = exact or [truth for truth in truths if truth.grouped(period_s)]
    return next((truth for truth in exact if kind in truth.kinds), exact[0] if exact else None)


def scored(family: Family, seed: int) -> tuple[list[Row], list[Row], Row]:
    """What one job's answer is worth: a row of each visible cycle, of each answered one, and of the job."""
    trace, truths = simulated(family, seed)
    found = detect(trace.time, trace.metrics)
    label = {"family": family.__name__, "rows": "NVML" if trace.time[1] - trace.time[0] > 0.5 else "10 Hz"}
    true_of = [matched(truths, cycle.kind, cycle.period_s) for cycle in found.cycles]
    answered = []
    for cycle, true in zip(found.cycles, true_of, strict=True):
        row = {**label, "kind": cycle.kind, "right": true is not None and cycle.kind in true.kinds}
        row["true"] = "nothing" if true is None else true.kinds[0]
        if true is not None and cycle.idle_share is not None:
            row |= {name: 100 * abs(cycle.idle_share - share) for name, share in true.idle.items()}
        answered.append(row)
    visible = []
    for truth in (truth for truth in truths if truth.visible):
        # Micro-batches or a group of steps stand for the step.
        its = [true is truth or row["true"] == truth.kinds[0] == "step" for true, row in zip(true_of, answered, strict=True)]
        right = any(mine and row["right"] for mine, row in zip(its, answered, strict=True))
        visible.append({**label, "kind": truth.kinds[0], "right": right, "matched": any(true is truth for true in true_of)})
    job: Row = {"answered": found.period_s is not None, "true": None, "main": None}
    if found.period_s is not None:
        job["true"] = matched(truths, "", found.period_s) is not None
        apart = [abs(np.log(cycle.period_s / found.period_s)) for cycle in found.cycles]
        nearest = int(np.argmin(apart)) if apart else None
        if nearest is not None and abs(found.cycles[nearest].period_s / found.period_s - 1) < TOLERANCE:
            job["main"] = answered[nearest]["right"]
    return visible, answered, job


def table(visible: pd.DataFrame, answered: pd.DataFrame, by: str) -> str:
    """Shares by family, rows or kind (of the visible: the true one; of the answered: the stated one)."""
    lines = {}
    for name in sorted({*visible[by], *answered[by]}):
        true, given = visible[visible[by] == name], answered[answered[by] == name]
        named = given[given["kind"] != "unknown"]
        idle = given["device"].dropna()
        lines[name] = {
            "visible": len(true),
            "named rightly %": 100 * true["right"].mean(),
            "period matched %": 100 * true["matched"].mean(),
            "answered": len(given),
            "unknown": len(given) - len(named),
            "misnamed": (~named["right"]).sum(),
            "misnamed %": 100 * (~named["right"]).mean(),
            "idle error, median": idle.median(),
            "90 %": idle.quantile(0.9),
        }
    return pd.DataFrame(lines).T.astype(float).round(1).to_string(na_rep="-")


def percent(flags: "pd.Series[Any]") -> str:
    """A share of a column of flags."""
    return f"{100 * flags.astype(float).mean():.1f} %" if flags.size else "-"


def show(visible: pd.DataFrame, answered: pd.DataFrame, jobs: pd.DataFrame) -> None:
    """Print all tables."""
    for by in ("family", "rows", "kind"):
        print(f"\nby {by}\n{table(visible, answered, by)}")
    named = answered[answered["kind"] != "unknown"]
    wrong = named[~named["right"]]
    print("\nstated for true, all that are not right:")
    for (kind, true), number in Counter(zip(wrong["kind"], wrong["true"], strict=True)).most_common():
        print(f"  {kind} for {true}: {number}")
    print(f"\n{len(jobs)} jobs, {len(visible)} visible cycles, {len(answered)} answered")
    print(f"named rightly: {percent(visible['right'])} of the visible ones (wanted: 90 %)")
    print(f"misnamed: {percent(~named['right'])} of {len(named)} named ones (wanted: 2 % at most)")
    for name in ("device", "process"):
        off = answered[name].dropna()
        high = off.quantile(0.9)
        print(f"idle share of the {name}, error: median {off.median():.1f}, 90 % {high:.1f} points, n={off.size}")
    main, true = jobs["main"].dropna(), jobs["true"].dropna()
    print(f"kind of the main cycle right: {percent(main)} of {main.size}")
    print(f"main period that of a true cycle: {percent(true)} of {true.size}")


if __name__ == "__main__":
    parser = options(__doc__, page=False)
    parser.add_argument("--seed", type=int, default=90000, help="of the first job")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    chosen = parser.parse_args()
    # Spread over the seeds, so that fewer jobs are the same mixture.
    order = sorted((i / share, n) for n, share in enumerate(SHARES.values()) for i in range(share))
    families = [list(SHARES)[n] for _, n in order]
    drawn = [(families[i % len(families)], chosen.seed + i) for i in range(chosen.jobs)]
    with Pool(chosen.processes) as pool:
        visible, answered, jobs = zip(*pool.starmap(scored, drawn, chunksize=1), strict=True)
    columns = ["family", "rows", "kind", "right", "true", "device", "process"]
    show(
        pd.DataFrame(row for rows in visible for row in rows),
        pd.DataFrame((row for rows in answered for row in rows), columns=columns),
        pd.DataFrame(jobs),
    )
