"""docs/other-programs.md: each program of OSU, IMB, nccl-tests and nvbandwidth, and what volley types for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

LATENCY, STREAM, RATE = "volley pingpong -t {}", "volley stream -t {}", "volley message-rate -t {} --ranks 8"
PATTERN = "volley message-rate -t host --ranks 8 --pattern {}"
BLOCKING, OVERLAP = "volley collective -t {} --operation {}", "volley overlap -t {} --ranks 8 --operation {}"
OF_MPI = {
    "allgather": "allgather",
    "allgatherv": "allgatherv",
    "allreduce": "allreduce",
    "alltoall": "all-to-all",
    "alltoallv": "all-to-allv",
    "barrier": "barrier",
    "bcast": "broadcast",
    "gather": "gather",
    "gatherv": "gatherv",
    "reduce": "reduce",
    "reduce_scatter": "reduce-scatter",
    "scatter": "scatter",
    "scatterv": "scatterv",
}
"""MPI's name of an operation, in small letters, and volley's."""
RING = "volley collective -t {} --ranks 8 --operation {}"
OF_64 = "the screen has the bandwidth; with `-f csv`, `time_s` is of 64 calls"
ITERATIONS = "one batch of so many; without, until the interval is narrow enough"
CHECKED = "each result is checked"
VECTOR = "doubles 64 bytes apart, as a datatype and packed by hand"


class Row(NamedTuple):
    """A program, the command, or why there is none (``command`` is empty), and what is different."""

    program: str
    command: str
    note: str = ""


def _collectives(form: str, transport: str, command: str = BLOCKING) -> Iterator[Row]:
    for name, operation in OF_MPI.items():
        differs = "the form with equal blocks" if name == "reduce_scatter" else ""
        if command == OVERLAP and operation == "barrier":
            yield Row(form.format(name), BLOCKING.format("host/nonblocking", operation), "the time alone")
        else:
            yield Row(form.format(name), command.format(transport, operation), differs)


def _neighbors(form: str, command: str) -> Iterator[Row]:
    for name in ("allgather", "allgatherv", "alltoall", "alltoallv"):
        yield Row(form.format(name), command.format("host", f"neighbor-{OF_MPI[name]}"), "a ring")
    yield Row(form.format("alltoallw"), command.format("host", "neighbor-all-to-allw"), "a ring, one type for all")


OSU = (
    Row("osu_latency", LATENCY.format("host")),
    Row("osu_latency_persistent", LATENCY.format("host/persistent")),
    Row("osu_multi_lat", "volley matrix -t host --ranks 8 --mode loaded", "every pair, not only neighbors"),
    Row("osu_latency -D vect", LATENCY.format("vector"), VECTOR),
    Row("osu_bw", STREAM.format("host")),
    Row("osu_bw -D vect", STREAM.format("vector"), VECTOR),
    Row("osu_bibw", "volley stream -t host --direction bi"),
    Row("osu_bw_persistent", STREAM.format("host/persistent")),
    Row("osu_bibw_persistent", "volley stream -t host/persistent --direction bi"),
    Row("osu_partitioned_latency", LATENCY.format("host/partitioned"), "8 parts, which one thread makes ready"),
    Row("osu_mbw_mr", RATE.format("host")),
    Row(
        "osu_latency_mt",
        LATENCY.format("host,threads"),
        "as many threads receive as send: 2, 4 and 8; each needs a core",
    ),
    Row("osu_latency_mp", LATENCY.format("host"), "without its further processes, which sleep"),
    Row("osu_bw_fan_in", PATTERN.format("fan-in"), "one receiver; OSU has one for each rank of a node"),
    Row("osu_bw_fan_out", PATTERN.format("fan-out"), "one sender; OSU has one for each rank of a node"),
    Row(
        "osu_put_latency",
        "volley stream -t host/put/blocking --window 1",
        "with `-f csv`, `time_s` is of one call and the answer of the receiver",
    ),
    Row(
        "osu_get_latency",
        "volley stream -t host/get/blocking --window 1",
        "with `-f csv`, `time_s` is of one call and the notification",
    ),
    Row("osu_put_bw", STREAM.format("host/put")),
    Row("osu_get_bw", STREAM.format("host/get")),
    Row("osu_put_bibw", "volley stream -t host/put --direction bi"),
    Row("osu_get_mbw", RATE.format("host/get")),
    Row("osu_get_multi_lat", "volley matrix -t host/get --ranks 8 --mode loaded"),
    Row("osu_put_latency -s pscw", LATENCY.format("host/put/pscw")),
    Row("osu_get_latency -s pscw", LATENCY.format("host/get/pscw")),
    Row("osu_acc_latency", STREAM.format("host/put/accumulate"), f"{OF_64}; MPI_REPLACE, where OSU sums"),
    Row("osu_get_acc_latency", STREAM.format("host/get/accumulate"), f"{OF_64}; MPI_NO_OP, where OSU sums"),
    Row("osu_fop_latency", "volley stream -t host/get/fetch-and-op --sizes 8", OF_64),
    Row("osu_cas_latency", "volley stream -t host/get/compare-and-swap --sizes 8", OF_64),
    *_collectives("osu_{}", "host"),
    Row("osu_reduce_scatter_block", BLOCKING.format("host", "reduce-scatter")),
    *_collectives("osu_i{}", "host", OVERLAP),
    Row("osu_ireduce_scatter_block", OVERLAP.format("host", "reduce-scatter")),
    *_collectives("osu_{}_persistent", "host/persistent"),
    Row("osu_alltoallw", BLOCKING.format("host", "all-to-allw"), "one type for all ranks"),
    Row("osu_ialltoallw", OVERLAP.format("host", "all-to-allw"), "one type for all ranks"),
    Row("osu_alltoallw_persistent", BLOCKING.format("host/persistent", "all-to-allw"), "one type for all ranks"),
    *_neighbors("osu_neighbor_{}", RING),
    *_neighbors("osu_ineighbor_{}", OVERLAP),
    Row("osu_init", "volley transports --ranks 8 --launches 8", "MPI_Init of the first rank, and the other steps"),
    Row("osu_hello", "volley transports --ranks 8 --launches 8", "the time of a whole launch: `--verbose`"),
    Row("osu_xccl_latency", LATENCY.format("nccl")),
    Row("osu_xccl_bw", STREAM.format("nccl")),
    Row("osu_xccl_bibw", "volley stream -t nccl --direction bi"),
    *(
        Row(f"osu_xccl_{name}", BLOCKING.format("nccl", OF_MPI[name]))
        for name in ("allgather", "allreduce", "alltoall", "bcast", "reduce", "reduce_scatter")
    ),
    Row("osu_oshm_…, osu_upc_…, osu_upcxx_…", "", "of OpenSHMEM, UPC and UPC++ volley has NVSHMEM alone: `-t nvshmem`"),
    Row("-m, -i, -x", "volley pingpong -t host --sizes 1:4Mi --iterations 1000 --warmup 200", ITERATIONS),
    Row("-W, -V, -p", RATE.format("host") + " --window 32 --pairs 1,2", "one window size a run"),
    Row("-d cuda", LATENCY.format("aware"), "a GPU for each rank; no managed memory"),
    Row("-D cont, indx", "", "of derived datatypes volley has MPI_Type_vector"),
    Row("-T", "volley collective -t host --operation allreduce --element int", "of messages volley compares bytes"),
    Row("-l", "volley collective -t host --in-place", CHECKED),
    Row("-k", BLOCKING.format("host", "gather") + " --root 1"),
    Row("-b multiple", "volley pingpong -t host --cold-cache", "also stream and collective"),
    Row("-z", "volley pingpong -t host --tail"),
    Row("-c, -u", LATENCY.format("host"), "always; `--no-verify` leaves it out"),
    Row(
        "-f", BLOCKING.format("host", "allreduce"), "records have the mean over the ranks and the skew of their entries"
    ),
    Row("-G", LATENCY.format("host"), "then `volley report` makes a page with the curves"),
    Row(
        "-t, -r, -a",
        "volley overlap -t host --progress-calls 8",
        "with GPU memory the computation is on the GPU; volley chooses its size",
    ),
    Row("-s", LATENCY.format("host/put,host/put/pscw,host/put/fence"), "flush, PSCW, fence; no locks, no flush_local"),
    Row("-w", STREAM.format("host/put"), "windows of MPI_Win_allocate; in GPU memory of MPI_Win_create"),
    Row("-N cart:2:1, graph", "", "of neighborhoods volley has the ring"),
    Row("-I, -P, -M", "", "no MPI sessions, no counters of PAPI; volley asks the machine how much memory is free"),
)
IMB_NAMES = {name: name.capitalize() for name in OF_MPI}
IMB = (
    Row("PingPong", LATENCY.format("host"), "with `--sizes 0:4Mi` the empty message too"),
    Row(
        "PingPong -off_cache 32",
        "volley pingpong -t host --cold-cache",
        "also stream and collective; volley reads how large the cache is",
    ),
    Row("PingPing", "volley stream -t host --direction bi --window 1", "a message each way"),
    Row("Exchange", RING.format("host", "neighbor-all-to-all"), "one call in place of four messages"),
    Row("Sendrecv", PATTERN.format("ring --window 1"), "with an acknowledgement of each message"),
    Row("Uniband, Biband", RATE.format("host"), "one way; both ways: `volley stream --direction bi`"),
    *(Row(IMB_NAMES[name], BLOCKING.format("host", operation)) for name, operation in OF_MPI.items()),
    *(Row(f"I{name}_pure", BLOCKING.format("host/nonblocking", operation)) for name, operation in OF_MPI.items()),
    *_collectives("I{}", "host", OVERLAP),
    Row("Unidir_put, Unidir_get", STREAM.format("host/put,host/get")),
    Row("Bidir_put, Bidir_get", "volley stream -t host/put,host/get --direction bi"),
    Row("Accumulate, Get_accumulate", "volley stream -t host/put/accumulate,host/get/accumulate", OF_64),
    Row("Fetch_and_op", "volley stream -t host/get/fetch-and-op --sizes 8", OF_64),
    Row("Compare_and_swap", "volley stream -t host/get/compare-and-swap --sizes 8", OF_64),
    Row("PingPongMT", LATENCY.format("host,threads"), "each thread has a communicator and a core of its own"),
    Row("UniBandMT", "volley message-rate -t host,threads"),
    Row("BiBandMT, PingPingMT", "volley stream -t host,threads --direction bi", "PingPingMT: `--window 1`"),
    Row("SendRecvMT, ExchangeMT, BcastMT, … (other IMB-MT)", "", "only messages between two ranks are sent by threads"),
    Row("One_put_all, All_put_all, Exchange_put, … (other IMB-RMA)", "", "one-sided messages are between two ranks"),
    Row("-msglog, -msglen, -iter", "volley pingpong -t host --sizes 1:4Mi --iterations 1000", ITERATIONS),
    Row("-npmin", "volley collective -t host --ranks 8 --operation allreduce", "one number of ranks a run"),
    Row("-multi, -map", RATE.format("host"), "pairs at once; volley or its launcher places ranks"),
    Row("-time", "volley pingpong -t host --point-time 1"),
    Row("-root_shift", BLOCKING.format("host", "broadcast") + " --root 1", "one root a run"),
    Row("-sync, -imb_barrier", "volley collective -t host --tail", "a barrier before each operation"),
    Row("-data_type, -red_data_type", "volley collective -t host --operation reduce --element int", "float and int"),
    Row("-contig_type, -zero_size", LATENCY.format("vector"), f"{VECTOR}; `--sizes 0:4Mi` has the empty message"),
    Row("-mem_alloc_type device", LATENCY.format("aware")),
    Row("-window_size, -aggregate_mode", STREAM.format("host/put,host/put/blocking"), "many calls a flush, and one"),
    Row("-thread_level multiple", LATENCY.format("host,threads")),
    Row("-mem, -msg_pause", "", "volley asks the machine how much memory is free; it makes no pauses"),
)
NCCL = (
    Row("sendrecv_perf", "volley stream -t nccl --direction bi --window 1"),
    *(
        Row(f"{name}_perf", BLOCKING.format("nccl", operation))
        for name, operation in {
            "all_gather": "allgather",
            "all_reduce": "allreduce",
            "alltoall": "all-to-all",
            "alltoallv": "all-to-allv",
            "broadcast": "broadcast",
            "gather": "gather",
            "reduce": "reduce",
            "reduce_scatter": "reduce-scatter",
            "scatter": "scatter",
        }.items()
    ),
    Row(
        "hypercube_perf",
        "volley stream -t nccl --direction bi --window 1",
        "one of its steps, an exchange of two ranks; all of them give what allgather gives",
    ),
    Row("-d half, bfloat16, int32, fp8e4m3", "volley collective -t nccl --element bfloat16", "of NCCL alone"),
    Row("-r", BLOCKING.format("nccl", "broadcast") + " --root 1"),
    Row("-o max", "volley collective --operation allreduce --reduction max"),
    Row("-d of other types; -o min, prod, avg, mulsum", "", "no contents whose result is exact bit for bit are made"),
    Row("-b, -e, -i, -f", "volley collective -t nccl --sizes 8:1Gi:x2"),
    Row("-n, -w", "volley collective -t nccl --iterations 20 --warmup 5"),
    Row("-m", "volley stream -t nccl --window 20", "a window is one group; operations are not grouped"),
    Row("-I, -K", "volley collective -t nccl --tail"),
    Row("-N, -T", "volley collective -t nccl --launches 3 --watchdog 60"),
    Row(
        "-c, -a, -J, -S",
        "volley collective -t nccl -f json",
        "always checked; records have all samples and the mean of ranks",
    ),
    Row("-t, -g", "volley collective -t nccl --ranks 8", "one process a GPU"),
    Row("-R 1", BLOCKING.format("nccl/allocated", "allreduce"), "memory of ncclMemAlloc, not registered by volley"),
    Row("-R 2, -D", LATENCY.format("nccl/device"), "messages; no collectives of kernels"),
    Row("-x", "volley collective -t nccl", "with NCCL_CTA_POLICY in the environment, which the records keep"),
    Row(
        "-z, -y, -p, -V, -u, -C, -M",
        "",
        "volley always waits for a stream of its own, and begins at lines of GPU memory",
    ),
    Row("-G", "", "each sample ends with a message of its own, which a graph has not"),
    Row("in place", BLOCKING.format("nccl", "allreduce") + " --in-place", "one operation a wait"),
)
NVBANDWIDTH = (
    Row("device_to_device_memcpy_write_ce, …_read_ce", "volley matrix --section uni"),
    Row("device_to_device_bidirectional_memcpy_*_ce", "volley matrix --section bi"),
    Row("device_to_device_memcpy_*_sm", "volley matrix --section uni/kernel,bi/kernel"),
    Row("device_to_device_latency_sm", "volley matrix --section load"),
    Row("host_to_device_memcpy_ce, device_to_host_memcpy_ce", "volley matrix --section host-to-gpu,gpu-to-host"),
    Row("all_to_one", BLOCKING.format("nccl", "gather"), "NCCL's kernels in place of copy engines"),
    Row("one_to_all", BLOCKING.format("nccl", "scatter"), "NCCL's kernels in place of copy engines"),
    Row("device_local_copy", "volley matrix --section uni", "the cells of one GPU"),
    Row(
        "host_to_device_memcpy_sm, device_to_host_memcpy_sm",
        "volley matrix --section host-to-gpu/kernel,gpu-to-host/kernel",
    ),
    Row(
        "host_to_device_bidirectional_*, device_to_host_bidirectional_*",
        "volley matrix --section bi/host,bi/host/kernel",
        "both ways together, in place of one of them",
    ),
    Row("host_device_latency_sm", "volley matrix --section load/host"),
    Row(
        "all_to_host, host_to_all",
        "volley matrix --section gpu-to-host/all,host-to-gpu/all,bi/host/all",
        "by copy engines alone",
    ),
    Row("multinode_*", "", "the memory of a GPU is mapped within one node only"),
    Row("--testcase, --testSamples", "volley matrix --section uni,bi --samples", "until the interval is narrow enough"),
    Row("--json, --useMean", "volley matrix -f json", "records have all samples"),
    Row("--skipVerification", "volley matrix --no-verify"),
    Row("--bufferSize, --disableAffinity", "", "volley chooses the buffer, and runs near the GPU that drives"),
)
SUITES = {
    "OSU micro-benchmarks 7.5": OSU,
    "Intel MPI Benchmarks 2021 (MPI1, P2P, NBC, RMA, MT)": IMB,
    "nccl-tests 2.19": NCCL,
    "nvbandwidth 0.9": NVBANDWIDTH,
}


def page() -> Iterator[str]:
    yield "# Programs of others, and the same with volley"
    yield ""
    yield "`D D` and `-d cuda` of OSU: write `aware` in place of `host`. A command measures several sizes in"
    yield "several launches, verifies what arrived, and says how certain it is."
    yield "[volley beside other programs](peers.md) has the numbers of both."
    for suite, rows in SUITES.items():
        yield from ("", f"## {suite}", "", "| program | volley | |", "| --- | --- | --- |")
        for row in rows:
            command = f"`{row.command}`" if row.command else "not measured"
            yield f"| {row.program} | {command} | {row.note} |"
