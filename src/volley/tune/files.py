"""What is made of the settings that were proven, and the files with it, in the formats of the libraries."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from volley.files import write_file
from volley.text import escape_controls
from volley.tune.candidates import Candidate, library_bytes, way_of
from volley.tune.search import Proof
from volley.units import parse_size

WORTH = 0.99
"""A further setting is taken if its time at some place is less than this times that of those already taken."""


@dataclass(frozen=True)
class SizeRule:
    """A setting for a range of sizes of one collective, both ends measured and proven, and all sizes between."""

    operation: str
    first_bytes: int
    last_bytes: int
    candidate: Candidate


Proofs = Mapping[Candidate, Proof]


def whole(proofs: Proofs) -> list[Candidate]:
    """Return settings that can be set together for all sizes, the largest gain first."""
    chosen: list[Candidate] = []
    covered: dict[tuple[str, str], float] = {}
    variables: dict[str, str] = {}
    for each in sorted(proofs, key=lambda each: -proofs[each].gain):
        found = proofs[each]
        ratios = {found.places[at]: float(found.found.ratio[at]) for at in np.flatnonzero(found.faster).tolist()}
        more = any(ratio < WORTH * covered.get(place, 1.0) for place, ratio in ratios.items())
        fits = all(variables.get(name, value) == value for name, value in each.variables.items())
        if found.usable and more and fits:
            chosen.append(each)
            variables |= each.variables
            covered |= {place: min(ratio, covered.get(place, 1.0)) for place, ratio in ratios.items()}
    return chosen


def by_size(proofs: Proofs) -> list[SizeRule]:
    """Return for each collective which setting is the fastest of those proven, from which size to which."""
    ratios: dict[tuple[str, int], dict[Candidate, float]] = {}
    for candidate, found in proofs.items():
        for number, (series, at) in enumerate(found.places):
            operation, _, transport = series.partition(" ")
            if not transport:
                continue
            here = ratios.setdefault((operation, parse_size(at)), {})
            if found.slower[number]:
                here[candidate] = float("inf")  # on another transport it may be faster
            elif found.faster[number]:
                here[candidate] = max(here.get(candidate, 0.0), float(found.found.ratio[number]))
    rules = []
    for operation, places in groupby(sorted(ratios), key=lambda place: place[0]):
        fastest = []
        for place in places:
            first = min(ratios[place], key=lambda each: ratios[place][each], default=None)
            fastest.append((place[1], first if first and ratios[place][first] < 1 else None))
        for candidate, run in groupby(fastest, key=lambda pair: pair[1]):
            sizes = [size for size, _ in run]
            if candidate:
                rules.append(SizeRule(operation, sizes[0], sizes[-1], candidate))
    return rules


def compose(proofs: Proofs, folder: Path, ranks: int, library: str) -> Candidate | None:
    """Return the one setting that is made of all that was proven; ``None`` if nothing was.

    What a file can set by size is written into the folder, for this number of ranks and this library of MPI, if sizes
    were measured.
    """
    sized = {series for found in proofs.values() for series, _ in found.places} != {"replay"}
    ruling = {each for each in proofs if sized and can_rule(each, library)}
    rules = by_size({each: found for each, found in proofs.items() if each in ruling})
    parts = whole({each: found for each, found in proofs.items() if each not in ruling})
    if len(parts) == 1 and not rules:
        return parts[0]
    variables = {name: value for each in parts for name, value in each.variables.items()}
    variables |= write_rules(rules, folder, ranks, library) if rules else {}
    ruled = list(dict.fromkeys(rule.candidate for rule in rules))
    return Candidate(variables, "all proven settings together", parts=[*parts, *ruled]) if variables else None


# ---------------------------------------------------------------------------------------------------- files

COLL_TUNED, MPICH = "coll_tuned.rules", "mpich-collectives.json"
_OPEN_MPI_IDS = {"allgather": 0, "allreduce": 2, "all-to-all": 3, "broadcast": 7, "reduce": 11}
"""Numbers of collectives (ompi/mca/coll/base/coll_base_functions.h, ``COLLTYPE``)."""
_MPICH_NAMES = {
    "allgather": "allgather",
    "allreduce": "allreduce",
    "all-to-all": "alltoall",
    "broadcast": "bcast",
    "reduce": "reduce",
}
_MPICH_SELECTION = re.compile(rb'\{"collective=[^\0]+')


def can_rule(candidate: Candidate, library: str) -> bool:
    """Return whether a file that the MPI reads can set a candidate by size.

    MPICH's file replaces its own selection of all algorithms, so that must be in its library.
    """
    return candidate.by_size and (way_of(candidate) == "coll_tuned" or mpich_selection(library) is not None)


def write_rules(rules: Sequence[SizeRule], folder: Path, ranks: int, library: str) -> dict[str, str]:
    """Write the file of rules by size, and return the variables with which the MPI reads it."""
    if way_of(rules[0].candidate) == "coll_tuned":
        write_file(folder / COLL_TUNED, coll_tuned(rules, ranks).encode())
        names = {"use_dynamic_rules": "1", "dynamic_rules_filename": str(folder / COLL_TUNED)}
        return {f"OMPI_MCA_coll_tuned_{name}": value for name, value in names.items()}
    selection = mpich_selection(library)
    assert selection
    write_file(folder / MPICH, json.dumps(mpich(selection, rules, ranks), indent=1).encode())
    return {"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": str(folder / MPICH)}


def coll_tuned(rules: Sequence[SizeRule], ranks: int) -> str:
    """Return the rules of coll/tuned for this number of ranks; 0 is the algorithm that Open MPI would take.

    A rule holds from its number of ranks, and from its size, up to the next; the first one also for fewer ranks
    (ompi/mca/coll/tuned, coll_tuned_dynamic_file.c and coll_tuned_dynamic_rules.c).
    """
    found = [(operation, list(those)) for operation, those in groupby(rules, key=lambda rule: rule.operation)]
    lines = [f"{len(found)} # collectives"]
    for operation, those in found:
        sizes = [(0, "0")] if those[0].first_bytes else []
        for rule in those:
            if sizes and sizes[-1][0] == rule.first_bytes:
                sizes.pop()
            sizes += [(rule.first_bytes, rule.candidate.value), (rule.last_bytes + 1, "0")]
        lines += [f"{_OPEN_MPI_IDS[operation]} # {operation}", "3 # numbers of ranks", "1 # ranks and more"]
        lines += ["1 # size", "0 0 0 0"]
        lines += [f"{ranks} # ranks", f"{len(sizes)} # sizes: from this many bytes, algorithm, fan-out, segment"]
        lines += [f"{size} {algorithm} 0 0" for size, algorithm in sizes]
        lines += [f"{ranks + 1} # ranks and more", "1", "0 0 0 0"]
    return "\n".join(lines) + "\n"


def mpich_selection(library: str) -> dict[str, Any] | None:
    """Return MPICH's own selection of algorithms, which is a text in its library; ``None`` if there is none."""
    for found in _MPICH_SELECTION.findall(library_bytes(library)):
        if b"algorithm=MPIR_Allreduce_intra_" in found:
            try:
                selection: dict[str, Any] = json.loads(found)
            except ValueError:
                continue
            return selection
    return None


