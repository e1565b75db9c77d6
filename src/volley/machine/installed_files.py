"""The files that Python distributions installed.

Nothing but ``os`` is imported here at the top: every rank imports this module before the engine replaces it,
and every millisecond of it is start-up time of the job.
"""

# pathlib takes longer to import than all of this
# ruff: noqa: PTH113

from __future__ import annotations

import os

PACKAGE = "volley"


def installed_file(distribution: str, ending: str) -> str | None:
    """Return the path of the first file that ``distribution`` installed whose path ends with ``ending``."""
    from importlib import metadata  # noqa: PLC0415  start-up: only where it is needed

    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return None
    paths = (os.path.normpath(str(file.locate())) for file in files if str(file).endswith(ending))
    return next((path for path in paths if os.path.isfile(path)), None)
