"""Commands for the copy of volley that the facts describe, and what ends a refusal of ssh, of srun or of another host.

volley.machine.place has the commands for where doctor stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from shlex import quote
from typing import Any

from msgspec.structs import replace

from volley.doctor.mpi_settings import without_interfaces
from volley.machine.facts import Facts
from volley.machine.hardware import extra_for
from volley.machine.job_facts import JobFacts
from volley.machine.mpi_words import (
    ALLOW_ROOT,
    LIMITS_MET,
    NO_CMA,
    SETTING,
    advice_in,
    blames_setting,
    lost_host,
    names_setting,
    reason_in,
    without_component,
)
from volley.machine.packages import with_extra
from volley.machine.place import Place, place_of
from volley.machine.variables import tuned

MESSAGES = "pingpong"
"""The benchmark that sends verified messages between two ranks."""
SEND = f"volley {MESSAGES}"


def send_by(mpi: str) -> str:
    """Return the command that sends them by the MPI of ``--mpi``; an empty one is the usual MPI."""
    return f"{SEND} --mpi {quote(mpi)}" if mpi else SEND


AWARE_SOURCE = "volley setup --route source --prefix ~/mpi"
"""The command that builds a CUDA-aware MPI in a folder of the user."""


def install_volley(facts: Facts, extra: str = "", variables: str = "") -> str:
    """Return the command that installs the copy of volley that captured the facts again.

    Args:
        facts: where it came from.
        extra: a set of optional dependencies, such as ``cuda13``; nothing is built again for them.
        variables: the environment of the build, such as ``CUDACXX=…``.
    """
    requirement = with_extra(facts.requirement, extra)
    # A shell knows the home folder by a ~ outside of quotes only.
    home = "~/" if requirement.startswith("~/") else ""
    word = home + quote(requirement.removeprefix(home))
    again = "" if extra else "--force-reinstall --no-cache-dir "
    return f"{variables} {facts.installer} {again}{word}".strip()


def aware_wheels(facts: Facts) -> str:
    """Return the command that installs a CUDA-aware UCX for Open MPI's wheel: no root, no compiler."""
    extra = extra_for(facts.driver.value.version if facts.driver.value else None)
    return install_volley(facts, extra=extra) if extra and facts.mpi_family in ("", "openmpi") else AWARE_SOURCE


GDRCOPY = "build and load GDRCopy: https://github.com/NVIDIA/gdrcopy"
"""No distribution has its packages, and its module is built for the running kernel."""


# ------------------------------------------------------------------------------------ refusals of another host

