"""What is compared with what: one entry a comparison, one row a claim."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from volley.launch.launchers import PAIR
from volley.units import format_size

from . import readers
from .commands import Command, Ours

PROGRAMS = {
    "pp_cuda_aware": "CUDA-aware program of [MPI Ping Pong](https://github.com/olcf-tutorials/MPI_ping_pong)",
    "pp_cuda_staged_1GiB": "CUDA-staged program of the same tutorial, its loop over sizes begun at the last, 1 GiB",
    "osu_latency": "[OSU Micro-Benchmarks](https://mvapich.cse.ohio-state.edu/benchmarks/), GPU memory on both sides",
    "osu_bw": "the same",
    "osu_bibw": "the same",
    "osu_allreduce": "the same, host memory",
    "osu_alltoall": "the same, host memory",
    "osu_barrier": "the same",
    "osu_mbw_mr": "the same, host and GPU memory",
    "osu_put_latency": "the same, host and GPU memory",
    "osu_get_latency": "the same, host and GPU memory",
    "osu_acc_latency": "the same, host memory",
    "osu_fop_latency": "the same, of 4 bytes",
    "osu_cas_latency": "the same",
    "osu_latency_persistent": "the same, host memory",
    "osu_iallreduce": "the same: its time without computation",
    "osu_allreduce_persistent": "the same",
    "osu_bcast": "the same",
    "osu_reduce": "the same",
    "osu_reduce_scatter_block": "the same",
    "osu_allgather": "the same",
    "osu_gather": "the same",
    "osu_scatter": "the same",
    "osu_neighbor_allgather": "the same, a ring",
    "IMB-MPI1": "[Intel MPI Benchmarks](https://github.com/intel/mpi-benchmarks)",
    "nvbandwidth": "[nvbandwidth](https://github.com/NVIDIA/nvbandwidth), its buffer of 512 MiB",
    "copy_engine": "[our own](../bench/peers/copy_engine.cu): cudaMemcpyPeerAsync and a cache line between two cores",
    "sendrecv_perf": "[nccl-tests](https://github.com/NVIDIA/nccl-tests) with MPI, one process a GPU",
    "all_reduce_perf": "the same",
    "all_gather_perf": "the same",
    "alltoall_perf": "the same",
    "broadcast_perf": "the same",
    "gather_perf": "the same",
    "reduce_perf": "the same",
    "reduce_scatter_perf": "the same",
    "scatter_perf": "the same",
    "p2pBandwidthLatencyTest": "of the [CUDA samples](https://github.com/NVIDIA/cuda-samples)",
    "jacobi_cuda_aware_mpi": "NVIDIA's [CUDA-aware MPI example](https://github.com/NVIDIA-developer-blog/code-samples)",
    "mgpm_single_gpu": "`single_gpu` of [multi-gpu-programming-models]"
    "(https://github.com/NVIDIA/multi-gpu-programming-models)",
    "mgpm_mpi_overlap": "`mpi_overlap` of the same",
}
"""What they are, for docs/peers.md."""

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LAUNCHES = 6
"""The fewest that have an interval."""

Figures = Mapping[str, float]
"""``COMMAND/FIGURE`` of one round."""
Take = Callable[[Figures], float]
"""The number that counts; a figure that is missing is a KeyError."""


@dataclass(frozen=True)
class Asked:
    """The range that a ratio, or where there is nobody to compare with the number itself, is meant to be in."""

    low: float | None = None
    high: float | None = None

    def met_by(self, value: float) -> bool:
        """Say whether a value is in the range."""
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def reached_by(self, low: float, high: float) -> bool:
        """Say whether an interval has a part in the range."""
        return (self.low is None or high >= self.low) and (self.high is None or low <= self.high)


@dataclass(frozen=True)
class Row:
    """One claim."""

    what: str
    against: str
    """Whose number stands on the other side; empty where there is none."""
    asked: Asked
    ours: Take
    theirs: Take | None = None
    unit: str = "s"
    """Of both sides: s, B/s, LU/s or nothing."""


@dataclass(frozen=True)
class Comparison:
    """Programs that are launched beside each other, and what is read from them."""

    name: str
    ours: Ours
    theirs: tuple[Command, ...]
    rows: tuple[Row, ...]
    launches: int = LAUNCHES
    ranks: int = PAIR
    """Comparisons with another number than two are measured where they are chosen."""


def of(command: str, figure: object) -> Take:
    """Take one figure of one command."""
    return lambda figures: figures[f"{command}/{figure}"]


def rate(size_bytes: int, time: Take) -> Take:
    """Take bytes per second of a message."""
    return lambda figures: size_bytes / time(figures)


def total(*parts: Take) -> Take:
    """Take a sum."""
    return lambda figures: sum(part(figures) for part in parts)


def smallest(*parts: Take) -> Take:
    """Take the smallest of figures, all of which must be there."""
    return lambda figures: min(part(figures) for part in parts)


def largest(*parts: Take) -> Take:
    """Take the largest of figures, all of which must be there."""
    return lambda figures: max(part(figures) for part in parts)


def by_size(
    what: str, against: str, sizes: Sequence[int], ours: Callable[[int], Take], theirs: Callable[[int], Take]
) -> tuple[Row, ...]:
    """Return a row a size, of times that may be 2 % longer than the other's."""
    return tuple(
        Row(f"{what}, {format_size(size)}", against, Asked(high=1.02), ours(size), theirs(size)) for size in sizes
    )


