"""Many nodes."""

from __future__ import annotations

import numpy as np

from volley.check.judgement import Visits

REPEATS = 8
CHOOSING = 3


def joined(*parts: Visits) -> Visits:
    return Visits(*(np.concatenate(columns) for columns in zip(*(part.columns for part in parts), strict=True)))
