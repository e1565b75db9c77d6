"""The sentence in which an MPI, its launcher or a library below it says why a job failed: it is rarely the last one.

Open MPI prints what failed first as a text between two rules of dashes, and after it what failed because of that;
MPICH and Intel MPI print a stack of errors, whose last line is the innermost; UCX and the loader print one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise, takewhile

_RULE = re.compile(r"-{20,}|\*{20,}|={20,}")
_FIRST_CAUSES = (
    re.compile(r"error while loading shared libraries: .*"),
    re.compile(r"symbol lookup error: .*"),
    re.compile(r"Could not resolve hostname .*|Host key verification failed.*|.*Permission denied \(publickey.*"),
    re.compile(r"^ssh: .*"),
    re.compile(r"\w+: fatal: .*"),  # srun
    re.compile(r"(?:ba|z|k|tc|c|fi)?sh: .*(?:not found|No such file).*"),  # the shell of another host
    re.compile(r"UCX +WARN +(network device .* is not available.*)"),
    re.compile(r"UCX +(?:ERROR|FATAL) +(.*)"),
    re.compile(r"\[\S+:\d+:\d+:\d+\] +\w+\.c:\d+ +(.*)"),  # what ends a process of UCX has no level
    re.compile(r"NCCL WARN (.*)"),
    re.compile(r".*\b(?:PSM\d?|libfabric:\d+\S*) .*(?:could not|can't|cannot|failed|[Uu]nable).*"),
)
"""Lines that explain what is printed after them, and that no line explains better."""
_CONSEQUENCE = re.compile(
    r"It looks like \W?\w+(\(\))?\W? failed|MPI_INIT has failed|MPI_ABORT was invoked|Primary job +terminated"
    r"|(prte|mpi|orte)(run|exec)(\.\w+)? (has exited|detected|noticed|was unable to start)|PML add procs failed"
    r"|PMIx_Init failed for|Open MPI has detected|No OpenFabrics|Sorry! +You were supposed to get help"
    r"|Error in MPI_\w+\("
)
"""How texts begin that say what followed, or what is no fault."""
_ANY_CAUSE = re.compile(
    r"No components were able|An internal error|\w+ was unable to reliably start|\w+ has lost communi"
    r"|An? (\w+ )?daemon (failed|has unexpectedly)"
)
"""How texts begin that name a result with many causes: another line may say which."""
_UCX_STAMP = re.compile(r"^\[[\d.]+\] \[[^]]*\] +\S+:\d+ +UCX +\w+ +|^\d+<\w+> ")
_NO_MESSAGE = re.compile(
    r"\++ |slurmstepd: error: (Unable to create|Setting) TMPDIR|.*\b(UCX +(DIAG|INFO|DEBUG|TRACE)|NCCL (INFO|TRACE))\b"
    r"|\[mpiexec@.*(check exit codes|(wait\w*|poll) for event|callback returned|assert \(!?closed"
    r"|setting up the bootstrap|launcher init returned|(process manager|write|read|poll|accept) error)"
)
"""The trace of a shell; what a library says of what it does; how an error passes through Hydra."""
_DETAIL = re.compile(r"(?!WARNING|ERROR)[A-Z][\w /-]{1,30}:\s+\S.*")
"""``Component: openib``, below the sentences of Open MPI."""
_OF_ADDRESS = re.compile(r"Host|Local host|Process \d|Daemon exit status|Exit code|Node|PID|Location|Local PID")
_STACK = re.compile(r"\w+\((?:\d+|[^()]*)\)\.*: *(.*)")
"""``MPIDU_Init_shm_alloc(178)...: unable to allocate shared memory``."""
_LAST_CAUSES = (
    re.compile(r"^ *(/\S+: .*)\. +Sorry!"),  # what kept Open MPI from its texts
    re.compile(r"EXIT STRING: (.*)"),
    re.compile(r"process rank \d+ .* exited on signal [479] \(.*\)"),
    re.compile(r"^\[(?:proxy|bstrap):\S+@\S+\] \w+ \(.*?\): (.*)"),
    re.compile(r"^\[mpiexec@.*?\] (?:Error:|\w+ \(.*?\):) (.*)"),
    re.compile(
        r"((?:PMIX ERROR|PRTE ERROR|OPAL ERROR|ORTE_ERROR_LOG): "
        r"(?!PMIX_ERROR\b|E(rror|RROR)\b|A message is attempting to be sent to a process"
        r"|PMIX_ERR_UNREACH in file \S*/ptl_base_connection_hdlr\.c).*?)(?= in file|$)"
    ),
)
"""Lines that say less than a text or a stack.  A message to a process that is unknown is to a rank that has ended, and
so is an answer to one that connects and cannot be reached."""
_ERROR = re.compile(
    r"\b(error|fatal|fail(ed|ing|ure)?|cannot|could not|unable|can't|couldn't|unknown|invalid|refused|denied|no such"
    r"|incompatible|mismatch|timed out|not (found|supported|permitted|available|enough)|too (many|few|long|small))\b",
    re.I,
)
_CONTEXT = re.compile(
    r"\*\*\*|--> |at line \d+|PMI[Xx] ERROR|Other MPI error|Fatal error in|BAD TERMINATION|EXIT CODE|Abort\(\d+\)"
    r"|Local abort before"
)
"""Lines that name no reason."""
_LOST = re.compile(
    r"process rank \d+ with PID \d+ on node (\S+) exited on|Remote daemon: \[\S+\] on node (\S+)"
    r"|(?:Peer|Remote) host: +(\S+)|PID \d+ RUNNING AT (\S+)|Node failure on (\S+)"
    r"|srun: error: (\S+): task \d+: (?!Exited)"
)
"""What Open MPI, MPICH and srun say of a host that is down, or on which a signal ended a process."""


SETTING = re.compile(
    r"(OMPI|PMIX|PRTE)_MCA_|(OPAL|PMIX|PRTE)_PREFIX$|LD_(PRELOAD|LIBRARY_PATH)$"
    r"|(UCX|UCC|HCOLL|MPICH|MPIEXEC|MPIR_CVAR|MV2|HYDRA|HWLOC|PMI|FI|I_MPI|OFI|PSM2|PSM3)_"
)
"""Variables that a shell may have inherited, and that configure an MPI, its launcher, or what they load."""


ALLOW_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
"""With these, Open MPI's mpirun starts ranks as root, which it refuses without them or ``--allow-run-as-root``."""


