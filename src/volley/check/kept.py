"""``volley check --from`` and ``volley show`` of a check: which kept records are of one check, and what they lack."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from volley.benchmarks import BENCHMARKS
from volley.check import COMMAND, cluster, machine
from volley.check.findings import Again, CheckFinding, replaced
from volley.check.judged import Judged, OfCheck, gpus_of, read_yardsticks, show
from volley.check.options import CLUSTER_S, CheckOptions
from volley.document import part_of
from volley.errors import UserError
from volley.machine.transports import TRANSPORTS, meant, without_fault
from volley.records import command_again
from volley.records.launch_series import refuse_unlike, series_of, way_key
from volley.records.records_file import read_runs, without_repeats
from volley.records.run_log import RunLog, not_whole
from volley.text import count, did_you_mean, escape_controls, grouped, join_few, join_words


def _gpus_of(log: RunLog) -> set[str]:
    used = {rank.device.uuid for rank in log.run.ranks if rank.device} if log.run else set()
    return used | {gpu.uuid for gpu in log.gpus("before")}


_REMEDY = "judge each check by itself, with volley check --from RECORDS"


def _refuse_others(others: Sequence[RunLog]) -> None:
    """Refuse launches of no check, if there are any."""
    if others:
        files = join_few(dict.fromkeys(escape_controls(log.file) for log in others))
        raise UserError(f"{files} has {count(len(others), 'launch')} of no check beside those of a check: {_REMEDY}")


def _refuse_several(logs: Sequence[RunLog]) -> None:
    """Refuse records of several machines, or of several ways to check one."""
    runs = [(log, log.run) for log in logs if log.run]
    if any(run.plan.launch.get("of_check") for _, run in runs):  # all launches of a check say so
        _refuse_others([log for log, _ in runs if not log.of_check])
    machines = grouped(runs, lambda both: frozenset((rank.host, rank.cpu) for rank in both[1].ranks))
    if len(machines) > 1:
        refuse_unlike([those[0][0] for those in machines.values()], _REMEDY, among=("host", "CPU"))
    most = max(logs, key=lambda log: len(_gpus_of(log)))
    if apart := next((log for log in logs if not _gpus_of(log) <= _gpus_of(most)), None):  # a launch may use a part
        refuse_unlike([most, apart], _REMEDY, among=("GPU",))
    for those in grouped(runs, lambda both: (both[1].plan.benchmark, *both[1].plan.transports)).values():
        series = series_of([log for log, _ in those], way_key, any_placement=True)
        if len(series) > 1:
            refuse_unlike([each.logs[0] for each in series], _REMEDY)


def judge_files(options: CheckOptions) -> int:
    """Judge the files of --from; return the exit code."""
    given = {name for name, *_ in options.typed}
    if unused := [name for name in ("--budget", "--hosts", "--ranks") if name in given]:
        raise UserError(f"--from measures nothing: leave out {join_words(unused)}")
    for name in options.transport:
        if (plain := without_fault(name)) != "all" and not meant(plain, TRANSPORTS):
            guess = " ".join(filter(None, (";", did_you_mean(name, TRANSPORTS))))
            raise UserError(f"there is no transport {escape_controls(name)!r}{guess} volley transports lists them")
    kept = [log for name in dict.fromkeys(options.records) for log in read_runs(name, BENCHMARKS)]
    logs = without_repeats(kept, quiet=options.output.quiet)
    if len({log.plan.benchmark for log in logs if log.plan}) == 1 and not any(log.of_check for log in logs):
        names = join_few(map(escape_controls, options.records))
        raise UserError(f"--from {names}: these are not records of a check: volley show shows them")
    return judge_logs(logs, options)


def judge_logs(logs: Sequence[RunLog], options: CheckOptions | None = None) -> int:
    """Judge what the records of a check hold as the check did, and show it; return the exit code."""
    options = options or CheckOptions()
    _refuse_several(logs)
    plans = [log.plan for log in logs if log.plan]
    check = part_of(plans[0].launch, OfCheck, "of_check") if plans else None
    of_ranks = next((log.plan for log in logs if log.of_all_ranks), None)
    given = check.asked if check else command_again.options_given(of_ranks)
    asked = _as_asked(options, given) if check else options
    typed = command_again.asked(options.typed)
    left_out = replaced(["--learn", "--learn-busy", "--expect", *(words[0] for words in typed)])
    hosts = dict.fromkeys(rank.host for log in logs if log.run for rank in log.run.ranks)
    one = check.one_machine if check else len(hosts) == 1
    usual_s = machine.usual_s(gpus_of(check, logs)) if one else CLUSTER_S
    longer_s = max(usual_s, 2 * (command_again.budget_in(given) or usual_s))
    same = [words for words in given if words in typed or words[0] not in left_out]
    again = Again([*same, *(words for words in typed if words not in same)], longer_s)
    names = [check.here.node] if check and check.here and check.here.node else [*hosts]
    yardsticks = read_yardsticks(asked, asked.job.hosts, names)
    unmeasured = [each for log in logs for each in log.unmeasured]
    judged = Judged(asked, logs, cluster.Measured(yardsticks.map, 0.0), yardsticks, again, check, unmeasured)
    files = options.records or [*dict.fromkeys(log.file for log in logs)]
    found = [*_incomplete(judged), *_missing(judged, options), *_not_named(judged, options, files), *judged.findings()]
    return show(found, judged.nodes(asked.job.hosts), asked, files)


_OF_THE_CHECK = ("--transport", "--one-switch", "--hosts", "--ranks", "--mpi")


def _as_asked(options: CheckOptions, given: Sequence[Sequence[str]]) -> CheckOptions:
    """Return the options with those of the check by which its verdicts were found."""
    words = (command_again.written(each) for each in given if each[0] in _OF_THE_CHECK)
    its: CheckOptions = COMMAND.parse([*chain.from_iterable(words)])
    one_switch = options.one_switch or (its.one_switch and not options.switches)
    return replace(options, transport=options.transport or its.transport, one_switch=one_switch, job=its.job)


def _incomplete(judged: Judged) -> Iterator[CheckFinding]:
    """Say which launches are not whole, if neither wrong data nor the check says why; refuse launches of no check."""
    of_layer = {id(log): layer.name for layer, _, those in judged.of_layers for log in those}
    of_layer |= {id(log): "all ranks" for log in judged.logs}
    _refuse_others([log for log in judged.all_logs if log.run and not log.of_check and id(log) not in of_layer])
    open_ = [log for log in judged.all_logs if "failed" not in log.statuses]
    if said := not_whole([log for log in open_ if of_layer.get(id(log)) not in judged.known]):
        yield CheckFinding(status="UNDECIDED", layer="records", said=f"they have {said}", remedy=judged.again())


def _missing(judged: Judged, options: CheckOptions) -> Iterator[CheckFinding]:
    """Name the layers that the records do not hold.

    They are UNDECIDED if they were asked for: by the check, as newer records say, by limits, which are of all layers,
    or by the name of a transport; else NOT JUDGED.
    """
    held = {name for log in judged.all_logs if log.plan for name in log.plan.transports}
    named = [name for name in options.transport if name != "all" and not meant(name, held)]
    asked, how = judged.yardsticks.limits or named or judged.check, judged.again
    missing = partial(CheckFinding, status="UNDECIDED" if asked else "NOT JUDGED")
    for layer in (*judged.absent, *named):
        remedy = how.longer if judged.check else how()
        yield missing(layer=layer, said="these records do not contain it", remedy=remedy)


def _not_named(judged: Judged, options: CheckOptions, files: Sequence[str]) -> Iterator[CheckFinding]:
    """Name the files that the check was judged by, and that are not named now."""
    given = {name: values for name, *values in judged.check.asked} if judged.check else {}
    now = replaced(words[0] for words in options.typed)
    for name in ("--switches", "--inventory", *(() if "--learn" in given else ("--expect",))):
        if name in given and name not in now:
            words = [name, *given[name]]
            how = shlex.join(["volley", "check", "--from", ",".join(files), *words])
            said = f"the check was judged by {shlex.join(words)}, too"
            yield CheckFinding(status="NOT JUDGED", layer="records", said=said, remedy=how)
