"""The running job: when to search it, which result to trust, what to answer."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.epochs import Detection
from epochcast.detector.methods.track.grid import BUSY_SAMPLES, FEWEST_SAMPLES
from epochcast.detector.methods.track.periods import same
from epochcast.detector.stream.course import Course
from epochcast.detector.stream.glance import BINS as GLANCE_BINS
from epochcast.detector.stream.glance import cycles
from epochcast.detector.stream.heard import KEPT, MOST_BINS, Heard, Search, alike
from epochcast.detector.stream.pyramid import FACTOR, pooled
from epochcast.detector.stream.work import StreamActivity, parting

#: A job is glanced at when it has so many samples, and whenever it is longer by GLANCE; what two glances in a row show is
#: searched for, unless the job has hardly grown since the last search. Nothing else costs as much as a search.
FIRST, GLANCE, AGAIN = FEWEST_SAMPLES, 1.1, 1.25

#: A first confident answer is searched for again when the job is longer by CONFIRM, another than the present one by DOUBT.
#: Without any sign the job is searched when it is longer by UNSEEN; for an answer, by STEADY times the searches that agree on
#: it, or on the work clock, where only searches find boundaries, by STEADY.
CONFIRM, DOUBT, UNSEEN, STEADY = 1.1, 1.5, 4.0, 1.25

#: CPU seconds of a search, about, and for each of its bins, how many times as long a thorough one takes (it searches the other
#: clock, too), and the share of a core that one stream may spend on searches for which there is no other reason: eight of them
#: half a per cent, with what else they do. Slow telemetry has much to spare.
SEARCH_S, BIN_S, THOROUGH, SHARE = 0.1, 1e-4, 2, 4e-4

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
    """The state of the running job; a new job starts from nothing.

    Attributes:
        answer: None as long as there is none.
        due: sample at which it is looked at again.
        course: its boundaries.
    """

    def __init__(self, heard: Heard, work: StreamActivity) -> None:
        self.answer: Detection | None = None
        self.due = work.start + FIRST
        self.course = Course(heard, work)
        self._heard, self._work = heard, work
        self._since = work.start  # of the work without a rest that parts jobs; its last job may start later
        self._rested = self._ended = False  # whether it rests for long enough to have ended, and for so long that it has
        self._full_search: Search | None = None  # the search of all of it since it rests
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
            self._update_epochs()
        self._rested, self._ended, self._full_search = False, False, None

    def follow(self) -> None:
        """Take in the next boundary if it has come, and notice if none comes or they are another job's."""
        course = self.course
        if course.follower is None:
            return
        if (boundary := course.follower.advance()) is not None:
            assert self.answer is not None
            course.append(*boundary)
            epochs = (*self.answer.epochs, *course.epochs(course.positions.size - 2))
            self.answer = course.with_epochs(self.answer, epochs[1 - KEPT :])
            if (since := course.unlike_since()) is not None:
                self._lose(since)
        elif course.follower.lost and self._work.idle <= BUSY_SAMPLES:
            self._lose(course.last)

    def _lose(self, since: float) -> None:
        """The boundaries stopped after `since`: the answer is withdrawn, and searched for in what came since.

        It may be another job, or the same one if the answer was wrong: `_answer_epochs` decides once there is another. The
        answer stays as long as a search of the whole job still has it, and as what came since is short compared with the job.
        """
        assert self.answer is not None
        if self._heard.now - since <= parting(int(since) - self._work.start, ()):
            full = self._track(self._work.start, thorough=True)
            if full is not None and alike(self.answer, full.detection) and self.course.follower is not None:
                self.course.follower.expect_after(float(self._heard.now))
                return
        self._lost, self._work.start = (self._work.start, self.answer), int(since)
        self.answer = self._latest = self.course.follower = None
        self._searched, self.due = 0, self._heard.now

    def look(self) -> None:
        """Search if the answer may change."""
        length = self._heard.now - self._work.start
        grown = length / max(FIRST, self._searched)
        spare = grown > CONFIRM and self._spent + THOROUGH * (SEARCH_S + BIN_S * length) < SHARE * length * self._heard.step_s
        if self._latest is not None and self._latest.verdict == "epochs" and not alike(self._latest, self.answer):
            due = grown > (DOUBT if self.has_epochs else CONFIRM)
        elif self.has_epochs:
            due = spare or grown > STEADY * (1 if self.course.follower is None else self._agreed)
        else:
            due = spare or grown > UNSEEN or (self._seen_again() and grown > AGAIN)
        if due:
            self._search(thorough=spare)
        if (self.answer is None or self.answer.verdict == "none") and length >= STEPS_AFTER and not self._sought:
            # Nothing longer has come. Bins of the whole job may be too wide to show steps; those of its end are not.
            self._sought = True
            fine = self._track(self._heard.now - MOST_BINS)
            if fine is not None and fine.detection.verdict == "steps":
                self.answer = self._latest = fine.detection
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
        """The job may have ended: search the whole of it, and accept an answer that confirms the known one."""
        if self._rested:
            return
        self._rested = True
        known = self._latest if self.answer is None else self.answer
        worked, course = self._work.busy_until, self.course
        unended = course.follower is not None and worked - course.last > course.period / 2
        if unended or worked - self._work.start > ENDED * self._searched:
            self._full_search = self._track(self._since, thorough=True)
            if (
                self._full_search is not None
                and self._full_search.detection.verdict == "epochs"
                and alike(known, self._full_search.detection)
            ):
                self._take_over(self._full_search)

    def interrupt(self) -> None:
        """A hole comes: if there are epochs, they are to be known before it, and what is unseen is no part of the search."""
        if self.has_epochs or self._heard.now - self._work.start < FIRST:
            return
        full = self._track(self._work.start, thorough=True)
        if full is not None and full.detection.verdict == "epochs" and len(full.detection.epochs) >= FEWEST:
            self._take_over(full)

    def end(self) -> None:
        """The device is idle: what the tracker answers on the whole job is the answer."""
        if self._ended:
            return
        self._ended = self._rested = True
        full = self._track(self._since, thorough=True) if self._full_search is None else self._full_search
        if full is not None:
            self._take_over(full)

    def _take_over(self, searched: Search) -> None:
        """The answer of the tracker on all of the work, unless the present one is of its last part."""
        detection, parts, course = searched.detection, searched.detection.stretches, self.course
        if course.follower is not None and len(parts) > 1 and same(parts[-1].period_s, course.period * self._heard.step_s):
            return
        if self._is_coarser(searched):
            return
        self.answer = self._latest = detection
        self._searched, self._agreed, self._lost = self._heard.now - self._work.start, 2, None
        if detection.verdict == "epochs":
            course.take_over(searched)
            self._update_epochs()
            self.answer = replace(self.answer, period_s=detection.period_s)
        else:
            course.clear()

    def _is_coarser(self, searched: Search) -> bool:
        """Whether the answer is steps, and was seen in finer bins than a search that shows no epochs: it may be their alias."""
        steps = self.answer is not None and self.answer.verdict == "steps"
        return steps and searched.width > 1 and searched.detection.verdict != "epochs"

    def _search(self, *, thorough: bool = False) -> None:
        """Let the tracker search the job; the answer is given if the search before agrees, or confirmed."""
        self._searched = self._heard.now - self._work.start
        searched = self._track(self._work.start, thorough=thorough)
        if searched is None:
            return
        detection = searched.detection
        if detection.verdict == "epochs" and len(detection.epochs) < FEWEST:
            return
        if detection.period_s is not None and detection.period_s < 2 * self._heard.quantum * self._heard.step_s:
            return  # readings that change so seldom cannot show it
        before, self._latest = self._latest, detection
        if detection.verdict == "steps" and self._searched < STEPS_AFTER:
            return
        if self._is_coarser(searched) or (detection.verdict == "none" and self.course.follower is not None):
            return  # boundaries still come
        if alike(self.answer, detection):
            self._agreed += 1
        elif alike(before, detection):
            self._agreed = 2
        else:
            return
        if detection.verdict == "epochs":
            self._answer_epochs(searched)
        else:
            self.answer = detection
            self.course.clear()

    def _answer_epochs(self, searched: Search) -> None:
        """Give an answer with verdict `epochs`, on all of the job that is held in bins fit for it."""
        detection = searched.detection
        assert detection.period_s is not None
        since, wrong = self._lost or (self._work.start, None)
        period = detection.period_s / self._heard.step_s
        known = self.answer is not None and same(period, self.course.period)
        if searched.first - since >= searched.width and not known:
            self.answer, self.course.period = detection, period
            if (full := self._track(since, thorough=wrong is not None)) is not None:
                parts = full.detection.stretches
                if alike(full.detection, detection):  # the same job all along
                    searched, self._work.start = full, since
                elif alike(detection, wrong) and full.detection.verdict == "epochs":
                    self.answer, self._latest, self._lost, self._work.start = None, full.detection, None, since
                    return  # the answer that was lost comes back, but the whole job speaks against it: wait
                elif len(parts) > 1 and not same(parts[-1].period_s, detection.period_s):
                    self.answer = None
                    return  # another period followed, but not this one: wait
        detection = searched.detection
        if self.answer is not None and alike(self.answer, detection) and len(detection.jobs) == 1:
            # A second job is looked for in the whole job only.
            detection = replace(detection, jobs=(*detection.jobs, *self.answer.jobs[1:]))
        self.answer, self._lost = detection, None
        self.course.take_over(searched)
        self._update_epochs()

    def _track(self, since: int, *, thorough: bool = False) -> Search | None:
        """Search what is held from sample `since` on, in bins fit for the present answer, or as `detect` would."""
        widest = max(1.0, self.course.period / RESOLVED) if self.has_epochs and not thorough else np.inf
        searched = self._heard.search(since, widest=widest, thorough=thorough)
        self._spent += (THOROUGH if thorough else 1) * (SEARCH_S + BIN_S * (0 if searched is None else searched.bins))
        return searched

    def _update_epochs(self) -> None:
        """Put the epochs of the course into the answer."""
        assert self.answer is not None
        self.answer = self.course.with_epochs(self.answer, self.course.epochs())