LIMITS_MET = {
    "ulimit -n": re.compile(r"SYS_LIMITS_(PIPES|FILES|SOCKETS)|[Tt]oo many open files|EMFILE"),
    "ulimit -u": re.compile(r"SYS_LIMITS_CHILDREN|[Cc]annot fork|fork: .*temporarily unavailable"),
    "ulimit -l": re.compile(r"max locked memory|memlock|ibv_(reg_mr\w*|create_cq|create_qp)\b.*Cannot allocate memory"),
    "df /dev/shm": re.compile(
        r"No space left on device.*/dev/shm|/dev/shm.*(No space left|not enough space)"
        r"|(failed to extend|creating shared memory segment|not enough space for) /dev/shm"
    ),
}
"""What shows a limit of this shell or host that a job met, and the words for it."""


LOCKED_MEMORY = re.compile("locked memory|memlock|ibv_(reg|create|alloc)|completion queue|Cannot allocate memory")
"""What fails where the limit of locked memory is low, as one of several causes."""
NO_CMA = re.compile(r"process_vm_(read|write)v|Read -1, expected|CMA (support )?is not avail|\bknem\b|ptrace settings")
"""What UCX and Open MPI say where they may not read another rank's memory."""


def limit_in(lines: Sequence[str]) -> str:
    """Return the command that shows the limit which a job met; empty if no line speaks of one.

    >>> limit_in(["PMIX ERROR: PMIX_ERR_SYS_LIMITS_PIPES in file odls_default_module.c"])
    'ulimit -n'
    """
    return next((shows for shows, words in LIMITS_MET.items() if any(map(words.search, lines))), "")