_REFUSALS = r"""
creation (temporarily|still) disabled|nodes are busy => another step has the job: leave its shell, or srun --overlap
TIME LIMIT|walltime|RUNLIMIT|run time limit => more time
[Ii]nvalid job id|confirm alloc|already (comp|fin)|not running|revoked|CANCELLED AT => the job has ended: salloc -n 2
Invalid node name|[Nn]odes? .*not in .*(job|allocation) => look for a mistake in the name: scontrol show node {name}
(?i:gres\b|invalid generic res) => more gpus
nvalid (account|part|parent)|this partition|TRES => ask for what this account may use: sacctmgr show assoc user=$USER
[Rr]eserv|(?i:qos)\b|[Ll]icense|[Ff]eature => ask for what this account may use: sacctmgr show assoc user=$USER
configuration (is )?not avail|[Mm]ore (tasks|proc)|[Mm]emory required => ask for more: scontrol show job $SLURM_JOB_ID
Incompatible versions of client|Protocol version has changed => admin: here and on {name}, one version: sinfo --version
slurm controller|configuration source|Zero Bytes|Socket timed|Slurm int => admin: scontrol ping: does slurmctld answer?
[Mm]unge|[Cc]redential|Protocol auth|lock skew => admin: here and there: munge -n | unmunge; date
CPU binding outside|layout tasks|distribute tasks => srun --cpu-bind=none: SLURM_CPU_BIND variables are of another step
[Cc]onnect (IO|io)\b => ping {name}; open all TCP ports, or those of SrunPortRange in slurm.conf
ask (\d+ )?launch|Communication connection failure|Node failure => see whether it is up: sinfo -R --nodes={name}
Plug-in init|plugin stack => admin: what /etc/slurm/plugstack.conf names must be of one version with srun
Invalid MPI type|mpi plugin => srun --mpi=list shows the types that this srun knows
cgroup|(ro|pi)log\b|task(_p| plug)|pyxis|enroot|urmd could|found on host => admin: on {name}: {sudo}journalctl -u slurmd
Unable to create step => see what the job may have, and what it has: scontrol show job $SLURM_JOB_ID
(directory: '|on file |usable ")(ssh|srun)\b|launching agents|plm_[rs]sh_agent: => install the client here: {client}
Temporary failure in name resolution => the name server does not answer: getent hosts {name}; cat /etc/resolv.conf
Could not resolve hostname => look for a mistake in the name {name}: getent hosts {name}
pam_slurm_adopt|no active jobs on this node => run on hosts of your own job: squeue --me
REMOTE HOST IDENTIFICATION HAS CHANGED => ask whether {name} was installed again; if so: ssh-keygen -R {name}
Host key verification failed => ssh {name} true: accept its key once, if it is that of {name}
Bad owner or permissions on|UNPROTECTED PRIVATE KEY FILE => chmod go-rwx the file that ssh names
[Bb]ad configuration option|terminating, \d+ bad configuration => mend the line that ssh names
Too many authentication failures => name one key for {name} in ~/.ssh/config, with IdentitiesOnly yes
no matching (host key|key exchange|cipher|MAC) => ssh -v {name} true shows what each side offers; update the older one
Too many logins => end another session of yours on {name}: loginctl
not permitted to log in yet|System is (booting|going) => wait until {name} has started, or ask who keeps it closed
account is (currently not|expired)|[Pp]assword .*expired|required to change your => log in to {name} by hand first
sign_and_send|Load key|mutual sig => another key: ssh-keygen -t ed25519; ssh-copy-id -i ~/.ssh/id_ed25519 {name}
Permission denied \((publickey|password|gssapi|keyboard|hostbased) => ssh {name} true must work without a password
connect to host .* Connection refused => an administrator of {name} starts its sshd, or names its port
ssh: connect to host => see whether {name} is up and its port 22 is open: ping -c 1 {name}
mux_client|unix_listener|ControlSocket => ssh -o ControlPath=none {name} true works without a shared connection
Connection (to \S+ )?(closed|reset) by|kex_ex|banner ex|stdio forw|channel \d => ssh -v {name} true shows who closes
[Kk]ey has expired|[Rr]equired key not avail|[Kk]ey has been revoked => kinit (or aklog), and again where it has run out
Could not chdir to home directory => on {name}: the home folder is not there: mount it, or name another one
ModuleNotFoundError|No such file or directory|ommand not found|: not found|can't open|unable to (run|find) => install
Illegal variable name|Ambiguous output|Badly placed|for redirect|fish:|restricted: => on {name}: chsh -s /bin/bash
[Ee]xec format error|error while loading shared libraries|GLIBC[\w.]*' not found|Illegal instruction => install
kernel too old => install
"""
"""What srun, ssh, a shell or a program of another host says, the first that fits, and what to do: ``install`` volley
there, or what an administrator does.  Nothing is advised about ssh unless these are its words.  Sources: the messages
of Slurm, OpenSSH and pam_slurm_adopt."""
_ERRNOS = r"""
inotify_ => admin: {sudo}sysctl fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=524288
system_error|pthread_create|thread\w* fail|thread_start => on {name}: ulimit -u, pids.max, or a container's seccomp
[Nn]o buffer space => admin: on each host: {sudo}sysctl net.ipv4.neigh.default.gc_thresh3=16384; ip neigh | wc -l
connect\(.*assign requested => admin: {sudo}sysctl net.ipv4.ip_local_port_range='1024 65535'; ss -s: no port is left
Address family not => admin: {sudo}sysctl net.ipv6.conf.all.disable_ipv6=0, or IPv4 addresses in place of names
^(?!.*not permitted).*(ibv_|mlx\d|\bQP\b|create qp) => admin: {sudo}dmesg | grep mlx; newer firmware or UCX; fewer ranks
No space left on device|[Dd]isk quota exceeded => on {name}: df -h ~ /tmp /dev/shm; remove what is not needed
Stale file|endpoint is not conn|\B/.*Input/output error => admin: a file system of {name} is gone: mount it again
allocate shared|shm_open|shmem_|shared memory seg => on {name}: df -h /dev/shm; ls -l /dev/shm: remove what is left
Out [Oo]f [Mm]emory|Cannot allocate memory|Not enough memory => on {name}: free -m, and the limit of the job's memory
(fail\w+|unable) to allocate => on {name}: free -m, and the limit of the job's memory
Too many open files => ulimit -n 4096, here and on {name}
[Cc]annot fork|[Rr]esource temporarily unavailable => on {name}: ulimit -u, and the processes of this user
/tmp/|session dir|bind\(\) => export TMPDIR=/dev/shm, or another folder of this host and container alone
[Tt]emp\w* dir|\bmkdir|unlink|backing file|rendezvous file => export TMPDIR=/dev/shm, or another folder of this host
Read-only file|Permission denied => on {name}: ls -ld the folders of that path: this user may not use what is there
Address already in use|assign requested address => on {name}: ss -tlnp; getent hosts $(hostname); ip address
Bus error|\bsignal:? 7\b => on {name}: df -h /dev/shm /dev/hugepages: memory that ranks share has no room
Operation not permitted|not implemented => on {name}: a container or its kernel forbids it: try --privileged
No such device|resource busy => admin: on {name}: dmesg shows what is wrong with that device
No such file|nable to open => on {name}: that path is not there: bind it into the container, or share /dev/shm (ipc)
(?i)MCA (var|par)|invalid value|deprecated|limit" => grep -v ^# ~/.openmpi/mca-params.conf, and that of the site
allocation|NODEFILE|within a job|available nodes|Error initializing RM => launch
nreach|No route|onnect(.* fail|ion (refused|timed|reset|closed))|lost comm => ping {name}; ip route; open all TCP ports
\bTCP\b|handshake|hung up|disconnected => ping {name}; ip route; open all TCP ports
reliably start|ied unexpectedly|execve|find (the|an) exec|Illegal instr => install
(?i:cuda (failure|error))(?!.*(image|symbol|PTX))|CUDA_E|\bcu(da)?[A-Z]\w+(:| failed) => admin: {sudo}dmesg | grep NVRM
"""
"""What the system says to any program, also to MPI (errno(3), signal(7)), the first that fits, and where to look."""


