"""One GPU while its jobs run: samples in; its report, and epochs with their profiles, out."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.jobs.detected_profile import LEAST_CONFIDENCE, detect_epochs, profile_of_detection
from epochcast.analyzer.live.known_epochs import KnownEpochs, News
from epochcast.analyzer.live.same_job import LONGEST_HOLE_S, Hole, rest_s
from epochcast.analyzer.live.stream_metrics import PREFERENCE, chosen
from epochcast.analyzer.live.thinned_samples import ThinnedSamples
from epochcast.analyzer.telemetry import Rows
from epochcast.analyzer.telemetry.gpu_report import MOST_EPOCHS, NOTHING, EpochRecord, GpuDevice, Owner, Report
from epochcast.analyzer.traces.detection_json import reported
from epochcast.analyzer.traces.held_idle import HELD_IDLE_COLUMNS, HeldIdle
from epochcast.analyzer.traces.static_gpu import gpu_of
from epochcast.detector import Detection, Epoch
from epochcast.detector import InputError as DetectorError
from epochcast.detector.stream import Stream
from epochcast.detector.stream.work import hole_s
from epochcast.regressor import Catalog
from epochcast.regressor.pipelines import Pipeline
from epochcast.regressor.profile import METRICS, THROTTLED, Profile

log = logging.getLogger(__name__)

Array = NDArray[np.float64]

# The stream is updated after so many samples, so that no job in a long backlog is overlooked.
_PORTION = 100

# Whichever is longer, seconds or rows: some metrics are read once a second, and some sources once in half a minute.
# Before so much of samples it is not known which metrics a GPU has.
_FIRST_S, _FIRST_ROWS = 3.0, 4

# Without any reading of its metrics for so long the stream is deaf.
_DEAF_S, _DEAF_ROWS = 60.0, 10

# So long before a job's begin a stream of other metrics hears, if there are any since the last job.
_LEAD_S, _LEAD_ROWS = 5.0, 5

# So much work has a job without epochs before it has a profile (as many rows as the tracker needs), and so long is it between
# two profiles of it; of one with epochs there is a new one with each, though not more often than the least seconds.
_PROFILE_S, _PROFILE_ROWS, _LEAST_PROFILE_S = 60.0, 24, 10.0

# The tracker puts its first boundary where the samples begin. If the GPU worked then (its activity above this share of what is
# usual for it), and the boundary is within this share of a period, that epoch had begun before anybody listened.
_WORKING, _NEAR = 0.12, 0.2

# Periods within which a stream finds again what an earlier one knew (the median first answer comes after 4.5).
_REMEMBERED = 10.0

_LARGEST = 1e18

_HELD = METRICS | THROTTLED.keys() | HELD_IDLE_COLUMNS | frozenset(PREFERENCE)


class GpuWatch:
    """Looks for the epochs of one GPU, and makes profiles of them and of the job.

    Times are those of the samples; the clock on the wall plays no part.
    """

    def __init__(
        self,
        device: GpuDevice,
        catalog: Catalog,
        *,
        before: Report | None = None,
        known: Sequence[EpochRecord] = (),
        pipeline: Pipeline = "default",
    ) -> None:
        """Start with nothing heard.

        Args:
            device: which GPU.
            catalog: names of GPUs.
            before: its last report, by an earlier watch.
            known: its newest epochs, oldest first, as in the store.
            pipeline: how epochs are found; the paper's passes run over the whole job again and again.
        """
        self.device = device
        self._catalog, self._pipeline = catalog, pipeline
        self._before = before
        self._known = KnownEpochs(known, 0 if before is None else before.epochs_seen)
        self._owners: tuple[Owner, ...] = ()
        self._hole: Hole | None = None  # the last one
        self._same_job: bool | None = None  # whether the job goes on after it; None: not known yet
        self._hertz = 10.0
        self._gpu = self._resolved()
        self._last = -np.inf
        self._taken = self._dropped = 0
        self._begin_anew()

    def take(self, rows: Rows) -> News:
        """Take in new samples; those no later than the newest are dropped and counted."""
        if rows.device != self.device:
            self.device, self._gpu = rows.device, self._resolved()
        owners = self._owners
        if rows.owners is not None:
            self._owners = rows.owners
        self._hertz = rows.hertz
        if rows.time.size and rows.time[0] < self._last - self._hole_s:  # a clock that was set, or a recording that began again
            self._begin_anew()
            self._last = -np.inf
        later = rows.time > np.maximum.accumulate(np.concatenate([[self._last], rows.time]))[:-1]
        self._taken += rows.time.size
        self._dropped += int((~later).sum())
        held = {name: column for name, column in rows.values.items() if name in _HELD} or rows.values
        # What no hardware reads, an error code for instance, is no reading.
        values = {name: np.where(np.abs(column) < _LARGEST, column, np.nan) for name, column in held.items()}
        news = News()
        places = np.flatnonzero(later)
        steps = np.diff(np.concatenate([[self._last], rows.time[places]]))
        after_holes = np.flatnonzero((steps > min(rest_s(self._hertz), self._hole_s)) & np.isfinite(steps))
        for part in np.split(places, sorted({*range(_PORTION, places.size, _PORTION), *after_holes.tolist()})):
            if not part.size:
                continue
            if part[0] in places[after_holes]:
                self._owners = rows.owners or ()  # those before it may be gone
                news += self._after(Hole(self._last, float(rows.time[part[0]]), owners))
            news += self._judged_by_owners()
            news += self._take(rows.time[part], {name: column[part] for name, column in values.items()})
        return news

    def close(self) -> News:
        """Take it that no more samples come: the whole of the present job is searched."""
        return News() if self._stream is None else self._learn(self._stream.close())

    def report(self) -> Report:
        """What is known now; of a job that goes on, the earlier report until its epochs are found again."""
        if not np.isfinite(self._last) and self._before is not None:
            return replace(self._before, device=self.device, samples=0, dropped=0)
        before = self._before
        report = Report(
            device=self.device,
            state="searching" if self._stream is None else self._stream.state,
            detection=NOTHING if self._detection is None else reported(self._detection),
            job_since=self._job_since,
            epochs_seen=self._known.seen,
            epochs=tuple(epoch for epoch in self._known.newest[-MOST_EPOCHS:] if epoch.job_since == self._job_since),
            profile=self._profile,
            owners=self._owners,
            last_sample=float(self._last) if np.isfinite(self._last) else None,
            samples=self._taken,
            dropped=self._dropped,
            hertz=self._hertz,
        )
        if before is None or not (self._job_since is None or self._is_remembered(before)):
            return report
        report = replace(report, detection=before.detection, profile=before.profile)
        if self._job_since is None:  # it is not yet known what job this is
            idle = self._stream is not None and self._stream.state == "idle"
            state = "idle" if idle else before.state
            report = replace(report, state=state, job_since=before.job_since, epochs=before.epochs)
        return report

    def _is_remembered(self, before: Report) -> bool:
        """Whether an earlier watch's answer still holds: until this watch has one, or should have."""
        if self._detection is not None and self._detection.verdict != "none":
            return False
        return self._heard_since is None or self._last - self._heard_since < _REMEMBERED * (before.detection.period_s or 0.0)

    def _resolved(self) -> str | None:
        """The GPU's name in the catalogue, or its own where its static attributes describe it; None of what is no known GPU."""
        if self.device.source == "host":
            return None
        try:
            return gpu_of(self.device.name, self.device.static, self._catalog).name
        except ValueError as error:  # the InputError of any room
            log.warning("no profiles of %s (%s): %s", self.device.uuid, self.device.node, error)
            return None

    def _longer(self, seconds: float, rows: int) -> float:
        """Seconds, or those of so many rows if that is more."""
        return max(seconds, rows / self._hertz)

    @property
    def _hole_s(self) -> float:
        """Seconds without a sample after which the stream starts again."""
        return hole_s(1 / self._hertz)

    def _after(self, hole: Hole) -> News:
        """Make ready for the same job or another one."""
        if hole.is_bridged(self._hertz):
            if not self._is_assumed:
                self._hole, self._same_job = hole, None
            return News()
        if hole.seconds > LONGEST_HOLE_S or self._stream is None or self._stream.state == "idle":
            self._samples = ThinnedSamples()  # as the stream does
            return News()
        news = self.close()
        self._before = replace(self.report(), owners=hole.owners)
        self._begin_anew()
        return news

    def _judged_by_owners(self) -> News:
        """Begin again with the samples since the hole if the processes are others than before it."""
        hole = self._hole
        if hole is None or self._same_job is not None:
            return News()
        self._same_job = hole.kept_by(self._owners)
        if self._same_job is not False or self._job_since is None or self._job_since >= hole.end:
            return News()
        news = self.close()
        news += self._known.withdraw_after(hole.end)
        since = self._samples.between(hole.end, np.inf)
        self._begin_anew()
        self._before, self._first = None, hole.end
        self._samples.append(*since)
        return news

    @property
    def _is_assumed(self) -> bool:
        """Whether the job is taken for that of the report before the hole, and nothing has shown it yet."""
        before, hole = self._before, self._hole
        tied = before is not None and hole is not None and hole.begin == before.last_sample
        return tied and self._same_job is None

    def _is_refuted(self, detection: Detection | None) -> bool:
        """Whether the job is another one than before the hole after all."""
        before, hole = self._before, self._hole
        if not self._is_assumed or before is None or hole is None:
            return False
        if detection is not None and detection.verdict == "epochs" and detection.confidence >= LEAST_CONFIDENCE:
            self._same_job = hole.kept_by_epochs(before, self._complete_epochs(detection))
            return not self._same_job
        waited = max(self._longer(_PROFILE_S, _PROFILE_ROWS), _REMEMBERED * (before.detection.period_s or 0.0))
        return not hole.is_bridged(self._hertz) and self._last - hole.end > waited

    def _begin_anew(self) -> None:
        self._stream: Stream | None = None
        self._metrics: tuple[str, ...] = ()
        self._samples = ThinnedSamples()
        self._first = np.nan  # time of the first sample
        self._read_at = -np.inf  # time of the last reading of the stream's metrics
        self._heard_since: float | None = None
        self._level_at_first = 0.0
        self._working_since: float | None = None
        self._job_since: float | None = None
        self._job_is_new = False
        self._held_idle = HeldIdle()  # since the job's begin
        self._job_held_idle_s: float | None = None  # up to its last work
        self._forget_job()

    def _forget_job(self) -> None:
        self._detection: Detection | None = None
        self._searched = -np.inf  # last row of the job when the paper's passes searched it
        self._profile: Profile | None = None
        self._profiled_at = -np.inf
        self._profile_is_old = False

    def _take(self, time: Array, values: Mapping[str, Array]) -> News:
        """A portion of samples, all later than those before."""
        self._last = float(time[-1])
        working = self._stream is None or self._stream.state != "idle"
        self._samples.append(time, values, of_job=working)
        self._held_idle.add(time, values)
        if working:
            self._job_held_idle_s = self._held_idle.seconds
        if any(np.isfinite(values[name]).any() for name in self._metrics if name in values):
            self._read_at = self._last
        if self._stream is None or self._last - self._read_at > self._longer(_DEAF_S, _DEAF_ROWS):
            self._first = float(time[0]) if np.isnan(self._first) else self._first
            if self._last - self._first < self._longer(_FIRST_S, _FIRST_ROWS - 1):
                return News()
            return self._listen(self._first if self._stream is None else self._read_at)
        news = self._hear(time, {name: values[name] for name in self._metrics if name in values})
        if self._job_is_new and self._job_since is not None:
            self._job_is_new = False
            since = self._job_since - self._longer(_LEAD_S, _LEAD_ROWS)
            if chosen(self._samples.between(since, np.inf)[1]) != self._metrics:  # others are read than when the stream began
                news += self._listen(since)
        return news

    def _listen(self, since: float) -> News:
        """Begin a stream of the metrics that there are, with the samples since ``since`` that are still held."""
        time, values = self._samples.between(since, np.inf)
        self._metrics = chosen(values)
        if not self._metrics:
            return News()  # nothing was ever read
        self._read_at = self._last
        self._stream = Stream(self._metrics, step_s=1 / self._hertz)
        self._working_since = self._heard_since = None
        return self._hear(time, {name: values[name] for name in self._metrics})

    def _hear(self, time: Array, values: Mapping[str, Array]) -> News:
        """Let the stream take these samples; what is new in its answer."""
        assert self._stream is not None
        detection = self._stream.update(time, values)
        if self._stream.heard_since != self._heard_since:
            self._heard_since = self._stream.heard_since
            first = values.get(self._metrics[0], np.zeros(1))[time >= (self._heard_since or 0)][: max(1, round(self._hertz))]
            self._level_at_first = float(np.nan_to_num(np.nanmean(first))) if np.isfinite(first).any() else 0.0
        if self._stream.working_since != self._working_since:
            self._begin_job(self._stream.working_since)
        return self._learn(detection)

    def _learn(self, detection: Detection | None) -> News:
        """What is new in the stream's answer, or in the paper's."""
        news = News()
        if self._pipeline == "paper":
            detection = self._find_by_passes()
        if self._working_since is not None and self._is_refuted(detection):
            self._another_job(self._working_since)
        if detection is not None and detection is not self._detection:
            self._detection = detection
            self._profile_is_old = detection.verdict != "none" or self._profile is None
            # A wrong epoch is worse than a late one: all of an answer are published as soon as it is sure.
            if detection.verdict == "epochs" and detection.confidence >= LEAST_CONFIDENCE:
                news = self._settle(detection)
        elif detection is None and self._detection is not None:  # withdrawn: the profile stays until there is a better one
            self._detection = None
        self._refresh_profile()
        return news

    def _find_by_passes(self) -> Detection | None:
        """What the paper's passes find in the rows of the job, which they search once a minute."""
        time, values = self._samples.job()
        if self._job_since is None or not time.size or time[-1] - self._searched < self._longer(_PROFILE_S, _PROFILE_ROWS):
            return self._detection
        self._searched = float(time[-1])
        with suppress(DetectorError):  # too few rows
            return detect_epochs(time, values, self._pipeline)
        return self._detection

    def _begin_job(self, since: float | None) -> None:
        """Another job works since then; unless it is the one that an earlier watch reported."""
        self._working_since = since
        if since is None:
            return
        hole = self._hole
        if hole is not None and hole.begin < since < hole.end:  # nobody saw it begin
            if self._same_job:
                return
            since = hole.end
        if self._goes_on(since):
            assert self._before is not None
            if self._job_since != self._before.job_since:
                earlier = self._before.profile
                self._count_held_idle(self._before.last_sample, None if earlier is None else earlier.held_idle_s)
            self._job_since = self._before.job_since
        elif since != self._job_since:
            self._another_job(since)
        self._samples.begin_job(since)

    def _another_job(self, since: float) -> None:
        self._before, self._job_since = None, since
        self._job_is_new = True
        self._forget_job()
        self._count_held_idle(since)

    def _count_held_idle(self, since: float | None, known_s: float | None = None) -> None:
        """Count from then on the seconds in which the GPU is held but idle, beside those that are known of the job."""
        self._held_idle = HeldIdle(known_s)
        self._held_idle.add(*self._samples.between(since or -np.inf, np.inf))
        self._job_held_idle_s = self._held_idle.seconds

    def _goes_on(self, since: float) -> bool:
        """Whether work since then may be of the job that an earlier watch, or this one before a hole, reported."""
        before, heard = self._before, self._heard_since
        if (
            before is None
            or before.job_since is None
            or before.last_sample is None
            or heard is None
            or before.job_since >= since
        ):
            return False
        if heard <= before.last_sample:
            return since <= heard
        hole = Hole(before.last_sample, heard, before.owners)
        if self._job_since != before.job_since:
            self._hole = hole
            self._same_job = hole.seconds <= rest_s(self._hertz) or hole.kept_by(self._owners)
        return self._same_job is not False and hole.may_keep(before, since)

    def _settle(self, detection: Detection) -> News:
        """Publish the epochs of an answer."""
        assert self._heard_since is not None

        def record(epoch: Epoch, first: float) -> EpochRecord:
            confidence = float(np.clip(epoch.confidence, 0, 1))
            since = first if self._job_since is None else self._job_since
            return EpochRecord(epoch.start, epoch.end, confidence, since, self._profile_of(detection, epoch))

        epochs = self._complete_epochs(detection)
        return self._known.settle(epochs, heard_since=self._heard_since, hertz=self._hertz, record=record)

    def _complete_epochs(self, detection: Detection) -> tuple[Epoch, ...]:
        """The epochs without the first, where that had begun before anybody listened."""
        assert detection.period_s is not None and self._heard_since is not None
        if not detection.epochs:
            return ()
        near = detection.epochs[0].start - self._heard_since <= _NEAR * detection.period_s
        return detection.epochs[1:] if near and self._came_late() else detection.epochs

    def _came_late(self) -> bool:
        """Whether the present job was already at work when the first sample came."""
        if self._working_since is None or self._heard_since is None or self._working_since > self._heard_since:
            return False
        usual = self._samples.job()[1].get(self._metrics[0])
        return usual is not None and self._level_at_first > _WORKING * float(np.nanpercentile(usual, 90))

    def _profile_of(self, detection: Detection, epoch: Epoch) -> Profile | None:
        """The profile of one epoch."""
        if self._gpu is None:
            return None
        time, values = self._samples.between(epoch.start, epoch.end)
        return self._summarised(time, values, replace(detection, epochs=(epoch,)), first_epoch=True)

    def _refresh_profile(self) -> None:
        """Make the job's profile again, if it is time."""
        if self._gpu is None or self._job_since is None or self._stream is None:
            return
        since = self._last - self._profiled_at
        due = self._profile_is_old and (since >= _LEAST_PROFILE_S or self._stream.state == "idle")
        if self._detection is None or self._detection.verdict == "none":
            # What an earlier watch or answer reported is better than a profile without seconds.
            least = self._longer(_PROFILE_S, _PROFILE_ROWS)
            worked = self._stream.state != "idle" and self._last - (self._working_since or self._last) >= least
            due = worked and since >= least and (self._profile is None or self._profile.epoch_s is None)
        if not due:
            return
        self._profiled_at, self._profile_is_old = self._last, False
        detection = self._detection
        if detection is not None and detection.verdict == "epochs":
            detection = replace(detection, epochs=self._complete_epochs(detection))
        first = self._before is None and not self._came_late()
        profile = self._summarised(*self._samples.job(), detection, first_epoch=first)
        if profile is not None:  # its rows are thinned, and have no long pause
            self._profile = replace(profile, held_idle_s=self._job_held_idle_s)

    def _summarised(
        self, time: Array, values: Mapping[str, Array], detection: Detection | None, *, first_epoch: bool
    ) -> Profile | None:
        """The profile, or None where the samples give none."""
        assert self._gpu is not None
        try:
            return profile_of_detection(
                self._gpu, time, values, detection, simulated=self.device.simulated, first_epoch=first_epoch
            )
        except ValueError as error:  # the regressor's InputError: no sample in the epochs, readings that cannot be
            log.warning("no profile of %s (%s): %s", self.device.uuid, self.device.node, error)
            return None
