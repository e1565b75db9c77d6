"""Where this copy of volley came from, and the command that installs it again from there.

The names ``volley`` and ``volley-bench`` on PyPI belong to others: no message may refer users to them.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from importlib import metadata
from pathlib import Path
from shlex import join
from typing import Any
from urllib.parse import unquote, urlsplit

DISTRIBUTION = "volley-bench"


def install_command(extra: str = "", python: str = "") -> str:
    """Return the shell command that installs this copy of volley again.

    Args:
        extra: a set of optional dependencies, such as ``cuda13``.
        python: the Python to install into; this one unless given.
    """
    again = ["--force-reinstall", "--no-cache-dir"] if not extra and not python else []
    return join([*installer(python), *again, requirement(extra)])


def installer(python: str = "") -> list[str]:
    """Return the words that install packages into a Python, this one unless another is named: pip's, or uv's."""
    if not python and not importlib.util.find_spec("pip") and (uv := shutil.which("uv")):
        return [uv, "pip", "install", "--python", sys.executable]
    return [python or sys.executable, "-m", "pip", "install"]


def requirement(extra: str = "") -> str:
    """Return the argument of pip: a checkout, a wheel file or a URL."""
    extras = f"[{extra}]" if extra else ""
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "pyproject.toml").is_file() and (checkout / "build_backend").is_dir():
        return f"{checkout}{extras}"
    source = _source()
    if "vcs_info" in source:
        vcs = source["vcs_info"]
        revision = vcs.get("requested_revision") or vcs.get("commit_id")
        return f"{DISTRIBUTION}{extras} @ {vcs['vcs']}+{source['url']}" + (f"@{revision}" if revision else "")
    url = urlsplit(source.get("url", ""))
    if url.scheme == "file" and Path(unquote(url.path)).exists():
        return f"{unquote(url.path)}{extras}"
    if url.scheme in ("http", "https"):
        return f"{DISTRIBUTION}{extras} @ {source['url']}"
    return f"/path/to/volley{extras}"


def _source() -> dict[str, Any]:
    """Return the installer's ``direct_url.json`` (PEP 610); empty if there is none."""
    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        found = json.loads(text or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