def _lines(said: str) -> list[str]:
    return [line.strip() for line in said.splitlines() if line.strip() and not _HARMLESS.search(line)]


def _row(rows: str, lines: Sequence[str], host: str, facts: Facts) -> tuple[str, str] | None:
    """Return the line that the first row of a table fits, and its remedy."""
    place, stack = place_of(facts), facts.stack.value
    table = [each.partition(" => ")[::2] for each in _lines(rows)]
    # What srun says last says more than what it could not do because of that.
    ends = {line: re.sub(r"^srun: error: .*: ", "", line) for line in lines}
    for said, (pattern, remedy) in product((ends, {line: line for line in lines}), table):
        for line in (each for each, words in said.items() if re.search(pattern, words)):
            if remedy == "install" and stack and stack.mpi_source != "wheel" and _OF_MPI.search(line):
                paths = "or name its folders in PATH and LD_LIBRARY_PATH at the top of ~/.bashrc there"
                return line, f"install {stack.described or 'that MPI'} at the same path on {host}, {paths}"
            if remedy == "launch":
                return line, place.launch_here()
            if remedy.startswith("more "):
                need: Any = remedy.removeprefix("more ")
                ended = "the job has ended: " * (need == "time")
                return line, ended + place.more(need, f"ask for more {need} in a new job")
            if remedy == "install":
                there, first = f"install volley at the same path on {host}, or share that folder: ", ""
                lost = re.search(r"([^\s'‘`]+)/bin/python[\d.]*['’]?: No such file", line)
                if lost and lost[1] not in ("/usr", "/usr/local"):  # an environment
                    first = f"python3 -m venv {quote(lost[1])} && "
                    facts = replace(facts, installer=f"{quote(lost[1])}/bin/python -m pip install")
                return line, there + first + install_volley(facts)
            client = place.distribution.package("srun" if "srun" in line else "ssh")
            install = f"add {client} to the image of this container"
            client = install if place.container else place.distribution.install_line(client)
            text = remedy.removeprefix("admin: ").format(name=host, client=client, sudo="{sudo}")
            return line, place.admin(text) if remedy.startswith("admin: ") else text
    return None


