"""How many launches a run has, and how they share its time."""

from __future__ import annotations

from dataclasses import dataclass

from volley.statistics.launches import FIRST_LOOK
from volley.text import count
from volley.units import format_sig, round_up


@dataclass(frozen=True)
class LaunchCount:
    minimum: int
    """However long they take."""
    maximum: int
    time_s: float | None = None
    """No launch after the first ``minimum`` starts if it would end after this time; ``None``: no limit."""
    aim: int = 1
    """So many launches share the time: before them, a launch starts if there is time for a quarter of one."""

    def another(self, done: int, elapsed_s: float, launch_s: float) -> bool:
        """Return whether there is time for one more launch after ``done`` of them, if it takes ``launch_s``."""
        if done < self.minimum or done >= self.maximum:
            return done < self.maximum
        needed_s = launch_s / 4 if done < self.aim else launch_s
        return self.time_s is None or elapsed_s + needed_s <= self.time_s

    def expected(self, launch_s: float) -> int:
        """Return the largest number of launches that ``another`` allows if each takes this long."""
        if self.time_s is None or launch_s * self.maximum <= self.time_s:
            return self.maximum
        return min(self.maximum, max(self.minimum, self.aim, int(self.time_s / launch_s)))

    def too_few(self, launch_s: float, before_s: float, about: str = "") -> str | None:
        """Return a sentence if the time is too short for an interval over launches.

        Args:
            launch_s: the time of a launch.
            before_s: the time that passes before the first launch.
            about: is written before the time of a launch: ``about`` for an estimate.
        """
        needed_s = before_s + FIRST_LOOK * launch_s
        if self.time_s is None or needed_s <= self.time_s or not self.minimum < FIRST_LOOK <= self.maximum:
            return None
        number = max(self.minimum, int((self.time_s - before_s) / launch_s))
        launches = f"{count(number, 'launch')} of {about}{format_sig(launch_s, 2)} s"
        needed = f"a confidence interval needs {FIRST_LOOK}: write --budget {round_up(needed_s * 1.1)}"
        return f"{self.time_s:.3g} s leave time for {launches}, and {needed}"