def names_setting(said: str, name: str, value: str) -> bool:
    """Return whether the words of a failed job hold a part of a variable's value, or the parameter that it sets.

    libfabric's ``fi_getinfo`` fails where no provider is as its own variables ask (fi_getinfo(3)), and names none.
    """
    if name.startswith("FI_") and "fi_getinfo" in said:
        return True
    words = [*re.split(r"[,:;=^]", value), name.partition("_MCA_")[2] or name]
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", said) for word in words if word and not word.isdigit())


def blames_setting(lines: Sequence[str], name: str, value: str) -> bool:
    """Return whether a line has the name of a variable, two words of it in a row, or a word of it and one of its value.

    >>> blames_setting(["Error parsing CPU mapping string"], "MV2_CPU_MAPPING", "128:129")
    True
    """
    parameter = (name.partition("_MCA_")[2] or name).lower()
    words = [each for each in parameter.split("_") if len(each) > 2]
    values = {each for each in re.split(r"[,:;=^]", value.lower()) if len(each) > 1}
    for line in map(str.lower, lines):
        said = {each.strip(".") for each in re.findall(r"[\w.]+", line)}
        in_a_row = (re.search(rf"\b{re.escape(one)}[ -]{re.escape(other)}\b", line) for one, other in pairwise(words))
        if (len(parameter) > 5 and parameter in said) or any(in_a_row) or (said & {*words} and said & values):
            return True
    return False


_ADVICE = re.compile(
    r"(?:[Pp]lease|[Tt]ry|[Ss]et|[Ss]etting|[Cc]onsider|[Cc]heck|[Ii]ncreas\w+|[Dd]ecreas\w+)\b[^.;]{0,80}?"
    r"(?:\b((?:FI|UCX|NCCL|OMPI_MCA|PMIX_MCA|PRTE_MCA|I_MPI|MPICH|MPIR_CVAR|PSM[23]|IBV|RDMAV)_\w+)(=[\w^,:/-]+)?"
    r"|(['`])[a-z][\w /-]+['`]|MCA param\w* \W?(\w+)\W?(?:=| to )(\w+))[^.;]*"
    r"|[Pp]lease (?:correct|fix|install|load|remove|specify|provide)\b[^.;]*"
    r"|(?<=[.:;] )(?:Delete|Remove|Reduce|Increase|Disable|Enable|Install|Upgrade|Unset|Load|Restart) [a-z][^;]*?"
    r"(?=\.? (?:\S+: )?[A-Z]|\.?$|\. )"
)
_NO_ADVICE = re.compile(r"(?i)debug|log_|verbose|warn|suppress|path|plugin|agent|aggregate")
"""Variables that only show more, and those that make a library load or start another file."""


def advice_in(lines: Sequence[str]) -> str:
    """Return what a message itself says to set or to look at, as a command or a sentence; empty if none does.

    >>> advice_in(["please do one of the following: Set the environment variable:", "  FI_EFA_FORK_SAFE=1"])
    'export FI_EFA_FORK_SAFE=1  # says the message'
    """
    said = " ".join(" ".join(lines).split())
    for found in _ADVICE.finditer(said):
        if not _NO_ADVICE.search(found[0]):
            setting = f"OMPI_MCA_{found[4]}={found[5]}" if found[4] else f"{found[1]}{found[2]}"
            return f"export {setting}  # says the message" if found[2] or found[4] else f"the message says: {found[0]}"
    return ""