def end_of_refusal(error: str, name: str, facts: Facts) -> tuple[str, str]:
    """Return the line of what a host, ssh or srun said that gives the reason, and the remedy for it."""
    lines, place, host = _lines(error), place_of(facts), quote(name)
    if known := _row(_REFUSALS + _ERRNOS, lines, host, facts):
        return known
    if error.startswith("no answer within"):
        look = "a login hangs: look at the server of the home folder there, e.g. timeout 5 ls ~"
        if place.batch == "slurm":
            look = f"srun waits: squeue --steps --jobs=$SLURM_JOB_ID shows who has the job; sinfo --nodes={host}"
        return lines[0].rstrip(": "), f"on {host}, {look}"
    said = next((line for line in lines if re.match(r"srun: (fatal|error)", line)), "")
    said = said or reason_in(lines) or (lines[-1] if lines else "no reason given")
    again = f"srun --nodes=1 --nodelist={host} true" if said.startswith("srun:") else f"on {host}: {SEND}"
    return said, _unset_blamed([said], place) or f"to see it again, {again}"


_OF_MPI = re.compile(r"\b(daemons?|prted|orted|hydra\w*|\w+_proxy|lib(mpi|pmix|prrte|open-)\S*)\b")
_BELOW_MPI = re.compile(
    r"(srun|slurmstepd|ssh|[a-z]*sh|env): |error while loading shared libraries|execvp error|specified executable"
    r"|^kex_ex|^stdio forw|\b(prted|orted|hydra_\w+|\w+_proxy|volley-engine)\b|plm_[rs]sh_agent"
)
"""Daemons of launchers and libraries of MPI; lines of srun, ssh, a shell or the loader, and of a launcher about a
program on a host."""
_HARMLESS = re.compile(r"[Ww]arning: |going to /tmp instead|^\++ ")
REMOUNT_SHM = "{sudo}mount -o remount,rw,size=8G /dev/shm"
_CARD = "{sudo}dmesg | grep mlx; newer firmware or driver, or fewer ranks"
_LOST = r"port retry count|RETRY_EXC|completion .*(error |status=)12\b|ibv_(modify|create_a).* failed|o \w+ (?i:gid)\b"
_GPUDIRECT = "volley doctor -v shows peermem, IOMMU, ACS; or export NCCL_NET_GDR_LEVEL=LOC UCX_IB_GPU_DIRECT_RDMA=n"
_GIDS = "show_gids on both hosts: UCX_IB_GID_INDEX=N (NCCL_IB_GID_INDEX) chooses the GID of one network"
_KILLED = r"oom.kill|OOM Killed|Out Of Memory| 9 \(Killed|\(signal 9|\bmem(ory)?\b.* exceed|exceed.* mem|MEMLIMIT"
_UNREACHED = r"(?<!failed: )Destination is unreachable|no (\w+ )+transport to\b"
_NO_PMI = r"mpi/pmix|Invalid MPI type|not built with (SLURM|ALPS)|No PMIx server was reachable"
_FABRIC = "{sudo}systemctl stop nvidia-fabricmanager; {sudo}nvidia-smi -r; {sudo}systemctl start nvidia-fabricmanager"
_VADER = "OMPI_MCA_btl_vader_single_copy_mechanism"
_PORT = "ibstat; {sudo}dmesg | grep -i -e mlx -e link: a port went down: look at its cable and the switch"
_AGENT = 'export PRTE_MCA_plm_ssh_agent="$OMPI_MCA_plm_rsh_agent"  # its name since Open MPI 5'
_KEEP = "export PRTE_MCA_prte_keep_fqdn_hostnames=1 OMPI_MCA_orte_keep_fqdn_hostnames=1"
_HAS_DOMAIN = re.compile(r"[^.]*[a-zA-Z][^.]*\.\w")
"""Open MPI leaves the domain out of a host's name, unless it is told."""
_GTL = "export LD_PRELOAD=$CRAY_MPICH_ROOTDIR/gtl/lib/libmpi_gtl_cuda.so"
_VERSIONS = r"(?i)ta unpack|_UNPACK_|(incompatible|mismatch)\S* (?!.*client).*version|version.* (in|mis)(compat|match)"
_VERSIONS += "|wrong (type|magic)|message truncated|ext3x_client|undefined symbol: (?!slurm)|symbol lookup error"
_VERSIONS += "|compressed|magic string|different size in shared|(run|exec|ted): Error: unknown option"
_ONE_VERSION = "on each host: command -v mpirun prted; ldconfig -p; env: they need the same versions and variables"
_BATCH_STARTS = r"\bVNIs?\b|VNI_|\blsb|blaunch|JSM|\btm_\w+\(|pbsdsh|qrsh|commlib|execd@|flux_|pmix init failed"
_BATCH_STARTS += "|plm:(?!rsh|ssh)|resource allocator"
"""What fails where a launcher asks the batch system for processes, or is not started by it."""
_OPTIONAL = re.compile(r"LOG_CAT_|(?i:hcol|sharp_)|\b[TC]L_\w+ +ERROR")
"""Words of what MPI does as well without."""
_IS_FREE = re.compile("_if_|_IF|coll=|gds=")
"""Settings that take nothing away."""
_OF_INTERFACES = re.compile(r"(?i)\b(network |IP )?interfaces?\b|\bIP address|\bsubnet|inbound|NCCL WARN .*connect")
_CHOSEN = re.compile(f"(?!LD_)({SETTING.pattern}|NCCL_|SLURM_(CPU|MEM|TRES|MPI|NTASKS))")
"""Settings of this shell, and those of Slurm that say what a step is given."""
_AGENTS = re.compile(r"\w+_(agent|LAUNCHER_EXEC|BOOTSTRAP_EXEC)$")
_ENDS: tuple[tuple[str, Callable[[Place, Facts], str] | str], ...] = (
    (r"plan: \$.*: unknown ", lambda _, facts: install_volley(facts)),  # an engine that is older than this package
    (LIMITS_MET["ulimit -l"].pattern, lambda place, facts: place.raise_limit("l", "unlimited") * (not facts.locks_all)),
    (r"ibv_reg_mr.*Cannot allocate", lambda place, _: place.admin("{sudo}sysctl vm.max_map_count=262144")),
    (LIMITS_MET["df /dev/shm"].pattern, lambda place, _: place.or_in_container("shm", REMOUNT_SHM)),
    (r"\bn?cpus?\b.* exceed", lambda place, _: place.more("cpus", "taskset -p $$ shows what this shell may use")),
    (r"TIME LIMIT|walltime|RUNLIMIT|run time limit", lambda place, _: place.more("time", "")),
    (_KILLED, lambda place, _: place.more("memory", place.admin("free -m; {sudo}dmesg | grep -i oom"))),
    ("port error|async event|[Ll]ink (is )?down", lambda place, _: place.admin(_PORT)),
    (r"/var/spool/slurm|pmixp_mkdir", lambda place, _: place.admin("df -h /var/spool; {sudo}journalctl -u slurmd")),
    (r"(?i)\bp_?key\b", lambda place, _: place.unset(("UCX_IB_PKEY", "NCCL_IB_PKEY"))),
    (r"(?i)\bp_?key\b", "cat /sys/class/infiniband/*/ports/*/pkeys/* on both hosts: they need one partition"),
    (_LOST, lambda place, _: place.unset(("UCX_IB_GID_INDEX", "UCX_IB_PKEY", "NCCL_IB_GID_INDEX", "NCCL_IB_PKEY"))),
    (r"NCCL .*ibv_modify_qp", f"{_GIDS}; where cards of different rails do not reach each other: NCCL_CROSS_NIC=0"),
    (_LOST, _GIDS),
    (r"ocal protection|emote access|completion .*(error |status=)(4|10)\b|ibv_reg.* Bad address", _GPUDIRECT),
    ("installed CUDA|version is insuff|library libcuda", lambda place, _: f"the driver: {place.install_driver()}"),
    (r"ibv_open_device|uverbs|nable to open device", lambda place, _: place.or_in_container("rdma", _CARD)),
    (r"RDMA_CM_EVENT_\w+_ERROR|rdma_(resolve|bind)_addr", "ip address: the RDMA port needs an IP address on each host"),
    (
        r"Un(responsive|reachable) remote|NET/OFI .*address vector",
        "its security group must allow all traffic of its own, in and out",
    ),
    (_BATCH_STARTS, lambda place, _: place.launch_here() if place.batch else ""),
    ("Duplicate GPU", "each rank needs a GPU of its own; if hosts have one boot ID: export NCCL_HOSTID=$(hostname)"),
    ("devx|ibv_cmd|syndrome", "ibstat: ask for newer firmware; until then: export UCX_IB_MLX5_DEVX_OBJECTS="),
    ("nable to run bstrap_proxy on localhost", "export I_MPI_HYDRA_BOOTSTRAP=fork"),
    (_VERSIONS, lambda place, _: place.unset(["LD_LIBRARY_PATH"]) or _ONE_VERSION),
    (
        "slots|alloc-error|More processors|no allocated|already filled",
        lambda place, _: place.more("cpuset", "--hosts a:2,b:2: two for each"),
    ),
    ("PMI server not found", "export I_MPI_PMI_LIBRARY=/path/to/libpmi2.so, that of Slurm; srun --mpi=pmi2"),
    (rf"{_NO_PMI}|PMI2?_\w+ (returned|failed)", lambda place, _: place.unset(("SLURM_MPI_TYPE", "I_MPI_PMI_LIBRARY"))),
    (_NO_PMI, lambda _, facts: f"volley --launcher {'openmpi' if facts.mpi_family in ('', 'openmpi') else 'mpich'}"),
    ("change wdir|not chdir|change .*working directory", "cd ~  # or another folder that each host has"),
    ("attempt to run as root", f"export {' '.join(f'{name}={value}' for name, value in ALLOW_ROOT.items())}"),
    ("too long for the Unix domain socket|File name too long", "export TMPDIR=/tmp"),
    (r"/proc/\d+/fd/\S+ .*failed", "export UCX_POSIX_USE_PROC_LINK=n"),
    (NO_CMA.pattern, f"export UCX_TLS=^cma OMPI_MCA_smsc=^cma {_VADER}=none  # large messages are then copied twice"),
    (_UNREACHED, lambda place, _: place.unset(("UCX_TLS", "UCX_NET_DEVICES")) or "ucx_info -d must agree on the hosts"),
    (r"hfi units|assign_context|PSM2? .*can't open|OFI .*No space left", "fewer ranks, or FI_PROVIDER=^psm2,psm3"),
    (r"OFI [\w() ]*failed", lambda place, _: place.unset(("FI_PROVIDER", "I_MPI_OFI_PROVIDER"))),
    (
        r"OFI [\w() ]*failed|(?s:MPIDI_OFI_.*\(unknown\))",
        "fi_info -l shows the providers; FI_PROVIDER=tcp is one that needs no card of its own",
    ),
    ("find sysfs|PMIX_ERR_NOT_SUPPORTED", "ls /sys/devices/system/cpu/cpu0/topology: hwloc needs all of /sys"),
    ("NCCL WARN .*not permitted", "export NCCL_MNNVL_ENABLE=0 NCCL_CUMEM_ENABLE=0, or give containers an IMEX channel"),
    ("MNNVL|IMEX|imex", lambda place, _: place.admin("{sudo}systemctl start nvidia-imex on each host")),
    (
        "(?i)nvls|failure 802|system not yet initialized",
        lambda place, _: f"{place.admin(_FABRIC, 'all GPUs')}; until then NCCL_NVLS_ENABLE=0",
    ),
    (r"/share/\w+/help-\S+: No such file|system-required exec", lambda _, facts: _moved(facts)),
    ("(?s)ssh: .*PRTE", lambda at, _: _AGENT * ("OMPI_MCA_plm_rsh_agent" in at.environment)),
    ("not resolve hostname", lambda _, facts: _KEEP if any(map(_HAS_DOMAIN.match, facts.host_names)) else ""),
    ("(?i)cuda.*(out of mem|busy or unav)", "nvidia-smi shows the processes that have the GPU: wait for their end"),
    (r"\bMPS\b", lambda place, _: place.unset(["CUDA_MPS_PIPE_DIRECTORY"])),
    (r"\bMPS\b", "echo quit | nvidia-cuda-mps-control; nvidia-cuda-mps-control -d, as the user of the ranks"),
    ("cu(da)?Ipc", "export UCX_TLS=^cuda_ipc OMPI_MCA_btl_smcuda_use_cuda_ipc=0"),
    (
        r"\bECC\b|fallen off|hardware err|NVLink.* err",
        lambda place, _: place.admin("{sudo}dmesg | grep Xid; {sudo}nvidia-smi -r", "all GPUs"),
    ),
    ("GTL library is not", f"{_GTL}, or install volley again with the GPU's craype-accel module"),
    (
        r"cpubind|\b[Bb]ind(ing)? (to|a|the|proc|pol)|unbound",
        "mpirun --bind-to none, mpiexec -bind-to none or srun --cpu-bind=none; or more CPUs",
    ),
    (
        "unable to get host address|getaddrinfo returned",
        "getent ahostsv4 NAME on each host, of each of their names: Hydra needs IPv4 addresses",
    ),
    ("for out-of-band comm", "ip -4 address: Open MPI needs IPv4, unless it was built with --enable-ipv6"),
)
"""What MPI or a launcher says of a job that failed, and what ends it (messages of UCX, NCCL, libfabric, PRRTE, Open
MPI, MPICH, Intel MPI and Slurm): the first that fits and can be done here."""