def osu(
    name: str, words: str = "", *, long: tuple[int, int] = (GIB, GIB), environment: Mapping[str, str] = {}
) -> tuple[Command, ...]:
    """Return an OSU benchmark: short messages as it does by default, long ones with fewer iterations."""
    read = readers.osu_latency if name == "osu_latency" else readers.osu_bandwidth
    host = "" if words else " H H"
    few = "-i 20 -x 2" if name == "osu_latency" else "-i 4 -x 1"
    return tuple(
        Command(f"{name}{host}, {part}", name, f"{chosen} {words}".strip(), read, environment=environment)
        for part, chosen in (("short", f"-m 8:{64 * KIB}"), ("long", f"-m {long[0]}:{long[1]} {few}"))
    )


def beside_osu(name: str, of_aware: str, asked: Asked, unit: str) -> tuple[Row, ...]:
    """Return the rows of an OSU benchmark: ``aware`` at three sizes."""
    sizes = {8: "short", 64 * KIB: "short", GIB: "long"}
    return tuple(
        Row(
            f"`aware`, {of_aware}, {format_size(size)}",
            f"{name} D D",
            asked,
            of("volley", f"aware {size}"),
            of(f"{name}, {part}", size),
            unit,
        )
        for size, part in sizes.items()
    )


THREE = f"8,{64 * KIB},{GIB}"
STAGED = ("staged/pinned", "staged/pipelined", "staged/shared")
FASTEST_STAGED = rate(GIB, smallest(*(of("volley", f"{name} {GIB}") for name in STAGED)))
NVBANDWIDTH = ("host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_to_device_memcpy_write_ce")
NVBANDWIDTH_SM = "device_to_device_memcpy_write_sm"


def nvbandwidth(*tests: str) -> Command:
    """Return nvbandwidth with these tests."""
    return Command("nvbandwidth", "nvbandwidth", f"-t {' '.join(tests)}", readers.nvbandwidth, "alone")


def both_ways(test: str) -> Take:
    """Take nvbandwidth's larger figure of the two directions between GPU 0 and GPU 1."""
    return largest(of("nvbandwidth", f"{test} 0 1"), of("nvbandwidth", f"{test} 1 0"))


def through_host(test: str) -> Take:
    """Take nvbandwidth's smaller figure of two GPUs and their host: a staged message crosses both links."""
    return smallest(of("nvbandwidth", f"{test} 0 0"), of("nvbandwidth", f"{test} 0 1"))


COLLECTIVE_RANKS = 4
OSU_SIZES = (8, 4 * KIB, 256 * KIB)
"""Of osu_allreduce a rank's buffer; of osu_alltoall what a rank sends to each of the others, so that volley's size is
larger by the number of ranks."""
ONE_SIDED_SIZES = (8, MIB)
ONE_SIDED_WINDOW = 1000
"""Calls of a window: its one notification and acknowledgement, which OSU's programs do not have, are divided by it."""
MESSAGE_SIZES = (8, 4 * KIB, 64 * KIB)
MEAN = " ranks"
"""Behind the name of a collective: the mean over the ranks, as OSU's programs and nccl-tests print it."""
OSU_ALONE = {
    "all-to-all": ("osu_alltoall", COLLECTIVE_RANKS),
    "broadcast": ("osu_bcast", 1),
    "reduce": ("osu_reduce", 1),
    "reduce-scatter": ("osu_reduce_scatter_block", 1),
    "allgather": ("osu_allgather", COLLECTIVE_RANKS),
    "gather": ("osu_gather", COLLECTIVE_RANKS),
    "scatter": ("osu_scatter", COLLECTIVE_RANKS),
    "neighbor-allgather": ("osu_neighbor_allgather", PAIR),
}
"""Operations compared one by one, each behind a barrier: OSU's program, and volley's size divided by OSU's."""
BACK_TO_BACK = ", back to back"
ALONE_SIZES = (4 * KIB, 256 * KIB)
HOST_RANKS = f"-n {COLLECTIVE_RANKS} -t host"
ONE_LAUNCH = "--launches 1 --point-time 0.5"
"""A round compares one launch with one launch."""
QUEUED = "--launches 1 --warmup 5 --iterations 20"
"""20 operations and one wait, as nccl-tests has them."""