_COMPONENTS = r"""
Framework: +(bfrops|gds|p(?:compress|mdl|net|reg|sec|sensor|stat|tl))\W+Component: +(\w+) => PMIX_MCA_\1=^\2
Framework: +(\w+)\W+Component: +(\w+) => OMPI_MCA_\1=^\2
\b(?:mm_)?(xpmem|posix|sysv|cma|knem|cuda_ipc|gdr_copy|[dr]c_mlx5|ud_mlx5)\w*\.c:.*UCX +(?:ERROR|FATAL) => UCX_TLS=^\1
\b(bfrops|gds|psec|preg|pnet|pmdl|pcompress)_(?!base|hash)([a-z0-9]+)(?:_\w+)?\.c\b => PMIX_MCA_\1=^\2
\b(btl|mtl|coll|osc|smsc|plm|ras)_(?!tcp|self|sm_|base|ob1|[rs]sh)([a-z0-9]+)(?:_\w+)?\.[ch]\b => OMPI_MCA_\1=^\2
LOG_CAT_|(?i:\bhcol) => OMPI_MCA_coll=^hcoll
\b[TC]L_\w+ +ERROR => OMPI_MCA_coll=^ucc
OpenFabrics|openib => OMPI_MCA_btl=^openib
OFI MTL|OFI Libfabric => OMPI_MCA_mtl=^ofi
opened in the pml framework; => OMPI_MCA_pml=ob1
(?i)\b(psm[23]|opx|cxi|efa)\b[^\n]*(?:can't|cannot|unable|fail|error|not ) => FI_PROVIDER=^\1
\blibfabric:(?:\d+:\d+::)?(?!core|tcp|sockets)(\w+):\S*<(?:warn|error)> => FI_PROVIDER=^\1
(?i)gpu_ipc => MPIR_CVAR_CH4_IPC_GPU_P2P_THRESHOLD=2147483647
ucx function returned => UCX_TLS=self,sm,tcp
yaksuri_\w*init|MPL_gpu_init|no CUDA-capable device => MPIR_CVAR_ENABLE_GPU=0
\bp2p\.cc:\d+ NCCL WARN|NCCL WARN .*CUDA IPC => NCCL_P2P_DISABLE=1
NCCL WARN .*attaching to shared memory => NCCL_CUMEM_HOST_ENABLE=0
\bshm(utils)?\.cc:\d+ NCCL WARN => NCCL_SHM_DISABLE=1
NCCL WARN .*\b\w*(?i:(cumem|dmabuf|gin|mnnvl)) => NCCL_\1_ENABLE=0
\bcoll_?net\.cc:\d+ NCCL WARN|SHARP => NCCL_COLLNET_ENABLE=0
NCCL WARN .*(?:\bfe80:\S*<|Address family) => NCCL_SOCKET_FAMILY=AF_INET
NCCL WARN NET/OFI => NCCL_NET=Socket
(\bnet_ib\w*\.cc|\bib_plugin\.c|\bibvwrap\.cc?):\d+ NCCL WARN => NCCL_IB_DISABLE=1
"""
"""What names a component that failed, and the variable without it.  PMIx and Open MPI name framework and component, or
their files after them; UCX and NCCL name their files after the transport."""


def without_component(said: str) -> dict[str, str]:
    """Return the variable that switches off the component which failed, by the words of the failure; else nothing."""
    for words, _, variable in (row.partition(" => ") for row in _COMPONENTS.strip().splitlines()):
        if found := re.search(words, said):
            name, _, value = found.expand(variable).partition("=")
            return {name.upper() if name.startswith("NCCL") else name: value.lower() if value[0] == "^" else value}
    return {}


def lost_host(lines: Sequence[str]) -> str:
    """Return the first host that was lost, or on which a signal ended a process; empty if no line names one.

    >>> lost_host(["srun: error: cn003: task 3: Killed", "srun: error: cn001: task 1: Killed"])
    'cn003'
    """
    return next(_matches([_LOST], lines), "")


