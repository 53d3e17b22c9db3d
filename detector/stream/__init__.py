"""Detection while the job runs: samples in as they come, the same answers as `detect` on the whole trace, in bounded memory.

The samples go into a pyramid of rings. At times that grow with the job's length the tracker searches what the pyramid holds of
the job; once two searches in a row agree, their answer is given, and a template of their boundaries finds the next ones as
they arrive.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.detector.epochs import Detection
from epochcast.detector.errors import InputError
from epochcast.detector.methods.track.boundaries import EVEN
from epochcast.detector.stream.follower import OVERDUE
from epochcast.detector.stream.heard import Heard
from epochcast.detector.stream.present_job import PresentJob
from epochcast.detector.stream.pyramid import FACTOR
from epochcast.detector.stream.work import RESTING, StreamActivity

#: Blocks of samples until it is settled again what working means, at least. By choice, set by hand;
#: lab/speed/detector/streaming.py measures what it brings with the others.
SETTLE_EVERY = 64


class Stream:
    """Epochs of one GPU's telemetry as it arrives.

    An answer is given once two searches in a row, the later one of more of the job, agree on it (their periods within 6 %), and
    changed once two agree on another. When the device rests for longer than the job usually does, the whole job is searched
    as `detect` would, and that is the answer. It is withdrawn when the boundaries stop coming, and forgotten when the device
    works again after a rest that parts jobs, see `work`, or when no sample came for 300 s. In a shorter hole a device at work
    is taken to go on as in its last period, and no epoch has a boundary in it. Answers do not depend on how the samples are
    portioned.

    On the wall clock new boundaries are reported about a third of a period after they happened, on the work clock with the
    searches only. Boundaries of epochs found late are as exact as the pyramid still is, see `pyramid`: to a sample
    within 20 min at 10 Hz, to 8 samples within 55 min. Where readings are means over some samples (see `Heard.quantum`), a
    boundary is put where such a mean shows it on average: as much earlier.
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
        self._heard = Heard(metrics, step_s, {"clock": clock, **parameters})
        self._begin_anew()

    @property
    def detection(self) -> Detection | None:
        """The present answer; None until there is one."""
        return self._job.answer

    @property
    def state(self) -> Literal["idle", "searching", "answered"]:
        """`idle`: no work for 150 samples, and twice as long as the job usually rests; the answer is that of the job before."""
        if self._work.idle > self._work.idle_after:
            return "idle"
        return "searching" if self._job.answer is None else "answered"

    @property
    def heard_since(self) -> float | None:
        """Unix seconds of the first sample, after the last hole of 300 s; None before any."""
        return self._heard.resampler.origin

    @property
    def working_since(self) -> float | None:
        """Unix seconds at which the present job began, or the last job if there is none; None before any work."""
        if self.heard_since is None or not self._work.seen:
            return None
        return self.heard_since + self._heard.step_s * self._job.start

    @property
    def searches(self) -> int:
        """Number of the tracker's searches so far; they are nearly all of the cost."""
        return self._heard.searches

    @property
    def dropped(self) -> int:
        """Samples ignored because they were no later than the one before them."""
        return self._heard.resampler.dropped

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held: the pyramid and the boundaries."""
        return self._heard.pyramid.nbytes + self._job.course.positions.nbytes

    def update(self, time: ArrayLike, values: Mapping[str, ArrayLike]) -> Detection | None:
        """Take in new samples, about once a second, and return the present answer.

        Args:
            time: (k,) unix seconds, possibly uneven or with gaps. A sample no later than the one before it is dropped and
                counted in `dropped`; a clock that is set back by more than 300 s starts the stream again.
            values: name -> (k,) base units, NaN or left out where there is no reading.

        Raises:
            InputError: unusable input, in one sentence; the update is then ignored as a whole.
        """
        resampler = self._heard.resampler
        times, table = resampler.checked(time, values)
        if times.size:
            cuts, holes = resampler.parted(times)
            for first, last in pairwise([0, *sorted({*cuts, *holes} - {0}), times.size]):
                if first in cuts:
                    self._heard.begin_anew()
                    self._begin_anew()
                elif first in holes:
                    self._bridge(float(times[first]))
                self._take(times[first:last], table[:, first:last])
        return self._job.answer

    def close(self) -> Detection | None:
        """The answer once no more samples come, for example from a returned machine: as `detect` gives on the whole job."""
        if self._work.threshold:
            self._job.end()
        return self._job.answer

    def _begin_anew(self) -> None:
        self._work = StreamActivity(self._heard.metrics, self._heard.pyramid)
        self._job = PresentJob(self._heard, self._work)

    def _take(self, times: NDArray[np.float64], table: NDArray[np.float64]) -> None:
        for _ in self._heard.blocks(times, table):
            self._tick()

    def _bridge(self, until: float) -> None:
        """A hole ends: a device that was at work is taken to have gone on as before, rather than to have rested."""
        work, job, heard = self._work, self._job, self._heard
        begin = heard.hole(until)
        if not work.threshold or work.idle > work.rest_after:
            return
        if until - begin > heard.step_s * work.idle_after:
            job.interrupt()
        period = job.course.period if job.has_epochs else np.nan
        if until - begin > heard.step_s * (EVEN * period if job.has_epochs else RESTING):
            self._take(*heard.usual(until, period, work.start))

    def _tick(self) -> None:
        """What a block of samples brings."""
        work, now = self._work, self._heard.now
        if work.threshold == 0:
            if now // FACTOR % SETTLE_EVERY == 0 or now <= SETTLE_EVERY:
                self._settle_work()
        else:
            self._watch()
        if work.idle > work.idle_after:
            if work.threshold:
                self._job.end()
            return
        self._job.follow()
        if work.idle > work.rest_after:
            if work.threshold:
                self._job.rest()
        elif now >= self._job.due:
            self._settle_work()
            self._job.look()

    def _watch(self) -> None:
        """Whether the device works again: the same job, or after a rest that parts jobs another one."""
        change = self._work.watch(OVERDUE * self._job.course.period if self._job.has_epochs else 0.0)
        if change == "another":
            self._job = PresentJob(self._heard, self._work)
        elif change != "no change":
            self._job.resume(idle=change == "idle")

    def _settle_work(self) -> None:
        """What working means; what was before a long rest was no job as long as nothing was found in it."""
        if self._work.settle() and self._job.answer is None:
            self._work.start = self._work.begun
            self._job = PresentJob(self._heard, self._work)
