"""The machines of tests/machines, whose facts were captured or composed, and changes to them."""

from pathlib import Path
from typing import Any

import msgspec

from volley.machine import facts as f

MACHINES = Path(__file__).parents[1] / "machines"
NAMES = sorted(folder.name for folder in MACHINES.iterdir() if (folder / "facts.json").is_file())
PROBES = [field.name for field in msgspec.structs.fields(f.Facts) if "Probe" in str(field.type)]


def kept(name: str) -> str:
    """The file with the facts of a machine."""
    return str(MACHINES / name / "facts.json")


def facts_of(name: str) -> f.Facts:
    return f.read_facts(kept(name))


def changed(facts: f.Facts, **changes: Any) -> f.Facts:
    """Change facts: fields of a probe's value in a dictionary, a whole list, an error as a text, or as a tuple with
    its remedy, ``None``: skipped."""
    document = msgspec.to_builtins(facts)
    for name, change in changes.items():
        if name not in PROBES:
            document[name] = change
            continue
        probe, call = document.get(name, {}), getattr(facts, name).call
        if change is None or isinstance(change, str):
            document[name] = {"call": call, "error" if change else "skipped": change or "no"}
        elif isinstance(change, tuple):
            document[name] = {"call": call, "error": change[0], "remedy": change[1]}
        else:
            value = {**probe.get("value", {}), **change} if isinstance(change, dict) else change
            document[name] = {"call": call, "value": value}
    return msgspec.convert(document, f.Facts)
