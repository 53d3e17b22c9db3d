"""The job that runs: when to search it, what to believe, what to say."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..epochs import Detection
from ..methods.track.grid import BUSY_SAMPLES, FEWEST_SAMPLES
from ..methods.track.periods import same
from .course import KEPT, Course
from .glance import BINS as GLANCE_BINS
from .glance import cycles
from .heard import MOST_BINS, Heard, Search, alike
from .pyramid import FACTOR, pooled
from .work import Activity, parting

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

#: A job that may have ended is searched if it is longer by this than at the last search, or if its last epoch has no end yet.
ENDED = 1.05


class PresentJob:
    """What is known of it; a new one knows nothing of those before.

    Attributes:
        answer: None as long as there is none.
        due: sample at which it is looked at again.
        course: its boundaries.
    """

    def __init__(self, heard: Heard, work: Activity) -> None:
        self.answer: Detection | None = None
        self.due = work.start + FIRST
        self.course = Course(heard, work)
        self._heard, self._work = heard, work
        self._since = work.start  # of the work without a rest that parts jobs; its last job may start later
        self._rested = self._ended = False  # whether it rests for long enough to have ended, and for so long that it has
        self._whole: Search | None = None  # the search of all of it since it rests
        self._latest: Detection | None = None  # of the last search
        self._lost: tuple[int, Detection] | None = None  # where the job began whose boundaries stopped, and its answer
        self._seen: NDArray[np.float64] = np.empty(0)  # cycles of the last glance, in samples
        self._searched = 0  # samples of the job at the last search
        self._sought = False  # whether steps were sought in the last samples
        self._agreed = 0  # searches that agree on the answer
        self._spent = 0.0  # CPU seconds, about, of the job's searches

    @property
    def start(self) -> int:
        """Sample at which it began."""
        return self._lost[0] if self._lost else self._work.start

    @property
    def has_epochs(self) -> bool:
        """Whether that is the answer."""
        return self.answer is not None and self.answer.verdict == "epochs"

    def resume(self, *, idle: bool) -> None:
        """It had only paused; `idle`: for so long that the device was idle."""
        if self._rested and self.course.resume(idle=idle):
            self._tell()
        self._rested, self._ended, self._whole = False, False, None

    def follow(self) -> None:
        """Take in the next boundary if it has come, and notice if none comes or they are another job's."""
        course = self.course
        if course.follower is None:
            return
        if (found := course.follower.advance()) is not None:
            assert self.answer is not None
            course.boundaries.append(*found)
            epochs = (*self.answer.epochs, *course.epochs(course.boundaries.positions.size - 2))
            self.answer = course.told(self.answer, epochs[1 - KEPT :])
            if (since := course.unlike_since()) is not None:
                self._lose(since)
        elif course.follower.lost and self._work.idle <= BUSY_SAMPLES:
            self._lose(course.boundaries.last)

    def _lose(self, since: float) -> None:
        """The boundaries stopped after `since`: the answer is withdrawn, and searched for in what came since.

        It may be another job, or the same one if the answer was wrong: `_speak` finds out once there is another. The answer
        stays as long as a search of the whole job has it still, and as what came since is short beside the job.
        """
        assert self.answer is not None
        if self._heard.now - since <= parting(int(since) - self._work.start, ()):
            whole = self._track(self._work.start, whole=True)
            if whole is not None and alike(self.answer, whole.found) and self.course.follower is not None:
                self.course.follower.expect_after(float(self._heard.now))
                return
        self._lost, self._work.start = (self._work.start, self.answer), int(since)
        self.answer = self._latest = self.course.follower = None
        self._searched, self.due = 0, self._heard.now

    def look(self) -> None:
        """Search if that may tell something new."""
        length = self._heard.now - self._work.start
        grown = length / max(FIRST, self._searched)
        spare = grown > CONFIRM and self._spent + SEARCH_S + BIN_S * length < SHARE * length * self._heard.step_s
        if self._latest is not None and self._latest.verdict == "epochs" and not alike(self._latest, self.answer):
            due = grown > (DOUBT if self.has_epochs else CONFIRM)
        elif self.has_epochs:
            due = spare or grown > STEADY * (1 if self.course.follower is None else self._agreed)
        else:
            due = spare or grown > UNSEEN or (self._seen_again() and grown > AGAIN)
        if due:
            self._search(whole=spare)
        if (self.answer is None or self.answer.verdict == "none") and length >= STEPS_AFTER and not self._sought:
            # Nothing longer has come. Bins of the whole job may be too wide to show steps; those of its end are not.
            self._sought = True
            fine = self._track(self._heard.now - MOST_BINS)
            if fine is not None and fine.found.verdict == "steps":
                self.answer = self._latest = fine.found
        self.due = self._heard.now + max(FACTOR, int((GLANCE - 1) * (self._heard.now - self._work.start)))

    def _seen_again(self) -> bool:
        """Glance at the job: does it show a cycle that it showed the last time?"""
        pyramid = self._heard.pyramid
        level = pyramid.finest(self._work.start)
        _, bins = pyramid.window(level, self._work.start)
        size = max(1, bins.shape[2] // GLANCE_BINS)
        before, self._seen = self._seen, cycles(pooled(bins, size)) * size * FACTOR**level
        return any(same(cycle, other) for cycle in self._seen for other in before)

    def rest(self) -> None:
        """The job may have ended: search the whole of it, and take an answer that was known already at its word."""
        if self._rested:
            return
        self._rested = True
        known = self._latest if self.answer is None else self.answer
        worked, course = self._work.busy_until, self.course
        unended = course.follower is not None and worked - course.boundaries.last > course.period / 2
        if unended or worked - self._work.start > ENDED * self._searched:
            self._whole = self._track(self._since, whole=True)
            if self._whole is not None and self._whole.found.verdict == "epochs" and alike(known, self._whole.found):
                self._take_over(self._whole)

    def end(self) -> None:
        """The device is idle: what the tracker answers on the whole job is the answer."""
        if self._ended:
            return
        self._ended = self._rested = True
        whole = self._track(self._since, whole=True) if self._whole is None else self._whole
        if whole is not None:
            self._take_over(whole)

    def _take_over(self, searched: Search) -> None:
        """The answer of the tracker on all of the work, unless the present one is of its last part."""
        found, parts, course = searched.found, searched.found.stretches, self.course
        if course.follower is not None and len(parts) > 1 and same(parts[-1].period_s, course.period * self._heard.step_s):
            return
        self.answer = self._latest = found
        self._searched, self._agreed, self._lost = self._heard.now - self._work.start, 2, None
        if found.verdict == "epochs":
            course.take_over(searched)
            self._tell()
            self.answer = replace(self.answer, period_s=found.period_s)
        else:
            course.clear()

    def _search(self, *, whole: bool = False) -> None:
        """Let the tracker search the job; the answer is given if the search before agrees, or confirmed."""
        self._searched = self._heard.now - self._work.start
        searched = self._track(self._work.start, whole=whole)
        if searched is None:
            return
        found = searched.found
        if found.verdict == "epochs" and len(found.epochs) < FEWEST:
            return
        if found.period_s is not None and found.period_s < 2 * self._heard.quantum * self._heard.step_s:
            return  # readings that change so seldom cannot show it
        before, self._latest = self._latest, found
        if found.verdict == "steps" and self._searched < STEPS_AFTER:
            return
        if self.answer is not None and found.verdict == "none" and (self.course.follower is not None or searched.width > 1):
            return  # boundaries still come, or steps were seen in finer bins
        if alike(self.answer, found):
            self._agreed += 1
        elif alike(before, found):
            self._agreed = 2
        else:
            return
        if found.verdict == "epochs":
            self._speak(searched)
        else:
            self.answer = found
            self.course.clear()

    def _speak(self, searched: Search) -> None:
        """Give an answer with verdict `epochs`, on all of the job that is held in bins fit for it."""
        found = searched.found
        assert found.period_s is not None
        since, wrong = self._lost or (self._work.start, None)
        period = found.period_s / self._heard.step_s
        known = self.answer is not None and same(period, self.course.period)
        if searched.first - since >= searched.width and not known:
            self.answer, self.course.period = found, period
            if (whole := self._track(since, whole=wrong is not None)) is not None:
                parts = whole.found.stretches
                if alike(whole.found, found):  # the same job all along
                    searched, self._work.start = whole, since
                elif alike(found, wrong) and whole.found.verdict == "epochs":
                    self.answer, self._latest, self._lost, self._work.start = None, whole.found, None, since
                    return  # the answer that was lost comes back, but the whole job speaks against it: wait
                elif len(parts) > 1 and not same(parts[-1].period_s, found.period_s):
                    self.answer = None
                    return  # another period followed, but not this one: wait
        found = searched.found
        if self.answer is not None and alike(self.answer, found) and len(found.jobs) == 1:
            # A second job is looked for in the whole job only.
            found = replace(found, jobs=(*found.jobs, *self.answer.jobs[1:]))
        self.answer, self._lost = found, None
        self.course.take_over(searched)
        self._tell()

    def _track(self, since: int, *, whole: bool = False) -> Search | None:
        """Search what is held from sample `since` on, in bins fit for the present answer, or as `detect` would."""
        widest = max(1.0, self.course.period / RESOLVED) if self.has_epochs and not whole else np.inf
        searched = self._heard.search(since, widest=widest, whole=whole)
        self._spent += SEARCH_S + BIN_S * (0 if searched is None else searched.bins)
        return searched

    def _tell(self) -> None:
        """Put the epochs of the course into the answer."""
        assert self.answer is not None
        self.answer = self.course.told(self.answer, self.course.epochs())