def _moved(facts: Facts) -> str:
    """Return what tells an Open MPI that does not find its own files where these are."""
    program = facts.stack.value.mpiexec if facts.stack.value else None
    prefix = quote((program or "/path/to/mpi/bin/mpirun").rpartition("/bin/")[0])
    return f"export OPAL_PREFIX={prefix} PRTE_PREFIX={prefix}  # this MPI was moved, or a part of it is not installed"


def end_of_job(job: JobFacts, facts: Facts, *, look: bool = True) -> str:
    """Return what ends the failure of a job, where its words have a reason that is known; else an empty text.

    What srun, ssh, a shell or the loader said is about the host that was lost, the other host, or this one.  What MPI
    itself advises comes next, then what does without the part that failed; with ``look``, at last what to look at.
    """
    place, said = place_of(facts), "\n".join([*job.text, job.why])
    if not facts.trials.value and (unset := _unset_blamed([*job.text, job.why], place)):  # else they were tried
        return unset
    if _OPTIONAL.search(said) and (around := _around(said, facts)):
        return around
    for scope in (job.why, said):
        ends = (each if isinstance(each, str) else each(place, facts) for at, each in _ENDS if re.search(at, scope))
        if known := next(filter(None, ends), ""):
            return known
    between, here = facts.hosts.value, facts.surroundings.value
    pair = between and job in (between.job, between.device_job, between.nccl.job if between.nccl else None)
    other = quote(lost_host(job.text) or (between.hosts[-1].name if between and pair else here.host if here else ""))
    below = [line for line in _lines(said) if _BELOW_MPI.search(line)]
    if row := _row(_REFUSALS + _ERRNOS, below, other, facts):
        return row[1]
    if agent := next((name for name in facts.environment if _AGENTS.match(name) and "daemon" in said), ""):
        return f'"${agent}" {other} true must work: MPI starts its daemons by it'
    row = _row(_ERRNOS, [job.why], other, facts) if look else None
    named = [
        each for each, its in facts.environment.items() if SETTING.match(each) and names_setting(job.why, each, its)
    ]
    unset = place.unset(named[: not facts.trials.value])
    return advice_in(job.text) or unset or _around(said, facts) or (row[1] if row else "")


