"""The sentence about how many points were measured and verified."""

from __future__ import annotations

from collections.abc import Sequence

from volley.run.report_parts import count_launches
from volley.text import count


def verified_points(verified: Sequence[bool], launches: int) -> str:
    """Say how much was measured: ``24 points in 12 launches, all verified byte for byte``.

    Args:
        verified: of each point, whether its messages were compared.
        launches: how many launches measured them.
    """
    share = "all" if all(verified) else str(sum(verified))
    return f"{count(len(verified), 'point')} in {count_launches(launches)}, {share} verified byte for byte"