def invalid_values(lines: Sequence[str]) -> list[str]:
    """Return the parameters to which Open MPI knows no such value (help-mca-var.txt): ``mpi_preconnect_mpi=x``.

    Open MPI 5 also tells that of the binding of other jobs (help-prte-hwloc-base.txt).
    """
    text = "\n".join(lines)
    said = re.findall(r"supplied for an enum variable\.\s+Variable +: (\S+)\s+Value +: (.*)", text)
    bind = r"binding (?:policy is not recognized|request contains .* modifier):\s+(?:Policy|Request): +(.*)"
    said += [("hwloc_default_binding_policy", value) for value in re.findall(bind, text)]
    return [f"{name}={value.strip()}" for name, value in dict.fromkeys(said)]


def reason_in(lines: Sequence[str], known: str = "") -> str:
    """Return the sentence that says why a job failed, with the details that belong to it; empty if none does.

    ``known``: what is known without these lines; it says more than a warning, or a line that speaks of no error.
    """
    return _reason(tuple(lines), known)


@lru_cache(maxsize=256)  # the checks of doctor ask several times about a job
def _reason(lines: tuple[str, ...], known: str) -> str:
    kept = [line for line in lines if not _NO_MESSAGE.match(line)]
    rest = (line for line in kept if _says_more(line) and not _CONSEQUENCE.match(line))
    said = next(filter(None, chain(_reasons(kept), [known], rest)), "").strip()
    return _UCX_STAMP.sub("", said)


def first_cause(lines: Sequence[str]) -> str:
    """Return the line that no other explains better, of the loader, ssh, srun or UCX; empty if there is none."""
    return next(_matches(_FIRST_CAUSES, lines), "").strip()


def _reasons(lines: Sequence[str]) -> Iterator[str]:
    """Yield what may be the reason, the best first."""
    yield from _matches(_FIRST_CAUSES, lines)
    texts = list(_help_texts(lines))
    yield from (text for text in texts if not text.startswith("WARNING") and not _ANY_CAUSE.match(text))
    stack = [found[1] for line in lines if (found := _STACK.search(line)) and _says_more(found[1])]
    yield from stack[-1:]
    yield from _matches(_LAST_CAUSES, lines)
    yield from (line for line, below in pairwise(lines) if below.strip().startswith("--> "))
    before = takewhile(lambda line: not _RULE.fullmatch(line.strip()), lines)
    yield from (
        line for line in before if _ERROR.search(line) and _says_more(line) and any(map(_ANY_CAUSE.match, texts))
    )
    yield from texts
    others = [line for line in lines if _says_more(line) and not _CONSEQUENCE.match(line)]
    yield from (line for line in others if _ERROR.search(line) and not re.search(r"\b[Ww]arning\b", line))


def _matches(patterns: Sequence[re.Pattern[str]], lines: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        yield from (found[found.lastindex or 0] for found in map(pattern.search, lines) if found)


def _says_more(line: str) -> bool:
    return bool(line.strip()) and not _CONTEXT.search(line) and not _RULE.fullmatch(line.strip())


def _help_texts(lines: Sequence[str]) -> Iterator[str]:
    """Yield the first sentence and the details of each text between rules that names a cause."""
    block: list[str] | None = None
    for line in (*lines, "-" * 20):  # the launcher may have been killed before the second rule
        if not re.fullmatch(r"-{20,}", line.strip()):
            if block is not None:
                block.append(line.strip())
            continue
        if block and not _CONSEQUENCE.match(block[0]) and not block[0].startswith(("[", "***")):
            details = [" ".join(each.split()) for each in block if _DETAIL.fullmatch(each)]
            prose = " ".join(each for each in block if not _DETAIL.fullmatch(each) and each)
            sentence = re.match(r"(WARNING: )?.*?[.:;](?=\s|$)|.*", prose)
            known = [each for each in details if not _OF_ADDRESS.match(each)]
            yield "; ".join(filter(None, [(sentence[0] if sentence else prose).rstrip(".:; "), *known]))
        block = [] if block is None or block else block