def _around(said: str, facts: Facts) -> str:
    """Return what does without the interface, the network card or the part of MPI that failed."""
    cards = facts.rdma_devices
    good = [card for card in cards if not re.search(rf"\b{re.escape(card)}\b", said)]
    change = {} if facts.has_gpu and "gpu_init" in said else without_component(said)
    if facts.hosts.value and _OF_INTERFACES.search(said):
        family = "nccl" if "NCCL WARN" in said else facts.mpi_family
        change = change or without_interfaces(family, facts.hosts.value.hosts, said.splitlines(), choose=True)
    elif 0 < len(good) < len(cards) and "NCCL" not in said:
        change = {"UCX_NET_DEVICES": ",".join(f"{card}:1" for card in good)}
    setting = " ".join(f"{name}={value}" for name, value in change.items())
    lost = "  # a way around the problem, without what GPU memory or RDMA may need" * (not _IS_FREE.search(setting))
    return place_of(facts).unset(change) or f"export {setting}{lost}" * bool(change)


def _unset_blamed(lines: Sequence[str], place: Place) -> str:
    """Return the command that unsets the settings of this shell which the lines blame: all but one where they clash."""
    settings = {name: value for name, value in place.environment.items() if _CHOSEN.match(name)}
    blamed = [name for name, value in settings.items() if blames_setting(lines, name, value)]
    return place.unset(blamed[:-1] or blamed)


def settings_for(facts: Facts, *libraries: str) -> list[str]:
    """Return the variables that may change what the transports of these libraries do."""
    return [each.rpartition(": ")[2].partition("=")[0] for each in tuned(facts.environment, libraries)]
