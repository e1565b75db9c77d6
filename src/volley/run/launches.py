"""The launches of a run: how many there are, and how they share its time.

The launch is the unit of the interval (``volley.statistics.launches``): time is better spent on further launches than
on more samples in one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from volley.command.options import SampledOptions
from volley.launch.launchers import PAIR
from volley.records.plan import OUT_OF_TIME, Plan
from volley.records.run_log import RunLog
from volley.run.jobs import Forecast, Job, JobContext, needs_trial, usable_transports
from volley.statistics.estimates import Estimate, median
from volley.statistics.launches import FIRST_LOOK, enough
from volley.text import count
from volley.units import format_sig

NextJob = Callable[[Sequence[RunLog], float, Callable[[str], None]], Job | None]
"""From the logs of all launches so far, the seconds that are left of the budget (infinite without one) and a function
that shows a message: one more job, or ``None``."""

START_S, GPU_START_S, CONTEXT_S = 0.25, 2.0, 0.2
"""The start and the end of a launch on one node, without GPUs and with them, and of each further rank of a node with
GPUs, because CUDA makes one context after the other: what is known before the first launch.  Eight ranks take 3.2 s on
two H100s, and 3.5 s on one."""

SHORTEST_S = 0.1
"""The shortest time of the points of a launch: a budget of nothing would be no budget."""


@dataclass(frozen=True)
class LaunchCount:
    """How many launches a run has, and how they share its time."""

    minimum: int
    """However long they take."""
    maximum: int
    time_s: float | None = None
    """No launch after the first ``aim`` starts if it would end after this time; ``None``: no limit."""
    aim: int = 1
    """So many launches share the time: before them, a launch starts if there is time for a quarter of one."""

    def another(self, done: int, left_s: float, launch_s: float) -> bool:
        """Return whether there is time for one more launch after ``done`` of them, if it takes ``launch_s``."""
        if done < self.minimum or done >= self.maximum:
            return done < self.maximum
        return (launch_s / 4 if done < self.aim else launch_s) <= left_s

    def too_few(
        self, launch_s: float, before_s: float = 0.0, done: int | None = None, whole_s: float = 0.0
    ) -> str | None:
        """Return a sentence if the time is too short for an interval over launches.

        Args:
            launch_s: the time of a launch; as expected, where there was none yet.
            before_s: the time before the first launch.
            done: the launches for which there was time; ``None``: as many as are expected.
            whole_s: what a launch takes that skips no size.
        """
        if self.time_s is None or self.maximum < FIRST_LOOK:
            return None
        expected = max(self.minimum, int((self.time_s - before_s) / launch_s)) if done is None else done
        if expected >= FIRST_LOOK:
            return None
        there_was = f"in {self.time_s:.3g} s there {'is' if done is None else 'was'} time for"
        made = f"{there_was} {count(expected, 'launch')} of {format_sig(launch_s, 2)} s"
        if done is None and before_s + launch_s > self.time_s:
            made = _too_long(launch_s, self.time_s)
        sizes = f" of {format_sig(whole_s, 2)} s for all sizes" if whole_s > launch_s else ""
        return f"{made}; a 95 % interval needs {FIRST_LOOK}{sizes}: write a longer --budget"


def _too_long(launch_s: float, time_s: float) -> str:
    return f"a launch takes {format_sig(launch_s, 2)} s, longer than the {time_s:.3g} s that it has"


@dataclass(frozen=True)
class Jobs:
    planned: tuple[Job, ...]
    """The jobs that are known before the first launch, in order."""
    times: int = 1
    """So often each of them is launched."""
    next_job: NextJob | None = None
    """Called repeatedly after the planned jobs, until it returns ``None``."""
    launches: LaunchCount | None = None
    """``None``: as many as there are planned jobs."""
    shortest_s: float = 0.0
    """What one launch takes, however short the budget is."""
    trial: tuple[Plan, ...] = ()
    """What is tried on device memory before the first launch, if MPI is to use it for more than messages between two
    ranks: a small plan of the benchmark, and its parts, which are tried where the whole fails."""
    note: str | None = None
    advice: str | None = None
    """What the user may do about the time that the run is going to take."""
    hardware: bool = True
    """Record the settings of this node with each launch, and its GPUs before and after each launch that uses them."""

    @property
    def count(self) -> LaunchCount:
        number = len(self.planned) * self.times
        return self.launches or LaunchCount(number, number)

    @property
    def budget_s(self) -> float:
        """The time of all launches, from the start of the command on; infinite without a limit."""
        return self.count.time_s or self.planned[0].plan.budget_s or math.inf

    def expected_s(self, context: JobContext, forecast: Callable[[Plan], Forecast]) -> float:
        """Return how long all launches are expected to take, from the start of the command to the last one."""
        each_s = [starts_in_s(job.plan, context) + measures_in_s(job, context, forecast) for job in self.planned]
        if self.launches is not None:
            return max(min(self.launches.maximum * each_s[0], self.budget_s), self.shortest_s)
        tried_s = (1 + bool(self.trial)) * trial_in_s(self.planned[0].plan, context)
        return max(min(tried_s + self.times * sum(each_s), self.budget_s), self.shortest_s)

    def each(
        self, context: JobContext, logs: Sequence[RunLog], elapsed_s: Callable[[], float], say: Callable[[str], None]
    ) -> Iterator[Job]:
        """Yield one launch after the other, each with its part of what is left of the budget.

        Args:
            context: that of the jobs.
            logs: those of the launches so far; they grow between two jobs.
            elapsed_s: returns the seconds since the command began, from which a budget counts.
            say: shows a message.
        """
        for job in self.planned:
            for _ in range(self.times):
                yield _with_part(job, 1 - (elapsed_s() + starts_in_s(job.plan, context)) / self.budget_s)
        while self.next_job and (another := self.next_job(logs, self.budget_s - elapsed_s(), say)):
            yield another


def _with_part(job: Job, part: float) -> Job:
    """Return the job with this part of its budget, if it has one."""
    own_s = job.plan.budget_s
    if own_s is None:
        return job
    return replace(job, plan=job.plan.changed(budget_s=max(own_s * part, min(SHORTEST_S, own_s))))


def starts_in_s(plan: Plan, context: JobContext) -> float:
    """Return how long a launch is expected to take to start and to end; one without transports is of GPUs alone.

    Ranks choose a GPU, and MPI looks for GPUs, also where messages stay in host memory.
    """
    if plan.transports and not context.sees_gpus:
        return START_S
    further = max(plan.world_size - PAIR, 0) if context.on_this_host else 0
    return GPU_START_S + CONTEXT_S * further


def trial_in_s(plan: Plan, context: JobContext) -> float:
    """Return how long the trial of MPI on device memory is expected to take."""
    return starts_in_s(plan, context) if needs_trial(plan, context) else 0.0


def points_in_s(plan: Plan, context: JobContext, forecast: Callable[[Plan], Forecast]) -> float:
    """Return how long all points are expected to take, on the transports that this machine can have."""
    return forecast(plan.changed(transports=usable_transports(plan, context))).whole_s


def measures_in_s(job: Job, context: JobContext, forecast: Callable[[Plan], Forecast]) -> float:
    """Return how long its ranks are expected to measure."""
    measuring_s = points_in_s(job.plan, context, forecast) if job.measuring_s is None else job.measuring_s
    return measuring_s if job.plan.budget_s is None else min(measuring_s, job.plan.budget_s)


MAX_LAUNCHES = 12
"""A run that reaches no narrow interval ends after so many launches: 24 would halve its width at best by a third."""

USUAL_TIME_S = 15.0
"""Without ``--budget`` a run takes this time, or longer where ``FIRST_LOOK`` launches do, or less where
``MAX_LAUNCHES`` do."""

POINT_TIME_S = 0.05
"""The time of a point in one of several launches.  More samples in a launch hardly help: of 44 launches on two H200s
the medians at 8 B vary by 3.8 % (standard deviation, median over transports) with all samples of a launch, and by 5.0 %
with the first four; at 64 MiB by 1.9 and 3.6 %."""

SHORTEST_POINT_S = 0.01
"""The time of a point where a short ``--budget`` has all of them measured rather than some for longer: still more than
a hundred samples of a short message."""

FORECAST_BYTES = 64 << 10
"""From about this size on bandwidth is most of the time of a message (``bandwidth_bytes`` of the engine's forecast)."""

FIRST_SHARE = 3
"""The first launch may take this part of the time, twice as much as each of ``FIRST_LOOK`` launches."""

BUDGET = "--budget changes that"

MIN_VISITS = 1
"""The fewest rounds in one of several launches: an interval within the launch is not needed, so two samples of a long
message do."""


def repeated(
    plan: Plan,
    options: SampledOptions,
    context: JobContext,
    estimates: Callable[[Sequence[RunLog]], Iterable[Estimate]],
    forecast: Callable[[Plan], Forecast],
) -> Jobs:
    """Return the launches of a plan.

    A run goes on launching until every interval over launches is as narrow as asked, until its time is up, or until
    ``MAX_LAUNCHES``.  Its time is ``--budget``, or that of ``FIRST_LOOK`` launches; so many launches share it, however
    long one would take.  There is one launch, with as many samples as its interval needs, inside a foreign launcher,
    with fixed sampling, and with ``--launches 1``.  ``estimates`` returns the results of the launches so far; they
    decide whether there are enough.
    """
    asked = 1 if context.position or plan.sampling.mode == "fixed" else None
    number = options.job.launches or asked
    asked_s, start_s = plan.budget_s, starts_in_s(plan, context)
    all_s = partial(points_in_s, context=context, forecast=forecast)
    if number == 1:
        alone_s = start_s + _without_forecast_s(plan, all_s) if asked_s else 0.0
        if asked_s is None or alone_s <= asked_s:
            return Jobs((Job(plan),))
        return Jobs((Job(plan),), shortest_s=alone_s, note=_too_long(alone_s, asked_s))
    if plan.sampling.mode == "adaptive":
        plan = plan.with_sampling(min_visits=MIN_VISITS)
        if "point_time" not in options.sampling.given:
            part_s = (asked_s or math.inf) / (number or FIRST_LOOK) - start_s
            plan = plan.with_sampling(point_time_s=_point_time_s(plan, part_s, all_s))
    points_s, alone_s = all_s(plan), _without_forecast_s(plan, all_s)
    measuring_s, whole_s = min(points_s, asked_s or math.inf), start_s + points_s
    # Of a launch: in a shorter one there is little but its start, unless a single message needs more than the budget.
    shortest_s = start_s + (alone_s if alone_s > (asked_s or math.inf) else min(start_s, measuring_s))
    if number:
        launches = LaunchCount(1 if asked_s else number, number, asked_s)
        first = plan.changed(budget_s=asked_s and asked_s / number)
    else:
        usual_s = max(USUAL_TIME_S, trial_in_s(plan, context) + FIRST_LOOK * (start_s + measuring_s))
        time_s = asked_s or float(f"{usual_s:.3g}")
        fit = int(asked_s / shortest_s) if asked_s else FIRST_LOOK
        launches = LaunchCount(1, MAX_LAUNCHES, time_s, min(FIRST_LOOK, max(1, fit)))
        if plan.sampling.size_time_s is None and asked_s is not None:
            plan = plan.with_sampling(size_time_s=float(f"{time_s / (2 * FIRST_LOOK):.2g}"))
        plan = plan.with_options(sizes_bytes=coarse_first(plan.options.sizes_bytes)).changed(budget_s=time_s)
        first = plan.changed(budget_s=time_s / FIRST_SHARE)  # it shows what a launch takes here

    least_s = start_s + measuring_s if number else shortest_s
    short_of = launches.too_few(least_s, whole_s=whole_s) if asked_s else None

    def next_job(logs: Sequence[RunLog], left_s: float, say: Callable[[str], None]) -> Job | None:
        timed = [log.times.exit_s + (log.times.gap_s or 0) for log in logs if log.times]
        elapsed_s = (launches.time_s or math.inf) - left_s
        launch_s = sum(timed) / len(timed) if timed else elapsed_s / len(logs)
        if not launches.another(len(logs), left_s, launch_s):
            before_s, needed_s = elapsed_s - sum(timed), _needed_s(logs, launch_s, whole_s)
            if not short_of and (note := launches.too_few(launch_s, before_s, len(logs), needed_s)):
                say(note)
            return None
        good = logs[-1].complete and "failed" not in logs[-1].statuses
        if number is None and (not good or enough(estimates(logs), plan.sampling.ci)):
            return None
        if plan.budget_s is None:
            return Job(plan)
        share_s = _share_s(logs, left_s, launches.aim, start_s) if number is None else left_s / (number - len(logs))
        return Job(plan.changed(budget_s=max(share_s, SHORTEST_S)))

    advice = None if options.sampling.budget else BUDGET
    return Jobs(
        (Job(first),), next_job=next_job, note=short_of, launches=launches, shortest_s=shortest_s, advice=advice
    )


def _without_forecast_s(plan: Plan, all_s: Callable[[Plan], float]) -> float:
    """Return the time of the first long message: the engine forecasts a size from a shorter one, of which bandwidth
    is most of the time, and skips none before.  ``all_s`` returns the time of all points of a plan."""
    sizes = coarse_first(plan.options.sizes_bytes)
    first = next((size for size in sizes if size >= FORECAST_BYTES), sizes[-1])
    return all_s(plan.with_options(sizes_bytes=[first]))


def _needed_s(logs: Sequence[RunLog], launch_s: float, whole_s: float) -> float:
    """Return the time that a launch needs for all points: ``launch_s`` if none was skipped for want of time, else what
    is expected (``whole_s``), or what the points that were measured took each, for all."""
    points = [getattr(record, "reason", None) for log in logs for record in log.records]
    skipped = points.count(OUT_OF_TIME)
    return max(whole_s, launch_s * len(points) / max(len(points) - skipped, 1)) if skipped else launch_s


def _point_time_s(plan: Plan, part_s: float, all_s: Callable[[Plan], float]) -> float:
    """Return the time of a point with which the ranks have measured all points after ``part_s``, within the bounds."""
    low_s, high_s = (all_s(plan.with_sampling(point_time_s=each)) for each in (SHORTEST_POINT_S, POINT_TIME_S))
    if part_s >= high_s or low_s == high_s:  # nothing that this machine has is timed
        return POINT_TIME_S
    share = max(part_s - low_s, 0.0) / (high_s - low_s)
    return float(f"{SHORTEST_POINT_S + share * (POINT_TIME_S - SHORTEST_POINT_S):.2g}")


def _share_s(logs: Sequence[RunLog], left_s: float, aim: int, start_s: float) -> float:
    """Return the time of the points of the next launch, of what is left for it and the others up to ``aim``.

    ``start_s``: what a launch is expected to take besides its points, where no launch has shown it.
    """
    ended = [(log, log.times.exit_s, log.end.elapsed_s) for log in logs if log.times and log.end]
    outside_s = median([exit_s - elapsed_s for _, exit_s, elapsed_s in ended] or [start_s])
    points_s = [sum(getattr(each, "elapsed_s", 0.0) for each in log.records) for log, *_ in ended]
    # What a launch takes besides its points: to start, to prepare, to end.
    beside_s = median([exit_s - s for (_, exit_s, _), s in zip(ended, points_s, strict=True)] or [start_s])
    # Another launch with half of the points is worth more than all points in each, but not without a curve.
    least_s = min(beside_s, points_s[0] / 2) if points_s else beside_s
    measured = sum(getattr(each, "reason", None) != OUT_OF_TIME for each in logs[-1].records)
    if points_s and measured * COARSE_STEPS[0] < len(logs[-1].records):
        least_s = points_s[-1] / max(measured, 1) * len(logs[-1].records) / COARSE_STEPS[0]
    fit = int(left_s / (beside_s + least_s))
    return left_s / max(min(aim - len(logs), fit), 1) - outside_s


COARSE_STEPS = (4, 2, 1)
"""Of rising sizes, every fourth one is measured first, then every second, then all: so a short launch has a curve."""


def coarse_first(sizes: Sequence[int]) -> list[int]:
    """Return rising sizes in another order, which a launch without time for all of them cuts best; others as given.

    Each pass rises, because the engine judges by the size before whether the next one would take too long.
    """
    if list(sizes) != sorted(sizes):
        return list(sizes)
    passes = [sizes[::step] for step in COARSE_STEPS]
    return list(dict.fromkeys(size for one in (*passes[:1], sizes[-1:], *passes[1:]) for size in one))