def mpich(selection: Mapping[str, Any], rules: Sequence[SizeRule], ranks: int) -> dict[str, Any]:
    """Return MPICH's selection with these rules for this number of ranks; everything else stays as it is."""
    changed: dict[str, Any] = json.loads(json.dumps(selection))
    for operation, those in groupby(rules, key=lambda rule: rule.operation):
        name = _MPICH_NAMES[operation]
        its = changed[f"collective={name}"]
        usual = its["comm_type=intra"]
        measure = "total_msg_size" if operation == "allgather" else "avg_msg_size"
        blocks = ranks if operation == "all-to-all" else 1  # its size there is that of a block
        here: dict[str, Any] = {}
        for rule in those:
            here[f"{measure}<{-(-rule.first_bytes // blocks)}"] = usual
            algorithm = f"algorithm=MPIR_{name.capitalize()}_intra_{rule.candidate.value}"
            here[f"{measure}<={rule.last_bytes // blocks}"] = {algorithm: {}}
        here[f"{measure}=any"] = usual
        its["comm_type=intra"] = {f"comm_size<{ranks}": usual, f"comm_size<={ranks}": here, "comm_size=any": usual}
    return changed


def write_settings(folder: Path, variables: Mapping[str, str], comments: Sequence[str]) -> None:
    """Write ``env.sh``, and for Open MPI the file that it reads from ``~/.openmpi/mca-params.conf``."""
    above = "".join(f"# {escape_controls(each)}\n" for each in comments)
    lines = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    write_file(folder / "env.sh", (above + lines).encode())
    mca = {name.removeprefix("OMPI_MCA_"): value for name, value in variables.items() if name.startswith("OMPI_MCA_")}
    if mca:
        text = above + "".join(f"{name} = {value}\n" for name, value in mca.items())
        write_file(folder / "openmpi-mca-params.conf", text.encode())
