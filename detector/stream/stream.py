"""The stream of one GPU: when to search, what to believe, what to say."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..epochs import Detection, Epoch, Job
from ..errors import InputError
from ..methods.track.boundaries import EVEN
from ..methods.track.cycle import FEWEST_READINGS
from ..methods.track.grid import BUSY_SAMPLES, BUSY_SHARE, FEWEST_SAMPLES, IDLE, PAUSE_RANK, RATIOS
from .boundaries import KEPT, Boundaries
from .follower import OVERDUE, Follower
from .glance import BINS as GLANCE_BINS
from .glance import cycles
from .pyramid import FACTOR, Pyramid, pooled
from .samples import Resampler
from .search import MOST_BINS, Search, alike, close, search
from .work import PAUSE_LEAST, PAUSE_MOST, WEAKER, main_metric, parting, usual, watched, work_in

Array = NDArray[np.float64]

# By choice where nothing else is said, set by hand; benchmarks/detector/streaming.py measures what they bring together.

#: A job is glanced at when it has so many samples, and whenever it is longer by GLANCE; what two glances in a row show is
#: searched for, unless the job has hardly grown since the last search. Nothing else costs as much as a search.
FIRST, GLANCE, AGAIN = FEWEST_SAMPLES, 1.1, 1.25

#: A first confident answer is searched for again when the job is longer by CONFIRM, another than the present one by DOUBT.
#: Without any sign the job is searched when it is longer by UNSEEN; for an answer, by STEADY times the searches that agree on
#: it, or on the work clock, where only searches tell boundaries, by STEADY.
CONFIRM, DOUBT, UNSEEN, STEADY = 1.1, 1.5, 4.0, 1.25

#: CPU seconds of a search, about, and for each of its bins, and the share of a core that one stream may spend on searches for
#: which there is no other reason: eight of them half a per cent, with what else they do. Slow telemetry has much to spare.
SEARCH_S, BIN_S, SHARE = 0.1, 1e-4, 4e-4

#: Fewer epochs are no answer yet: their length is known to some per cent only.
FEWEST = 3

#: Steps are no answer before so many samples of a job that goes on: until then an epoch may be too long to be seen. At 10 Hz
#: an epoch of 150 s has come three times by then.
STEPS_AFTER = 4500

#: An answer is searched for again only where its period has so many bins.
RESOLVED = 24

#: After so many samples of rest the job may have ended, 5 s at 10 Hz: it is searched if it is longer by ENDED than at the last
#: search, or if its last epoch has no end yet.
RESTING, ENDED = 50, 1.05

#: Blocks of samples until it is settled anew what working means, at least.
SETTLE_EVERY = 64

#: So many intervals in a row unlike the period (EVEN) are those of another job.
UNLIKE = 3


class Stream:
    """Epochs of one GPU's telemetry as it comes.

    An answer is given once two searches in a row, the later one of more of the job, agree on it (their periods within 6 %), and
    changed once two agree on another. When the device rests for longer than the job usually does, the whole job is searched
    as `detect` would, and that is the answer. It is withdrawn when the boundaries stop coming, and forgotten when the device
    works again after a rest that parts jobs, see `work`, or when no sample came for 300 s. Answers do not depend on how the
    samples are portioned.

    On the wall clock new boundaries are told about a third of a period after they happened. On the work clock they are told
    with the searches only. Boundaries of epochs found late are as exact as the pyramid still is, see `pyramid`: to a sample
    within 20 min at 10 Hz, to 8 samples within 55 min. Where readings are means over some samples (see `_quantum`), a
    boundary is put where such a mean shows it on average: as much earlier.

    Attributes:
        searches: how often the tracker has searched so far; all the cost is there.
    """

    def __init__(
        self,
        metrics: Sequence[str],
        *,
        step_s: float = 0.1,
        clock: Literal["wall", "work", "auto"] = "auto",
        **parameters: Any,
    ) -> None:
        """Start with nothing heard.

        Args:
            metrics: names of what `update` will bring. Counters other than `energy` must be handed in as rates.
            step_s: seconds between samples.
            clock: as in `detect`.
            parameters: of the method `track`.

        Raises:
            InputError: no metric, one named twice, a step that is not positive.
        """
        if not metrics or len(set(metrics)) < len(metrics):
            raise InputError(f"a stream needs metrics, each named once, got {', '.join(metrics) or 'none'}")
        if not 0 < step_s < np.inf:
            raise InputError(f"step_s is {step_s}: give the seconds between samples")
        self.searches = 0
        self._resampler = Resampler(metrics, step_s)
        self._step_s = step_s
        self._parameters = {"clock": clock, **parameters}
        self._begin_anew()

    @property
    def detection(self) -> Detection | None:
        """The present answer; None as long as there is none."""
        return self._answer

    @property
    def state(self) -> Literal["idle", "searching", "answered"]:
        """`idle`: no work for 150 samples, and twice as long as the job usually rests; the answer is that of the job before."""
        if self._now - self._busy_until > self._idle_after:
            return "idle"
        return "searching" if self._answer is None else "answered"

    @property
    def heard_since(self) -> float | None:
        """Unix seconds of the first sample, after the last hole of 300 s; None before any."""
        return self._resampler.origin

    @property
    def working_since(self) -> float | None:
        """Unix seconds at which the present job began, or the last one where there is none; None before any work."""
        blinks = self._resampler.metrics[self._main] in RATIOS and self._threshold < BUSY_SHARE * IDLE
        if self._resampler.origin is None or self._threshold == 0 or blinks:
            return None
        return self._resampler.origin + self._step_s * (self._lost[0] if self._lost else self._start)

    @property
    def dropped(self) -> int:
        """Samples ignored because they were no later than the one before them."""
        return self._resampler.dropped

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held: the pyramid and the boundaries."""
        return self._pyramid.nbytes + self._boundaries.nbytes

    def update(self, time: ArrayLike, values: Mapping[str, ArrayLike]) -> Detection | None:
        """Take in new samples, about once a second, and say what is known.

        Args:
            time: (k,) unix seconds, uneven or with gaps as may be. A sample no later than the one before it is dropped and
                counted in `dropped`; a clock that is set back by more than 300 s starts the stream anew.
            values: name -> (k,) base units, NaN or left out where there is no reading.

        Raises:
            InputError: anything that cannot be used, in one sentence; nothing of this update is taken in then.
        """
        times, table = self._resampler.checked(time, values)
        if times.size:
            cuts = self._resampler.parted(times).tolist()
            for first, last in pairwise([0, *[cut for cut in cuts if cut], times.size]):
                if first in cuts:
                    self._resampler.begin_anew()
                    self._begin_anew()
                self._take(np.concatenate(self._resampler.take(times[first:last], table[:, first:last])))
        return self._answer

    def close(self) -> Detection | None:
        """What is known once no more samples come, say as the machine was given back: what `detect` says of the whole job."""
        if self._threshold and not self._ended:
            self._end()
        return self._answer

    def _begin_anew(self) -> None:
        self._pyramid = Pyramid(len(self._resampler.metrics))
        self._waiting = np.empty((2 * len(self._resampler.metrics) + 1, 0))
        self._counts = np.zeros(len(self._resampler.metrics) + 1)  # changes of each metric, and rows
        self._start = self._begun = self._busy_until = 0
        self._main, self._threshold = 0, 0.0
        self._pauses: list[int] = []  # the longest rests of the device, whether they parted jobs or not: what recurs does not
        self._forget()

    def _forget(self) -> None:
        """Another job: nothing that was heard so far is about it."""
        self._since = self._start  # of the work without a rest that parts jobs; its last job may start later
        self._rested = self._ended = False  # whether it rests for long enough to have ended, and for so long that it has
        self._whole: Search | None = None  # the search of all of it since it rests
        self._answer: Detection | None = None
        self._heard: Detection | None = None
        self._follower: Follower | None = None
        self._lost: tuple[int, Detection] | None = None  # where the job began whose boundaries stopped, and its answer
        self._period = np.nan
        self._tail = False  # whether the last boundary is the end of work
        self._boundaries = Boundaries()
        self._due = self._start + FIRST
        self._seen: Array = np.empty(0)  # cycles of the last glance, in samples
        self._searched = 0  # samples of the job at the last search
        self._sought = False  # whether steps were sought in the last samples
        self._last_at = 0  # ... when work had lasted until then
        self._agreed = 0  # searches that agree on the answer
        self._spent = 0.0  # CPU seconds, about, of the job's searches

    @property
    def _now(self) -> int:
        return self._pyramid.count

    def _take(self, samples: Array) -> None:
        """Blocks of always the same samples with their counts, however they came."""
        waiting = np.concatenate([self._waiting, samples], axis=1)
        whole = waiting.shape[1] // FACTOR * FACTOR
        for first in range(0, whole, FACTOR):
            block = waiting[:, first : first + FACTOR]
            self._pyramid.append(block[: len(self._resampler.metrics)])
            self._counts = block[len(self._resampler.metrics) :, -1]
            self._tick()
        self._waiting = waiting[:, whole:]

    @property
    def _quantum(self) -> float:
        """Samples between two changes of the metric that changes most often, as `Grid.quantum`."""
        return float(max(1.0, (self._counts[-1] - 1) / max(1.0, self._counts[:-1].max())))

    @property
    def _rest_after(self) -> float:
        """Samples of rest after which the job may have ended."""
        return max(RESTING, usual(self._pauses))

    @property
    def _idle_after(self) -> float:
        """Samples of rest after which the device is idle."""
        return max(PAUSE_LEAST, usual(self._pauses))

    def _tick(self) -> None:
        if self._threshold == 0:
            if self._now // FACTOR % SETTLE_EVERY == 0 or self._now <= SETTLE_EVERY:
                self._settle_work()
        else:
            self._watch()
        idle = self._now - self._busy_until
        if idle > self._idle_after:
            if self._threshold and not self._ended:
                self._end()
            return
        if self._follower is not None:
            self._follow(self._follower)
        if idle > self._rest_after:
            if self._threshold and not self._rested:
                self._rested = True
                self._rest()
        elif self._now >= self._due:
            self._settle_work()
            self._look()
            self._due = self._now + max(FACTOR, int((GLANCE - 1) * (self._now - self._start)))

    def _resume(self) -> None:
        """The job had only paused: where the pause began is not where an epoch ended."""
        if self._tail and self._follower is not None and self._boundaries.positions.size > 1:
            self._boundaries.drop_last()
            self._follower.expect_after(self._boundaries.last)
            self._tell(self._epochs())
        elif self._follower is not None and self._now - self._busy_until > self._idle_after:
            self._follower.expect_after(float(self._now))  # whatever came meanwhile, no boundary is overdue
        self._tail = False

    def _watch(self) -> None:
        """Whether the device still works, or works again: the same job, or after a rest that parts jobs another one."""
        width = FACTOR * max(1, watched(self._now - self._start) // FACTOR)
        if self._now % width:
            return
        _, bins = self._pyramid.window(1, self._now - width)
        idle = self._now - self._busy_until
        weaker = idle > self._idle_after and self._resampler.metrics[self._main] in RATIOS
        if not np.nan_to_num(bins[0, self._main]).mean() > self._threshold * (WEAKER if weaker else 1):
            return
        pause, parts = idle - width, parting(self._busy_until - self._start, self._pauses)
        if self._answer is not None and self._answer.verdict == "epochs":
            parts = max(parts, OVERDUE * self._period)  # an epoch may rest
        if 0 < pause <= PAUSE_MOST:
            self._pauses = sorted([*self._pauses, idle])[-PAUSE_RANK:]
        if pause > parts:
            self._start = self._busy_until
            self._settle_work()
            self._start = self._begun
            self._forget()
        elif pause > 0:
            if self._rested:
                self._resume()
            self._rested, self._ended, self._whole = False, False, None
        self._busy_until = self._now

    def _settle_work(self) -> None:
        """What working means, when the job's work began, and until when it lasted."""
        level = max(1, self._pyramid.finest(self._start))
        first, bins = self._pyramid.window(level, self._start)
        self._main = main_metric(self._resampler.metrics, bins[0])
        name = self._resampler.metrics[self._main]
        work = work_in(np.nan_to_num(bins[0, self._main].astype(np.float64)), name)
        if work is None:
            return
        self._begun = first + FACTOR**level * work.begin
        self._threshold = work.threshold
        self._busy_until = max(self._busy_until, first + FACTOR**level * work.end)
        if self._begun - self._start > PAUSE_LEAST and self._answer is None:
            self._start = self._begun
            self._forget()

    def _follow(self, follower: Follower) -> None:
        if (found := follower.advance()) is not None:
            self._boundaries.append(*found)
            assert self._answer is not None
            self._tell((*self._answer.epochs, *self._epochs(self._boundaries.positions.size - 2))[1 - KEPT :])
            lengths = np.diff(self._boundaries.positions[-UNLIKE - 1 :])
            if lengths.size == UNLIKE and (np.abs(lengths / follower.period - 1) > EVEN).all():
                even = np.flatnonzero(np.abs(np.diff(self._boundaries.positions) / follower.period - 1) <= EVEN)
                self._lose(since=float(self._boundaries.positions[even[-1] + 1 if even.size else 0]))
        elif follower.lost and self._now - self._busy_until <= BUSY_SAMPLES:
            self._lose(since=self._boundaries.last)

    def _lose(self, since: float) -> None:
        """The boundaries stopped after `since`: the answer is withdrawn, and searched for in what came since.

        It may be another job, or the same one if the answer was wrong: `_speak` finds out once there is another. The answer
        stays as long as a search of the whole job has it still, and as what came since is short beside the job.
        """
        assert self._answer is not None
        if self._now - since <= parting(int(since) - self._start, ()):
            whole = self._track(self._start, whole=True)
            if whole is not None and alike(self._answer, whole.found) and self._follower is not None:
                self._follower.expect_after(float(self._now))
                return
        self._lost, self._start = (self._start, self._answer), int(since)
        self._answer = self._heard = self._follower = None
        self._searched, self._due = 0, self._now

    def _look(self) -> None:
        """Search if that may tell something new."""
        length = self._now - self._start
        grown = length / max(FIRST, self._searched)
        spare = grown > CONFIRM and self._spent + SEARCH_S + BIN_S * length < SHARE * length * self._step_s
        answered = self._answer is not None and self._answer.verdict == "epochs"
        if self._heard is not None and self._heard.verdict == "epochs" and not alike(self._heard, self._answer):
            due = grown > (DOUBT if answered else CONFIRM)
        elif answered:
            due = spare or grown > STEADY * (1 if self._follower is None else self._agreed)
        else:
            due = spare or grown > UNSEEN or (self._seen_again() and grown > AGAIN)
        if due:
            self._search(whole=spare)
        if (self._answer is None or self._answer.verdict == "none") and length >= STEPS_AFTER and not self._sought:
            # Nothing longer has come. Bins of the whole job may be too wide to show steps; those of its end are not.
            self._sought = True
            fine = self._track(self._now - MOST_BINS)
            if fine is not None and fine.found.verdict == "steps":
                self._answer = self._heard = fine.found

    def _seen_again(self) -> bool:
        """Glance at the job: does it show a cycle that it showed the last time?"""
        level = self._pyramid.finest(self._start)
        _, bins = self._pyramid.window(level, self._start)
        size = max(1, bins.shape[2] // GLANCE_BINS)
        before, self._seen = self._seen, cycles(pooled(bins, size)) * size * FACTOR**level
        return any(close(cycle, other) for cycle in self._seen for other in before)

    def _rest(self) -> None:
        """The job may have ended: search the whole of it, and take an answer that was known already at its word."""
        known = self._heard if self._answer is None else self._answer
        unended = self._follower is not None and self._busy_until - self._boundaries.last > self._period / 2
        if unended or self._busy_until - self._start > ENDED * self._searched:
            self._whole = self._track(self._since, whole=True)
            if self._whole is not None and self._whole.found.verdict == "epochs" and alike(known, self._whole.found):
                self._take_over(self._whole)

    def _end(self) -> None:
        """The device is idle: what the tracker answers on the whole job is the answer."""
        self._ended = self._rested = True
        whole = self._track(self._since, whole=True) if self._whole is None else self._whole
        if whole is not None:
            self._take_over(whole)

    def _take_over(self, searched: Search) -> None:
        """The answer of the tracker on all of the work, unless the present one is of its last part."""
        found, parts = searched.found, searched.found.stretches
        if self._follower is not None and len(parts) > 1 and close(parts[-1].period_s, self._period * self._step_s):
            return
        self._answer = self._heard = found
        self._searched, self._agreed, self._lost = self._now - self._start, 2, None
        if found.verdict == "epochs":
            self._settle(searched)
            self._tell(self._epochs())
            self._answer = replace(self._answer, period_s=found.period_s)
        else:
            self._follower, self._boundaries = None, Boundaries()

    def _search(self, *, whole: bool = False) -> None:
        """Let the tracker search the job; the answer is given if the search before agrees, or confirmed."""
        self._searched = self._now - self._start
        searched = self._track(self._start, whole=whole)
        if searched is None:
            return
        found = searched.found
        if found.verdict == "epochs" and len(found.epochs) < FEWEST:
            return
        if found.period_s is not None and found.period_s < 2 * self._quantum * self._step_s:
            return  # readings that change so seldom cannot show it
        before, self._heard = self._heard, found
        if found.verdict == "steps" and self._searched < STEPS_AFTER:
            return
        if self._answer is not None and found.verdict == "none" and (self._follower is not None or searched.width > 1):
            return  # boundaries still come, or steps were seen in finer bins
        if alike(self._answer, found):
            self._agreed += 1
        elif alike(before, found):
            self._agreed = 2
        else:
            return
        if found.verdict == "epochs":
            self._speak(searched)
        else:
            self._answer, self._follower = found, None
            self._boundaries = Boundaries()

    def _speak(self, searched: Search) -> None:
        """Give an answer with verdict `epochs`, on all of the job that is held in bins fit for it."""
        found = searched.found
        assert found.period_s is not None
        since, wrong = self._lost or (self._start, None)
        period = found.period_s / self._step_s
        known = self._answer is not None and close(period, self._period)
        if searched.first - since >= searched.width and not known:
            self._answer, self._period = found, period
            if (whole := self._track(since, whole=wrong is not None)) is not None:
                parts = whole.found.stretches
                if alike(whole.found, found):  # the same job all along
                    searched, self._start = whole, since
                elif alike(found, wrong) and whole.found.verdict == "epochs":
                    self._answer, self._heard, self._lost, self._start = None, whole.found, None, since
                    return  # the answer that was lost comes back, but the whole job speaks against it: wait
                elif len(parts) > 1 and not close(parts[-1].period_s, found.period_s):
                    self._answer = None
                    return  # another period followed, but not this one: wait
        found = searched.found
        if self._answer is not None and alike(self._answer, found) and len(found.jobs) == 1:
            # A second job is looked for in the whole job only.
            found = replace(found, jobs=(*found.jobs, *self._answer.jobs[1:]))
        self._answer, self._lost = found, None
        self._settle(searched)
        self._tell(self._epochs())

    def _track(self, since: int, *, whole: bool = False) -> Search | None:
        """Search what is held from sample `since` on, in bins fit for the present answer, or as `detect` would."""
        widest = np.inf
        if self._answer is not None and self._answer.verdict == "epochs" and not whole:
            widest = max(1.0, self._period / RESOLVED)
        self.searches += 1
        searched = search(self._pyramid, self._resampler, since, self._parameters, widest=widest, whole=whole)
        self._spent += SEARCH_S + BIN_S * (0 if searched is None else searched.bins)
        return searched

    def _settle(self, searched: Search) -> None:
        """Take over the boundaries of an answer, and follow them."""
        found, first, width = searched.found, searched.first, searched.width
        assert found.period_s is not None
        period = found.period_s / self._step_s
        marks, matches = self._marks(found)
        # The ends of what was searched are the tracker's guesses, unless the job itself began or ended there.
        inside = np.ones(marks.size, dtype=bool)
        # A fifth of a period by choice, here and below.
        inside[0] = first - self._start < width or marks[0] - first > 0.2 * period
        ended = self._now - self._busy_until > self._rest_after
        inside[-1] = ended or self._now - marks[-1] > 0.2 * period
        self._tail = ended and self._busy_until - marks[-1] < 0.2 * period
        if inside.any():
            marks, matches = marks[inside], matches[inside]
        before = self._boundaries.period(self._quantum)
        if before is None or not close(period, before):
            self._boundaries = Boundaries()
        self._period = period
        self._follower = None
        if found.clock == "wall" and period >= FEWEST_READINGS:
            begun = marks[marks - self._start > 0.25 * period]  # by choice
            try:
                self._follower = Follower(self._pyramid, begun if begun.size else marks, period)
            except ValueError:
                self._follower = None
        if width > 1 and self._follower is not None:
            marks = np.array([self._sharpest(mark, self._follower) for mark in marks])
        self._boundaries.merge(marks, matches, period)
        if self._follower is not None:
            self._follower.expect_after(self._boundaries.last)

    def _sharpest(self, mark: float, follower: Follower) -> float:
        """A boundary as it was seen when its samples were still held, else as sharp as it can be seen now."""
        seen = self._boundaries.near(mark, 0.05 * self._period)  # within 5 % a boundary is right
        return follower.refined(mark) if seen is None else seen

    def _marks(self, found: Detection) -> tuple[Array, Array]:
        """Boundaries of an answer in samples, and how well they match."""
        assert self._resampler.origin is not None
        times = np.array([*[epoch.start for epoch in found.epochs], found.epochs[-1].end])
        sure = np.array([epoch.confidence for epoch in found.epochs])
        return (times - self._resampler.origin) / self._step_s, np.maximum(np.append(sure, 0), np.append(0, sure))

    def _epochs(self, first: int = 0) -> tuple[Epoch, ...]:
        """The epochs that begin at the boundaries from `first` on."""
        assert self._resampler.origin is not None
        # A reading that averages some samples shows a change on average so much later than one of a sample.
        origin = self._resampler.origin - (self._quantum - 1) * self._step_s
        return self._boundaries.epochs(origin, self._step_s, first)

    def _tell(self, epochs: tuple[Epoch, ...]) -> None:
        """Put the epochs into the answer, and on the wall clock their mean."""
        assert self._answer is not None
        assert self._answer.period_s is not None
        period = self._answer.period_s
        if self._follower is not None and (typical := self._boundaries.period(self._quantum)) is not None:
            self._period, period = typical, typical * self._step_s
        jobs = (Job(period, epochs, self._answer.confidence), *self._answer.jobs[1:])
        self._answer = replace(self._answer, period_s=period, epochs=epochs, jobs=jobs)
