"""A job that failed, or was slow, once more with one change at a time: what ends the problem is its cause."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from volley.command.options import JobOptions
from volley.doctor.mpi_settings import settings_of, without_interfaces
from volley.doctor.probes import jobs
from volley.doctor.probes.host import LEAST, other_folders
from volley.errors import UserError
from volley.launch.allocation import allocation
from volley.launch.inside_launcher import OF_RANKS, has_launcher, rank_info, scrubbed
from volley.machine.capture import Skip
from volley.machine.facts import Facts
from volley.machine.job_facts import HostFacts, JobFacts, TrialFacts
from volley.machine.mpi_words import SETTING, names_setting, without_component
from volley.machine.place import OF_JOBS, without_needless
from volley.machine.sysfs import word
from volley.machine.variables import SECRET, names_no_device

_OF_BATCH = (*OF_JOBS, "COBALT_")
_TRIAL_WATCHDOG_S = 5.0
_OTHERS_S = 20.0
"""So long after the job variables are tried away of which nothing speaks."""
_NOWHERE = "/dev/null/nonexistent"
"""As the home folder, and below what is no folder: none of the files there exists."""
_PARAMETER_FILES = "OMPI_MCA_mca_base_param_files"
_GIVES_WAY = re.compile("yield|wait_mode", re.I)
"""Settings with which a rank that waits leaves its core to others, and is slow where there are others alone."""


class _Change(NamedTuple):
    trial: TrialFacts
    """What is said of it."""
    unset: Sequence[str] = ()
    added: Mapping[str, str] = MappingProxyType({})
    """The variables that it takes away, and those that it sets."""


def on_this_host(facts: Facts, options: JobOptions, limit_s: float) -> list[TrialFacts]:
    """Repeat a job that failed, or was slow, with one change at a time, until one ends the problem.

    It is that on host memory, or that on GPU memory where the first one worked.
    """
    on_gpus, options = facts.fails_on_gpus, replace(options, watchdog=2 * _TRIAL_WATCHDOG_S)
    left = [] if _in_job(facts.launcher.value) else [name for name in os.environ if name not in scrubbed(os.environ)]
    job = (facts.mpi_device if on_gpus else facts.mpi_host).value
    began, slow = time.monotonic(), bool(not on_gpus and job and job.complete and job.points and not job.fast)
    if not on_gpus and ((job and job.fast) or (facts.mpi_host.skipped and not left)):
        raise Skip("the job worked")
    if slow and jobs.mpi_host(options).fast:
        raise Skip("the job worked; other load slowed it down the first time")
    found, again = list[TrialFacts](), partial(jobs.mpi_device if on_gpus else jobs.mpi_host, options)
    for change in _on_this_host(facts, job, left, slow=slow):
        if time.monotonic() - began > limit_s:
            break
        done = _with_change(change, again)
        again = partial(again.func, replace(options, watchdog=_TRIAL_WATCHDOG_S))  # the first one is the most likely
        works = done.sends_gpu_memory if on_gpus else done.sends
        if slow:  # other load comes and goes: the change alone must tell the fast jobs from the slow ones
            works = done.fast and not again().fast and _with_change(change, again).fast and not again().fast
        found.append(msgspec.structs.replace(change.trial, works=works, reason="" if done.complete else done.why))
        if works:
            break
    return found


def _with_change(change: _Change, again: Callable[[], JobFacts]) -> JobFacts:
    kept = dict(os.environ)
    try:
        for name in change.unset:
            del os.environ[name]
        os.environ.update(change.added)
        return again()
    except UserError as error:
        return JobFacts(launcher="", command=[], wanted_ranks=2, reason=str(error))
    finally:
        os.environ.clear()
        os.environ.update(kept)


def _without(names: Sequence[str], words: str = "") -> _Change:
    settings = [f"{name}={'…' if SECRET.search(name) else os.environ[name]}" for name in names]
    return _Change(TrialFacts(change=words or f"unset {' '.join(names)}", settings=settings), unset=names)


def _with_settings(added: Mapping[str, str]) -> _Change:
    change = " ".join(f"{name}={quote(value)}" for name, value in added.items())
    return _Change(TrialFacts(change=change), added=added)


def _on_this_host(facts: Facts, job: JobFacts | None, left: Sequence[str], *, slow: bool) -> Iterator[_Change]:
    """Yield what may end the problem.

    What was inherited is taken away, each variable alone and then all, files of the user and the site, low limits; then
    other folders and components are tried.  ``left`` are the variables of a launcher that did not start this process.
    """
    batch = [name for name in os.environ if name.startswith(_OF_BATCH)] if allocation(os.environ) else []
    if left:
        begin = [each for each in OF_RANKS if any(name.startswith(each) for name in left)]
        of_job = dict.fromkeys(name.partition("_")[0] + "_" for name in batch)
        yield _without(left, without_needless(begin))
        yield _without([*left, *batch], without_needless([*begin, *of_job]))
        return
    suspects = [name for name in _suspects(job, facts) if not (slow and _GIVES_WAY.search(name))]
    named = [name for name in batch if job and re.search(rf"\b{name}\b", " ".join([*job.text, job.why]))]
    groups = [*([name] for name in named[:-1] or named), *([name] for name in suspects)]
    groups = [batch, *groups] if batch and not named else groups
    yield from map(_without, groups)
    if len(groups) > 1:
        yield _without([name for group in groups for name in group])
    files: dict[str, tuple[str, ...]] = {"HOME": jobs.IN_HOME}
    if facts.stack.value and facts.mpi_family == "openmpi":
        files[_PARAMETER_FILES] = (jobs.site_file(facts.stack.value.mpiexec),)
    for variable, names in files.items():
        texts = {name: word(Path(os.path.expanduser(name))) for name in names}  # noqa: PTH111
        lines = [f"{line} in {name}" for name in names for line in texts[name].splitlines() if line[:1] not in "#"]
        away = "; ".join(f"mv {name} {name}.off" for name in names if any(line.endswith(name) for line in lines))
        if lines:
            change = away if variable == "HOME" else f"export {variable}={jobs.IN_HOME[0]}"
            yield _Change(TrialFacts(change=change, settings=lines), added={variable: _NOWHERE})
    for limit, change in _raised_limits():
        yield _Change(TrialFacts(change=change, settings=[limit]))
    known = settings_of(facts.mpi_family)
    others = known.on_gpus if facts.fails_on_gpus else known.around
    if job and (without_it := without_component("\n".join([*job.text, job.why]))):
        others = (without_it, *others)
    if not facts.fails_on_gpus and not slow:
        others = (*({"TMPDIR": each} for each in other_folders()), *others)
    elif slow and job and (major := "".join(re.findall(r"\d", job.library or "")[:1])):
        others = known.shared_memory.get(major, ())
    yield from map(_with_settings, others)


def _suspects(job: JobFacts | None, facts: Facts) -> list[str]:
    """Return the variables that this MPI may read: first those that name no device, then those that a failure names."""
    of_others = settings_of(facts.mpi_family).of_others
    devices = facts.surroundings.value.devices if facts.surroundings.value else []
    found = [name for name, value in os.environ.items() if value and SETTING.match(name) and not of_others.match(name)]
    found.sort(key=lambda name: name.startswith("LD_"))  # without them, another MPI may be loaded
    for said in (" ".join(job.text), job.why) if job else ():
        found.sort(key=lambda name, said=said: not names_setting(said, name, os.environ[name]))  # type: ignore[misc]
    return sorted(found, key=lambda name: not names_no_device(name, os.environ[name], devices))


def _in_job(ranks: JobFacts | None) -> bool:
    """Return whether this process is no rank by its variables; or ``ranks`` worked; or a launcher is above it."""
    return rank_info(os.environ) is None or bool(ranks and ranks.complete and len(ranks.ranks) > 1) or has_launcher()


def _raised_limits() -> Iterator[tuple[str, str]]:
    """Raise each low limit of this process in turn; yield what it was and what raises it in a shell."""
    for letter, number, least, unit in LEAST:
        soft, hard = resource.getrlimit(number)
        if soft < 0 or 0 <= least <= soft:
            continue
        free = hard < 0 or 0 <= least <= hard
        with contextlib.suppress(OSError, ValueError):  # only root may raise a hard limit
            resource.setrlimit(number, (least, hard if free else least))
            to = "unlimited" if least < 0 else least // unit
            yield f"ulimit -{letter} {soft // unit}", f"ulimit {'-S ' if free else ''}-{letter} {to}"


# ------------------------------------------------------------------------------------------- between several hosts


def between_hosts(
    found: Sequence[HostFacts], names: tuple[str, ...], family: str, said: Sequence[str], options: JobOptions
) -> TrialFacts | None:
    """Repeat a job that failed with one change at a time; return the one that works, else the last one."""
    last = None
    again = partial(jobs.over_hosts, names, options)
    for change in _between_hosts(found, family, said):
        done = _with_change(change, again)
        last = msgspec.structs.replace(change.trial, works=done.complete, reason="" if done.complete else done.why)
        if last.works:
            break
    return last


def _between_hosts(found: Sequence[HostFacts], family: str, said: Sequence[str]) -> Iterator[_Change]:
    """Yield variables that name what one host lacks, or that the failure names; then interfaces that lead nowhere;
    then, while there is time, other variables, and TCP in place of RDMA."""
    until = time.monotonic() + _OTHERS_S
    names = [each for each in os.environ if SETTING.match(each)]
    missing = [each for each in names if any(names_no_device(each, os.environ[each], one.interfaces) for one in found)]
    text = " ".join(said)
    blamed = dict.fromkeys([*missing, *(each for each in names if names_setting(text, each, os.environ[each]))])
    yield from (_without([each]) for each in blamed)
    intel = "Intel" in found[0].settings.get("MPI", "")
    if added := without_interfaces("intel" if intel else family, [each for each in found if not each.error], said):
        yield _with_settings(added)
    if any(each.error for each in found):
        return
    others = [_without([name]) for name in names if name not in blamed and not name.startswith("LD_")]
    around = settings_of("intel" if intel else family).around
    others += [_with_settings(added) for added in around if {"tcp", "self,tcp"} & {*added.values()}]
    for change in others:
        if time.monotonic() < until:
            yield change