def sizes_of(sizes: Sequence[int], factor: int) -> str:
    """Return sizes as an option's value, each multiplied by ``factor``."""
    return ",".join(str(factor * size) for size in sizes)


def osu_collective(name: str, words: str = "", *, read: readers.Reader = readers.osu_latency) -> Command:
    """Return an OSU collective at its default number of iterations."""
    return Command(name, name, f"-m {OSU_SIZES[0]}:{OSU_SIZES[-1]} {words}", read)


def beside_osu_collective(
    name: str,
    operation: str,
    factor: int,
    *,
    transport: str = "host",
    how: str = "",
    sizes: Sequence[int] = OSU_SIZES,
    figure: str = "",
) -> tuple[Row, ...]:
    """Return the rows of a collective on host memory; volley's size is ``factor`` times the other's."""
    return by_size(
        f"`collective`, {operation}, `{transport}`, {COLLECTIVE_RANKS} ranks{how}",
        name,
        [factor * size for size in sizes],
        lambda size: of("volley", f"{operation} {transport} {size}{figure}"),
        lambda size: of(name, size // factor),
    )


def beside_osu_alone(
    operation: str,
    name: str,
    transport: str = "host",
    *,
    factor: int = 1,
    sizes: Sequence[int] = OSU_SIZES,
    read: readers.Reader = readers.osu_latency,
) -> tuple[Comparison, ...]:
    """Compare operations that are timed one by one behind a barrier: verified, and without, as OSU's program is."""
    of_transport = transport.removeprefix("host").replace("/", "-")
    words = (
        f"collective -n {COLLECTIVE_RANKS} -t {transport} --operation {operation} --tail -s {sizes_of(sizes, factor)}"
    )
    return tuple(
        Comparison(
            f"osu-{operation}{of_transport}{option.replace('--', '-')}",
            Ours(f"{words} {ONE_LAUNCH} {option}"),
            (osu_collective(name, "-T mpi_float" if "reduce" in operation else "", read=read),),
            beside_osu_collective(name, operation, factor, transport=transport, how=how, sizes=sizes, figure=MEAN),
            ranks=COLLECTIVE_RANKS,
        )
        for option, how in (("", ""), ("--no-verify", ", not verified"))
    )


MEMORIES = (("host", "H H", ""), ("aware", "D D", "D D"))
"""volley's transport, what OSU calls it, and OSU's words for it."""


def beside_osu_one_sided(name: str, call: str) -> Comparison:
    """Compare one-sided calls, each with its flush, on host and on GPU memory."""
    transports = [f"{memory}/{call}/blocking" for memory, _, _ in MEMORIES]
    asked, (first, last) = sizes_of(ONE_SIDED_SIZES, 1), ONE_SIDED_SIZES
    return Comparison(
        f"osu-{call}",
        Ours(f"stream -t {','.join(transports)} -s {asked} --window {ONE_SIDED_WINDOW} {ONE_LAUNCH}"),
        tuple(
            Command(f"{name} {memory}", name, f"-w create -m {first}:{last} {words}", readers.osu_latency)
            for _, memory, words in MEMORIES
        ),
        tuple(
            Row(
                f"`{transport}`, one call and its flush, {format_size(size)}",
                f"{name} {memory}",
                Asked(high=1.02),
                rate(size, of("volley", f"{transport} {size}")),
                of(f"{name} {memory}", size),
            )
            for transport, (_, memory, _) in zip(transports, MEMORIES, strict=True)
            for size in ONE_SIDED_SIZES
        ),
    )


def beside_osu_message_rate(pairs: int, memories: Sequence[tuple[str, str, str]]) -> Comparison:
    """Compare the messages per second of so many pairs.

    osu_mbw_mr divides by the mean of the senders' times, volley by the time until the last sender is done.  Of one pair
    the two are equal; of more pairs volley's records have both.
    """
    ranks, asked = 2 * pairs, ",".join(transport for transport, _, _ in memories)
    sizes = sizes_of(MESSAGE_SIZES, 1)
    same = Asked(low=0.99)
    rates = (("1 pair", "", same),)
    if pairs > 1:
        rates = (
            (f"{pairs} pairs, mean of the senders' times", " senders", same),
            (f"{pairs} pairs, until the last sender is done", "", Asked()),
        )
    return Comparison(
        f"osu-message-rate-{pairs}",
        Ours(f"message-rate -n {ranks} -t {asked} -s {sizes} --pairs {pairs} {ONE_LAUNCH}"),
        tuple(
            Command(
                f"osu_mbw_mr {memory}",
                "osu_mbw_mr",
                f"-m {MESSAGE_SIZES[0]}:{MESSAGE_SIZES[-1]} {places}",
                readers.osu_message_rate,
            )
            for _, memory, places in memories
        ),
        tuple(
            Row(
                f"`message-rate`, `{transport}`, {described}, {format_size(size)}",
                f"osu_mbw_mr {memory}",
                asked_of,
                of("volley", f"{pairs} pairs {transport} {size}{figure}"),
                of(f"osu_mbw_mr {memory}", size),
                "/s",
            )
            for transport, memory, _ in memories
            for size in MESSAGE_SIZES
            for described, figure, asked_of in rates
        ),
        ranks=ranks,
    )


NETWORK_SIZES = (8, 64 * KIB, MIB, 16 * MIB)
NCCL_NETWORK = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
"""NCCL takes its network, without InfiniBand sockets, as it does between nodes."""
UCX_NETWORK = {"UCX_TLS": "tcp,cuda_copy,self"}


def beside_nccl_tests(
    transport: str, operation: str, program: str, option: str, short: Sequence[int]
) -> tuple[Comparison, ...]:
    """Compare a collective of NCCL: sizes whose batches volley chooses, and 1 GiB, of which a sample would be one."""
    usual = f"{transport.replace('/', '-')}-{operation}"
    lengths = ((usual, short, ONE_LAUNCH), (f"{usual}-long", (GIB,), QUEUED))
    return tuple(
        Comparison(
            name,
            Ours(f"collective -t {transport} --operation {operation} -s {sizes_of(sizes, 1)} {sampled}"),
            (Command("nccl", program, f"-b {sizes[0]} -e {sizes[-1]} -f 2 -n 20 -c 0{option}", readers.nccl_tests),),
            tuple(
                Row(
                    f"`collective`, {operation}, `{transport}`, two GPUs, {format_size(size)}",
                    f"nccl-tests {program}{option}, one process a GPU",
                    Asked(high=1.02),
                    of("volley", f"{operation} {transport} {size}{MEAN}"),
                    of("nccl", size),
                )
                for size in sizes
            ),
        )
        for name, sizes, sampled in lengths
    )


def nccl_over_network(
    name: str, ours: str, program: str, row: tuple[str, Asked], time_of: Callable[[int], Take]
) -> Comparison:
    """Compare NCCL over its network with a program of nccl-tests whose threads may run anywhere.

    ``row`` is what the rows say and ask, ``time_of`` what takes volley's seconds of a size.
    """
    what, asked = row
    words = "-b 8 -e 16M -f 2 -n 20 -w 5 -c 0"
    return Comparison(
        name,
        Ours(f"{ours} -t nccl -s {sizes_of(NETWORK_SIZES, 1)} {ONE_LAUNCH}", NCCL_NETWORK),
        (Command("nccl", program, words, readers.nccl_tests, "unbound", environment=NCCL_NETWORK),),
        tuple(
            Row(
                f"`nccl` over the network, {what}, {format_size(size)}",
                f"nccl-tests {program}, unbound",
                asked,
                time_of(size),
                of("nccl", size),
            )
            for size in NETWORK_SIZES
        ),
    )


def nccl_stream_over_network(window: int) -> Comparison:
    """Compare a stream both ways with sendrecv_perf."""
    return nccl_over_network(
        f"network-nccl-window-{window}",
        f"stream --direction bi --window {window}",
        "sendrecv_perf",
        (f"stream both ways, window {window}, a message each way", Asked(high=1.05)),
        lambda size: rate(2 * size, of("volley", f"nccl {size}")),
    )


def osu_over_network(name: str, benchmark: str, what: str, asked: Asked, unit: str) -> Comparison:
    """Compare MPI over UCX's TCP with an OSU benchmark: host memory, and GPU memory as MPI or volley gets it there."""
    long = (MIB, NETWORK_SIZES[-1])
    beside = (("host", " H H"), ("aware", ""), ("staged/pinned", ""))
    return Comparison(
        f"network-{name.replace('_', '-')}",
        Ours(f"{benchmark} -t host,aware,staged/pinned -s {sizes_of(NETWORK_SIZES, 1)} {ONE_LAUNCH}", UCX_NETWORK),
        tuple(command for memory in ("", "D D") for command in osu(name, memory, long=long, environment=UCX_NETWORK)),
        tuple(
            Row(
                f"`{transport}` over TCP, {what}, {format_size(size)}",
                f"{name}{memory or ' D D'}",
                asked,
                of("volley", f"{transport} {size}"),
                of(f"{name}{memory}, {'short' if size < MIB else 'long'}", size),
                unit,
            )
            for transport, memory in beside
            for size in NETWORK_SIZES
        ),
    )


SAMPLE_UNI = "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix"
SAMPLE_BI = "Bidirectional P2P=Enabled Bandwidth Matrix"
SIDE = 20480
OVERLAP = Command(
    "overlap",
    "mgpm_mpi_overlap",
    f"-nx {SIDE} -ny {SIDE} -niter 1000 -nccheck 100 -csv",
    readers.models,
)


def cell(pair: str) -> tuple[Row, ...]:
    """Return the rows of one pair of GPUs: who writes, and where to."""
    first, second = pair.split()
    peers = (
        ("uni", "copy engine", "nvbandwidth", of("nvbandwidth", f"{NVBANDWIDTH[2]} {pair}"), Asked(0.99, 1.01)),
        ("uni/kernel", "SM", "nvbandwidth", of("nvbandwidth", f"{NVBANDWIDTH_SM} {pair}"), Asked(0.99, 1.01)),
        ("uni", "copy engine", "CUDA sample", of("sample", f"{SAMPLE_UNI} {pair}"), Asked(low=0.99)),
        ("bi", "copy engine", "CUDA sample", of("sample", f"{SAMPLE_BI} {pair}"), Asked(low=0.99)),
    )
    return tuple(
        Row(
            f"`volley matrix`, `{section}`, GPU {first} to GPU {second}",
            f"{name}, {mover}",
            asked,
            of("volley", f"{section} {pair}"),
            theirs,
            "B/s",
        )
        for section, mover, name, theirs, asked in peers
    )


WITH_HOST = {
    "host-to-gpu": ("host_to_device_memcpy_ce",),
    "gpu-to-host": ("device_to_host_memcpy_ce",),
    "bi/host": ("host_to_device_bidirectional_memcpy_ce", "device_to_host_bidirectional_memcpy_ce"),
    "host-to-gpu/kernel": ("host_to_device_memcpy_sm",),
    "gpu-to-host/kernel": ("device_to_host_memcpy_sm",),
    "host-to-gpu/all": ("host_to_all_memcpy_ce",),
    "gpu-to-host/all": ("all_to_host_memcpy_ce",),
}
"""volley's sections, and the tests of nvbandwidth whose figures, added, are the same."""

TABLE = (
    Comparison(
        "tutorial-aware",
        Ours("pingpong -t aware --warmup 5 --iterations 50 --fresh-buffers"),
        (Command("tutorial", "pp_cuda_aware", "", readers.tutorial),),
        tuple(
            Row(
                f"`aware`, fixed 5 + 50, half round trip, {format_size(size)}",
                "the tutorial's CUDA-aware program",
                Asked(0.98, 1.02),
                of("volley", f"aware {size}"),
                of("tutorial", size),
            )
            for size in (8, 64 * KIB, GIB)
        ),
    ),
    Comparison(
        "osu-latency",
        Ours(f"pingpong -t aware -s {THREE}"),
        osu("osu_latency", "D D"),
        beside_osu("osu_latency", "half round trip", Asked(high=1.02), "s"),
    ),
    Comparison(
        "osu-bw",
        Ours(f"stream -t aware -s {THREE}"),
        osu("osu_bw", "D D"),
        beside_osu("osu_bw", "stream one way", Asked(low=0.99), "B/s"),
    ),
    Comparison(
        "osu-bibw",
        Ours(f"stream -t aware -s {THREE} --direction bi"),
        osu("osu_bibw", "D D"),
        beside_osu("osu_bibw", "stream both ways", Asked(low=0.99), "B/s"),
    ),
    Comparison(
        "links",
        Ours(f"pingpong -t {','.join([*STAGED, 'peer', 'device'])} -s {GIB}"),
        (nvbandwidth(*NVBANDWIDTH, NVBANDWIDTH_SM),),
        (
            Row(
                "`staged`, the best variant, 1 GiB",
                "nvbandwidth, pinned host to device and back, the smaller",
                Asked(low=0.93),
                FASTEST_STAGED,
                smallest(through_host(NVBANDWIDTH[0]), through_host(NVBANDWIDTH[1])),
                "B/s",
            ),
            Row(
                "`peer`, 1 GiB",
                "nvbandwidth, copy engine, write",
                Asked(low=0.99),
                rate(GIB, of("volley", f"peer {GIB}")),
                both_ways(NVBANDWIDTH[2]),
                "B/s",
            ),
            Row(
                "`device`, 1 GiB",
                "nvbandwidth, SM copy, write",
                Asked(low=0.95),
                rate(GIB, of("volley", f"device {GIB}")),
                both_ways(NVBANDWIDTH_SM),
                "B/s",
            ),
        ),
    ),
    Comparison(
        "short",
        Ours(f"pingpong -t peer,device -s 8,{4 * KIB},{64 * KIB}"),
        (Command("copy_engine", "copy_engine", "", readers.copy_engine, "on cores"),),
        (
            Row(
                "`peer`, half round trip, 8 B",
                "cudaMemcpyPeerAsync + cudaStreamSynchronize, plus a cache line's signal",
                Asked(high=1.05),
                of("volley", "peer 8"),
                total(of("copy_engine", "copy 8"), of("copy_engine", "line")),
            ),
            *(
                Row(
                    f"`device`, half round trip, {format_size(size)}",
                    "",
                    Asked(high=most_s),
                    of("volley", f"device {size}"),
                )
                for size, most_s in ((8, 0.80e-6), (4 * KIB, 1.1e-6), (64 * KIB, 2.0e-6))
            ),
        ),
    ),
    Comparison(
        "nccl",
        Ours(f"stream -t nccl -s 8,{64 * KIB},{512 * MIB} --direction bi --window 20"),
        (Command("sendrecv", "sendrecv_perf", "-b 8 -e 512M -f 8192 -n 20 -w 5 -c 0", readers.nccl_tests),),
        by_size(
            "`nccl`, stream both ways, a message each way",
            "nccl-tests sendrecv_perf, one process a GPU",
            (8, 64 * KIB, 512 * MIB),
            lambda size: rate(2 * size, of("volley", f"nccl {size}")),
            lambda size: of("sendrecv", size),
        ),
    ),
    *(
        comparison
        # alltoall_perf between two ranks goes from 0 to 32 B.
        for operation, program, short in (
            ("allreduce", "all_reduce_perf", (8, MIB)),
            ("all-to-all", "alltoall_perf", (MIB,)),
            ("allgather", "all_gather_perf", (MIB,)),
            ("reduce-scatter", "reduce_scatter_perf", (MIB,)),
            ("broadcast", "broadcast_perf", (MIB,)),
            ("reduce", "reduce_perf", (MIB,)),
            ("gather", "gather_perf", (MIB,)),
            ("scatter", "scatter_perf", (MIB,)),
        )
        for comparison in beside_nccl_tests("nccl", operation, program, "", short)
    ),
    *(
        comparison
        for way, option in (("registered", " -R 1"), ("graph", " -G 1"))
        for operation, program, short in (
            ("allreduce", "all_reduce_perf", (8, MIB)),
            ("allgather", "all_gather_perf", (MIB,)),
        )
        for comparison in beside_nccl_tests(f"nccl/{way}", operation, program, option, short)
    ),
    nccl_stream_over_network(1),
    nccl_stream_over_network(20),
    nccl_over_network(
        "network-nccl-pingpong",
        "pingpong",
        "sendrecv_perf",
        ("half round trip", Asked()),
        lambda size: of("volley", f"nccl {size}"),
    ),
    nccl_over_network(
        "network-nccl-allreduce",
        "collective --operation allreduce",
        "all_reduce_perf",
        ("allreduce, two GPUs", Asked(high=1.05)),
        lambda size: of("volley", f"allreduce nccl {size}"),
    ),
    osu_over_network("osu_latency", "pingpong", "half round trip", Asked(high=1.05), "s"),
    osu_over_network("osu_bw", "stream", "stream one way", Asked(low=0.95), "B/s"),
    Comparison(
        "osu-allreduce-float",  # OSU's default sums bytes
        Ours(f"collective {HOST_RANKS} --operation barrier,allreduce -s {sizes_of(OSU_SIZES, 1)} {ONE_LAUNCH}"),
        (
            osu_collective("osu_allreduce", "-T mpi_float"),
            Command("osu_barrier", "osu_barrier", "", readers.osu_barrier),
        ),
        (
            *beside_osu_collective("osu_allreduce", "allreduce", 1, how=BACK_TO_BACK),
            Row(
                f"`collective`, barrier, `host`, {COLLECTIVE_RANKS} ranks{BACK_TO_BACK}",
                "osu_barrier",
                Asked(high=1.02),
                of("volley", "barrier host 0"),
                of("osu_barrier", 0),
            ),
        ),
        ranks=COLLECTIVE_RANKS,
    ),
    Comparison(
        "osu-alltoall",
        Ours(f"collective {HOST_RANKS} --operation all-to-all -s {sizes_of(OSU_SIZES, COLLECTIVE_RANKS)} {ONE_LAUNCH}"),
        (osu_collective("osu_alltoall"),),
        beside_osu_collective("osu_alltoall", "all-to-all", COLLECTIVE_RANKS, how=BACK_TO_BACK),
        ranks=COLLECTIVE_RANKS,
    ),
    *(
        comparison
        for operation, (name, factor) in OSU_ALONE.items()
        for comparison in beside_osu_alone(operation, name, factor=factor, sizes=ALONE_SIZES)
    ),
    *beside_osu_alone("allreduce", "osu_iallreduce", "host/nonblocking", read=readers.osu_overlap),
    *beside_osu_alone("allreduce", "osu_allreduce_persistent", "host/persistent"),
    Comparison(
        "osu-persistent",
        Ours(f"pingpong -t host/persistent -s {sizes_of(OSU_SIZES, 1)} {ONE_LAUNCH}"),
        (osu_collective("osu_latency_persistent"),),
        by_size(
            "`host/persistent`, half round trip",
            "osu_latency_persistent",
            OSU_SIZES,
            lambda size: of("volley", f"host/persistent {size}"),
            lambda size: of("osu_latency_persistent", size),
        ),
    ),
    Comparison(
        "osu-atomics",
        Ours(
            "stream -t host/put/accumulate,host/get/fetch-and-op,host/get/compare-and-swap -s 8 "
            f"--window {ONE_SIDED_WINDOW} {ONE_LAUNCH}"
        ),
        tuple(
            Command(name, name, f"-w create {words}", readers.osu_latency)
            for name, words in (
                ("osu_acc_latency", "-m 8:8"),
                ("osu_fop_latency", "-T mpi_int"),
                ("osu_cas_latency", "-T mpi_int"),
            )
        ),
        tuple(
            Row(
                f"`{transport}`, one call and its flush, 8 B",
                name,
                Asked(high=1.02),
                rate(8, of("volley", f"{transport} 8")),
                of(name, size),
            )
            for transport, name, size in (
                ("host/put/accumulate", "osu_acc_latency", 8),
                ("host/get/fetch-and-op", "osu_fop_latency", 4),
                ("host/get/compare-and-swap", "osu_cas_latency", 4),
            )
        ),
    ),
    Comparison(
        "imb-pingping",
        Ours(f"stream -t host --direction bi --window 1 -s {sizes_of(MESSAGE_SIZES, 1)} {ONE_LAUNCH}"),
        (Command("IMB-MPI1", "IMB-MPI1", "-msglog 3:16 -iter 1000 PingPing", readers.imb_pingpong),),
        by_size(
            "`host`, a message each way at a time",
            "IMB-MPI1 PingPing",
            MESSAGE_SIZES,
            lambda size: rate(2 * size, of("volley", f"host {size}")),
            lambda size: of("IMB-MPI1", size),
        ),
    ),
    beside_osu_one_sided("osu_put_latency", "put"),
    beside_osu_one_sided("osu_get_latency", "get"),
    beside_osu_message_rate(1, MEMORIES),
    beside_osu_message_rate(2, MEMORIES[:1]),
    Comparison(
        "tutorial-staged",
        Ours(f"pingpong -t {','.join(STAGED)} -s {GIB}"),
        (Command("tutorial", "pp_cuda_staged_1GiB", "", readers.tutorial),),
        (
            Row(
                "`staged`, the best variant, 1 GiB",
                "the tutorial's CUDA-staged program",
                Asked(low=15),
                FASTEST_STAGED,
                rate(GIB, of("tutorial", GIB)),
                "B/s",
            ),
        ),
        launches=1,
    ),
    Comparison(
        "sweep",
        Ours("pingpong -t all"),
        (),
        (
            Row("a whole `--transport all` sweep, 28 sizes, verified", "", Asked(high=120), of("volley", "wall")),
            Row("the same: points whose interval came to ±1 %", "", Asked(), of("volley", "settled"), unit=""),
        ),
        launches=1,
    ),
    Comparison(
        "matrix",
        Ours("matrix --section uni,bi,uni/kernel"),
        (
            nvbandwidth(NVBANDWIDTH[2], NVBANDWIDTH_SM),
            Command("sample", "p2pBandwidthLatencyTest", "", readers.p2p_sample, "alone"),
        ),
        tuple(row for pair in ("0 1", "1 0") for row in cell(pair)),
    ),
    Comparison(
        "with-host",
        Ours(f"matrix --section {','.join(WITH_HOST)}"),
        (nvbandwidth(*(test for tests in WITH_HOST.values() for test in tests)),),
        tuple(
            Row(
                f"`volley matrix`, `{section}`, GPU 0",
                f"nvbandwidth, {' + '.join(f'`{test}`' for test in tests)}",
                Asked(low=0.98),
                of("volley", f"{section} -1 0"),
                total(*(of("nvbandwidth", f"{test} 0 0") for test in tests)),
                "B/s",
            )
            for section, tests in WITH_HOST.items()
        ),
    ),
    Comparison(
        "sample",
        Ours("matrix --format cuda-samples"),
        (Command("sample", "p2pBandwidthLatencyTest", "", readers.p2p_sample, "alone", begins="Unidirectional"),),
        (
            Row(
                "`volley matrix`, the CUDA sample's sections, verified",
                "CUDA sample",
                Asked(high=1.0),
                of("volley", "work s"),
                of("sample", "work s"),
            ),
            Row(
                "the same, from launch to end",
                "CUDA sample",
                Asked(high=1.5),
                of("volley", "wall"),
                of("sample", "wall"),
            ),
        ),
    ),
    Comparison(
        "jacobi",
        Ours("jacobi -t aware --grid 2 1 --domain 4096 4096"),
        (Command("example", "jacobi_cuda_aware_mpi", "-t 2 1 -d 4096 4096", readers.jacobi_example),),
        (
            Row(
                "Jacobi, `aware`, double, 2 × 1 GPUs, 4096² each",
                "NVIDIA's CUDA-aware MPI example",
                Asked(low=4),
                of("volley", "aware updates"),
                of("example", "updates"),
                "LU/s",
            ),
        ),
    ),
    Comparison(
        "jacobi-float",
        Ours(f"jacobi -n 1 -t aware --domain {SIDE} {SIDE} --precision float"),
        (
            Command(
                "models",
                "mgpm_single_gpu",
                f"-nx {SIDE} -ny {SIDE} -niter 1000 -nccheck 1 -csv",
                readers.models,
                "alone",
            ),
        ),
        (
            Row(f"Jacobi, float, one GPU, {SIDE}²", "", Asked(low=480e9), of("volley", "aware updates"), unit="LU/s"),
            Row(
                "the same",
                "multi-gpu-programming-models, single_gpu",
                Asked(),
                of("volley", "aware updates"),
                of("models", "updates"),
                "LU/s",
            ),
        ),
        launches=3,
    ),
    Comparison(
        "jacobi-strong",
        Ours(f"jacobi -t aware,device --grid 1 2 --domain {SIDE} {SIDE // 2} --precision float --check-every 100"),
        (OVERLAP,),
        tuple(
            Row(
                f"Jacobi, `{exchange}`, float, two GPUs, {SIDE}² in all, residual every 100",
                "multi-gpu-programming-models, mpi_overlap",
                Asked(low=2),
                of("volley", f"{exchange} updates"),
                of("overlap", "updates"),
                "LU/s",
            )
            for exchange in ("aware", "device")
        ),
        launches=3,
    ),
    Comparison(
        "jacobi-four",
        Ours(
            f"jacobi -t aware,device --grid 1 4 --domain {SIDE} {SIDE // 4} --precision float --check-every 100 "
            "--scaling strong"
        ),
        (OVERLAP,),
        tuple(
            row
            for exchange in ("aware", "device")
            for row in (
                Row(
                    f"Jacobi, `{exchange}`, float, four GPUs, {SIDE}² in all, residual every 100: an iteration, minus "
                    "a quarter of one GPU's",
                    "",
                    Asked(high=8e-6),
                    of("volley", f"{exchange} beyond"),
                ),
                Row(
                    "the same: lattice updates",
                    "multi-gpu-programming-models, mpi_overlap",
                    Asked(low=2),
                    of("volley", f"{exchange} updates"),
                    of("overlap", "updates"),
                    "LU/s",
                ),
            )
        ),
        launches=3,
        ranks=4,
    ),
)
