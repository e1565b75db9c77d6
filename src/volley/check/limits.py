"""A site's limits: learned from what good nodes measured, with a stated rate of false alarms.

The logarithms of the times of good nodes are taken as normal.  The limit is the end of the prediction interval of one
further good node (G. J. Hahn, W. Q. Meeker, Statistical Intervals, 4.8): mean + t · s · √(1 + 1/n), with Student's t at
the probability of a false alarm divided by the number of times that are judged (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from volley.document import Frozen, PositiveSeconds
from volley.errors import UserError
from volley.files import write_file

FALSE_ALARM = 0.01
"""The probability that a good node is above any of its limits."""
FEWEST = 5
"""Good nodes, or checks of one, that a limit needs."""


class Limits(Frozen, frozen=True, kw_only=True):
    """What good nodes measured: the seconds of each, by what was measured."""

    version: int = 1
    seconds: dict[str, list[PositiveSeconds]]


def read(path: Path) -> Limits:
    """Return the limits of a file.

    Raises:
        UserError: if it cannot be read, or is no such file.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Limits)
    except FileNotFoundError:
        raise UserError(f"--expect {path}: there is no such file; --learn makes it, on a node that is good") from None
    except OSError as error:
        raise UserError(f"--expect {path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UserError(f"--expect {path} is not a file of limits: {error}") from None


def add(path: Path, measured: dict[str, float]) -> int:
    """Add the measured seconds to a file, which is made if there is none; return how many checks it holds now."""
    known = dict(read(path).seconds) if path.exists() else {}
    for name, seconds in measured.items():
        known[name] = [*known.get(name, []), seconds]
    write_file(path, msgspec.json.format(msgspec.json.encode(Limits(seconds=known)), indent=1) + b"\n", "limits")
    return min(map(len, known.values()), default=0)


def limit_s(good_s: Sequence[float], judged: int) -> float | None:
    """Return the longest time of a good node, of so many that are judged; ``None`` of fewer than ``FEWEST``."""
    if len(good_s) < FEWEST:
        return None
    logs = np.log(good_s)
    count = len(logs)
    t = student(1 - FALSE_ALARM / max(judged, 1), count - 1)
    return float(np.exp(logs.mean() + t * logs.std(ddof=1) * math.sqrt(1 + 1 / count)))


@cache
def student(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t above the median: its density is summed until the probability is reached.

    >>> round(student(0.975, 4), 2)
    2.78
    """
    # t = √f · tan(angle) turns the tail into a finite range of angles.
    angle = np.linspace(0, math.pi / 2, 20_001)
    density = np.cos(angle) ** (freedom - 1)
    below = np.cumsum((density[1:] + density[:-1]) / 2)
    place = int(np.searchsorted(below / below[-1], 2 * probability - 1))
    return math.sqrt(freedom) * math.tan(angle[min(place + 1, len(angle) - 2)])
