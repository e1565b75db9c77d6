// Records the MPI calls of an application: a library for LD_PRELOAD, for every MPI (docs/trace.md).
//
// It needs no mpi.h. A handle is a word; what differs between the binary interfaces of MPIs (width of a handle, layout of
// a status, a few constants) follows from the library that has PMPI_Send. Each call of the table below is exported as
// MPI_name, and as PMPI_name too, because the Fortran layer of Open MPI calls PMPI_; a thread-local mark tells calls of
// the application from those that MPI itself makes.
//
// Each rank writes a file of its own, mapped into memory and shared: the kernel keeps it whatever ends the process. A
// call is in the file before it begins. src/volley/records/trace_file.py reads it and has the same structures. Copies
// between host and GPU memory are in a second file, which a rank has from its first copy on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <x86intrin.h>
#endif

// --------------------------------------------------------------------------------------------- the table of calls
// clang-format off

// X(name, kind, where the arguments are, counted from 1).
//   SEND, RECV: blocking. ISEND, IRECV: with a request. INIT: a persistent request. SENDRECV: both.
//   WAIT: `request` is one, or an array of `count`. TEST: the same, and `flag` says if it is done. Of some or any,
//   `index` says which ones are done.
//   COLL, ICOLL: `counts` means a vector of counts, `types` one of types.
//   MAKER: makes a communicator.
//   SIZED: there is a second one for large counts, MPI_name_c; where the MPI has none, its arguments fit the first one.
// The others are names that every MPI since 3.1 has: some programs look whether a name is there.
#define P2P  .buffer = 1, .count = 2, .type = 3, .peer = 4, .tag = 5, .comm = 6
#define ALIKE .buffer = 1, .buffer2 = 2, .count = 3, .type = 4
#define BOTH(S, R) .buffer = 1, .count = 2, .type = S, .buffer2 = S + 1, .count2 = S + 2, .type2 = R
#define SIZED(X, name, ...) X(name, __VA_ARGS__) X(name##_c, __VA_ARGS__, .large = 1)
#define PAIRED_SIZED(X, K, name, last, ...) \
  SIZED(X, name, COLL, __VA_ARGS__) SIZED(X, I##K, ICOLL, __VA_ARGS__, .request = last)
#define PAIRED(X, K, name, last, ...) X(name, COLL, __VA_ARGS__) X(I##K, ICOLL, __VA_ARGS__, .request = last)
#define TIMED(X) \
  SIZED(X, Send, SEND, P2P) SIZED(X, Bsend, SEND, P2P) SIZED(X, Ssend, SEND, P2P) SIZED(X, Rsend, SEND, P2P) \
  SIZED(X, Isend, ISEND, P2P, .request = 7) SIZED(X, Ibsend, ISEND, P2P, .request = 7) \
  SIZED(X, Issend, ISEND, P2P, .request = 7) SIZED(X, Irsend, ISEND, P2P, .request = 7) \
  SIZED(X, Recv, RECV, P2P, .source = 1, .status = 7) SIZED(X, Irecv, IRECV, P2P, .source = 1, .request = 7) \
  SIZED(X, Sendrecv, SENDRECV, .buffer = 1, .count = 2, .type = 3, .peer = 4, .tag = 5, .buffer2 = 6, .count2 = 7, \
    .type2 = 8, .peer2 = 9, .tag2 = 10, .comm = 11, .status = 12) \
  SIZED(X, Sendrecv_replace, SENDRECV, .buffer = 1, .count = 2, .type = 3, .peer = 4, .tag = 5, .buffer2 = 1, \
    .count2 = 2, .type2 = 3, .peer2 = 6, .tag2 = 7, .comm = 8, .status = 9) \
  SIZED(X, Send_init, INIT, P2P, .request = 7) SIZED(X, Bsend_init, INIT, P2P, .request = 7) \
  SIZED(X, Ssend_init, INIT, P2P, .request = 7) SIZED(X, Rsend_init, INIT, P2P, .request = 7) \
  SIZED(X, Recv_init, INIT, P2P, .source = 1, .request = 7) X(Start, START, .request = 1) \
  X(Startall, START, .count = 1, .request = 2) X(Cancel, START, .request = 1) \
  X(Request_free, START, .request = 1) \
  X(Wait, WAIT, .request = 1, .status = 2) X(Waitall, WAIT, .count = 1, .request = 2, .status = 3) \
  X(Waitany, WAIT, .count = 1, .request = 2, .index = 3, .status = 4) \
  X(Waitsome, WAIT, .count = 1, .request = 2, .some = 3, .index = 4, .status = 5) \
  X(Test, TEST, .request = 1, .flag = 2, .status = 3) \
  X(Testall, TEST, .count = 1, .request = 2, .flag = 3, .status = 4) \
  X(Testany, TEST, .count = 1, .request = 2, .index = 3, .flag = 4, .status = 5) \
  X(Testsome, TEST, .count = 1, .request = 2, .some = 3, .index = 4, .status = 5) \
  X(Probe, PROBE, .source = 1, .peer = 1, .tag = 2, .comm = 3, .status = 4) \
  X(Iprobe, PROBE, .source = 1, .peer = 1, .tag = 2, .comm = 3, .flag = 4, .status = 5) \
  X(Mprobe, PROBE, .source = 1, .peer = 1, .tag = 2, .comm = 3, .request = 4, .status = 5) \
  X(Improbe, PROBE, .source = 1, .peer = 1, .tag = 2, .comm = 3, .flag = 4, .request = 5, .status = 6) \
  SIZED(X, Mrecv, MRECV, .buffer = 1, .count = 2, .type = 3, .message = 4, .status = 5) \
  SIZED(X, Imrecv, MRECV, .buffer = 1, .count = 2, .type = 3, .message = 4, .request = 5) \
  X(Barrier, COLL, .comm = 1) X(Ibarrier, ICOLL, .comm = 1, .request = 2) \
  PAIRED_SIZED(X, bcast, Bcast, 6, .buffer = 1, .count = 2, .type = 3, .peer = 4, .comm = 5) \
  PAIRED_SIZED(X, reduce, Reduce, 8, ALIKE, .peer = 6, .comm = 7) \
  PAIRED_SIZED(X, allreduce, Allreduce, 7, ALIKE, .comm = 6) \
  PAIRED_SIZED(X, gather, Gather, 9, .gathers = 1, BOTH(3, 6), .peer = 7, .comm = 8) \
  PAIRED_SIZED(X, scatter, Scatter, 9, BOTH(3, 6), .peer = 7, .comm = 8) \
  PAIRED_SIZED(X, allgather, Allgather, 8, BOTH(3, 6), .comm = 7) \
  PAIRED_SIZED(X, alltoall, Alltoall, 8, BOTH(3, 6), .comm = 7) \
  PAIRED(X, gatherv, Gatherv, 10, .gathers = 1, BOTH(3, 7), .counts2 = 1, .peer = 8, .comm = 9) \
  PAIRED(X, scatterv, Scatterv, 10, .buffer = 1, .count = 2, .counts = 1, .type = 4, .buffer2 = 5, .count2 = 6, \
    .type2 = 7, .peer = 8, .comm = 9) \
  PAIRED(X, allgatherv, Allgatherv, 9, BOTH(3, 7), .counts2 = 1, .comm = 8) \
  PAIRED(X, alltoallv, Alltoallv, 10, .buffer = 1, .count = 2, .counts = 1, .type = 4, .buffer2 = 5, .count2 = 6, \
    .counts2 = 1, .type2 = 8, .comm = 9) \
  PAIRED(X, alltoallw, Alltoallw, 10, .buffer = 1, .count = 2, .counts = 1, .type = 4, .buffer2 = 5, .count2 = 6, \
    .counts2 = 1, .type2 = 8, .types = 1, .comm = 9) \
  PAIRED(X, reduce_scatter, Reduce_scatter, 7, ALIKE, .counts = 1, .comm = 6) \
  PAIRED_SIZED(X, reduce_scatter_block, Reduce_scatter_block, 7, ALIKE, .comm = 6) \
  PAIRED_SIZED(X, scan, Scan, 7, ALIKE, .comm = 6) PAIRED_SIZED(X, exscan, Exscan, 7, ALIKE, .comm = 6) \
  X(Comm_dup, MAKER, .comm = 1, .made = 2) X(Comm_idup, MAKER, .comm = 1, .made = 2) \
  X(Comm_dup_with_info, MAKER, .comm = 1, .made = 3) \
  X(Comm_split, MAKER, .comm = 1, .made = 4) X(Comm_split_type, MAKER, .comm = 1, .made = 5) \
  X(Comm_create, MAKER, .comm = 1, .made = 3) X(Comm_create_group, MAKER, .comm = 1, .made = 4) \
  X(Comm_create_from_group, MAKER, .made = 5) X(Intercomm_create_from_groups, MAKER, .made = 8) \
  X(Cart_create, MAKER, .comm = 1, .made = 6) X(Cart_sub, MAKER, .comm = 1, .made = 3) \
  X(Graph_create, MAKER, .comm = 1, .made = 6) X(Dist_graph_create, MAKER, .comm = 1, .made = 9) \
  X(Dist_graph_create_adjacent, MAKER, .comm = 1, .made = 10) X(Intercomm_create, MAKER, .made = 6) \
  X(Intercomm_merge, MAKER, .made = 3) \
  X(Comm_free, FREE, .request = 1) X(Comm_disconnect, FREE, .request = 1) X(Type_free, TYPE_FREE) \
  OTHERS(X)
#define OTHERS(X) \
  X(Finalize) X(Abort) X(Accumulate) X(Comm_accept) X(Comm_connect) X(Comm_join) X(Comm_spawn) \
  X(Comm_spawn_multiple) X(Compare_and_swap) X(Fetch_and_op) X(File_close) X(File_iread) X(File_iread_all) \
  X(File_iread_at) X(File_iread_at_all) X(File_iread_shared) X(File_iwrite) X(File_iwrite_all) X(File_iwrite_at) \
  X(File_iwrite_at_all) X(File_iwrite_shared) X(File_open) X(File_preallocate) X(File_read) X(File_read_all) \
  X(File_read_all_begin) X(File_read_all_end) X(File_read_at) X(File_read_at_all) X(File_read_at_all_begin) \
  X(File_read_at_all_end) X(File_read_ordered) X(File_read_ordered_begin) X(File_read_ordered_end) \
  X(File_read_shared) X(File_seek) X(File_seek_shared) X(File_set_size) X(File_set_view) X(File_sync) X(File_write) \
  X(File_write_all) X(File_write_all_begin) X(File_write_all_end) X(File_write_at) X(File_write_at_all) \
  X(File_write_at_all_begin) X(File_write_at_all_end) X(File_write_ordered) X(File_write_ordered_begin) \
  X(File_write_ordered_end) X(File_write_shared) X(Get) X(Get_accumulate) X(Ineighbor_allgather) \
  X(Ineighbor_allgatherv) X(Ineighbor_alltoall) X(Ineighbor_alltoallv) X(Ineighbor_alltoallw) X(Neighbor_allgather) \
  X(Neighbor_allgatherv) X(Neighbor_alltoall) X(Neighbor_alltoallv) X(Neighbor_alltoallw) X(Put) X(Raccumulate) \
  X(Rget) X(Rget_accumulate) X(Rput) X(Win_allocate) X(Win_allocate_shared) X(Win_complete) X(Win_create) \
  X(Win_create_dynamic) X(Win_fence) X(Win_flush) X(Win_flush_all) X(Win_flush_local) X(Win_flush_local_all) \
  X(Win_free) X(Win_lock) X(Win_lock_all) X(Win_post) X(Win_start) X(Win_sync) X(Win_test) X(Win_unlock) \
  X(Win_unlock_all) X(Win_wait)
// Counted, not timed.
#define LOCALS(X) \
  X(Add_error_class) X(Add_error_code) X(Add_error_string) X(Alloc_mem) X(Attr_delete) X(Attr_get) X(Attr_put) \
  X(Buffer_attach) X(Buffer_detach) X(Cart_coords) X(Cart_get) X(Cart_map) X(Cart_rank) X(Cart_shift) X(Cartdim_get) \
  X(Close_port) X(Comm_call_errhandler) X(Comm_compare) X(Comm_create_errhandler) X(Comm_create_keyval) \
  X(Comm_delete_attr) X(Comm_free_keyval) X(Comm_get_attr) X(Comm_get_errhandler) X(Comm_get_info) X(Comm_get_name) \
  X(Comm_get_parent) X(Comm_group) X(Comm_rank) X(Comm_remote_group) X(Comm_remote_size) X(Comm_set_attr) \
  X(Comm_set_errhandler) X(Comm_set_info) X(Comm_set_name) X(Comm_size) X(Comm_test_inter) X(Dims_create) \
  X(Dist_graph_neighbors) X(Dist_graph_neighbors_count) X(Errhandler_free) X(Error_class) X(Error_string) \
  X(File_call_errhandler) X(File_create_errhandler) X(File_delete) X(File_get_amode) X(File_get_atomicity) \
  X(File_get_byte_offset) X(File_get_errhandler) X(File_get_group) X(File_get_info) X(File_get_position) \
  X(File_get_position_shared) X(File_get_size) X(File_get_type_extent) X(File_get_view) X(File_set_atomicity) \
  X(File_set_errhandler) X(File_set_info) X(Free_mem) X(Get_address) X(Get_count) X(Get_elements) X(Get_elements_x) \
  X(Get_library_version) X(Get_processor_name) X(Get_version) X(Graph_get) X(Graph_map) X(Graph_neighbors) \
  X(Graph_neighbors_count) X(Graphdims_get) X(Grequest_complete) X(Grequest_start) X(Group_compare) \
  X(Group_difference) X(Group_excl) X(Group_free) X(Group_incl) X(Group_intersection) X(Group_range_excl) \
  X(Group_range_incl) X(Group_rank) X(Group_size) X(Group_translate_ranks) X(Group_union) X(Info_create) \
  X(Info_delete) X(Info_dup) X(Info_free) X(Info_get) X(Info_get_nkeys) X(Info_get_nthkey) X(Info_get_valuelen) \
  X(Info_set) X(Is_thread_main) X(Keyval_create) X(Keyval_free) X(Lookup_name) X(Op_commutative) X(Op_create) \
  X(Op_free) X(Open_port) X(Pack) X(Pack_external) X(Pack_external_size) X(Pack_size) X(Publish_name) X(Query_thread) \
  X(Reduce_local) X(Register_datarep) X(Request_get_status) X(Status_set_cancelled) X(Status_set_elements) \
  X(Status_set_elements_x) X(Test_cancelled) X(Topo_test) X(Type_commit) X(Type_contiguous) X(Type_create_darray) \
  X(Type_create_f90_complex) X(Type_create_f90_integer) X(Type_create_f90_real) X(Type_create_hindexed) \
  X(Type_create_hindexed_block) X(Type_create_hvector) X(Type_create_indexed_block) X(Type_create_keyval) \
  X(Type_create_resized) X(Type_create_struct) X(Type_create_subarray) X(Type_delete_attr) X(Type_dup) \
  X(Type_free_keyval) X(Type_get_attr) X(Type_get_contents) X(Type_get_envelope) X(Type_get_extent) \
  X(Type_get_extent_x) X(Type_get_name) X(Type_get_true_extent) X(Type_get_true_extent_x) X(Type_indexed) \
  X(Type_match_size) X(Type_set_attr) X(Type_set_name) X(Type_size) X(Type_size_x) X(Type_vector) X(Unpack) \
  X(Unpack_external) X(Unpublish_name) X(Win_attach) X(Win_call_errhandler) X(Win_create_errhandler) \
  X(Win_create_keyval) X(Win_delete_attr) X(Win_detach) X(Win_free_keyval) X(Win_get_attr) X(Win_get_errhandler) \
  X(Win_get_group) X(Win_get_info) X(Win_get_name) X(Win_set_attr) X(Win_set_errhandler) X(Win_set_info) \
  X(Win_set_name) X(Win_shared_query)
// clang-format on

enum kind { OTHER, SEND, RECV, ISEND, IRECV, SENDRECV, INIT, START, WAIT, TEST, PROBE, MRECV, COLL, ICOLL, MAKER, FREE,
            TYPE_FREE, LOCAL };

struct row {
  const char* name;
  uint8_t kind;
  uint8_t buffer, count, counts, type, peer, tag, comm, request, status;
  uint8_t buffer2, count2, counts2, type2, peer2, tag2, types;
  uint8_t flag, index, some, message, made;
  bool large, source, gathers;  // counts are words; `peer` is a source; the root receives
};

#define ROW(name, ...) {#name, ##__VA_ARGS__},
#define LOCAL_ROW(name) {#name, LOCAL},
static const struct row rows[] = {TIMED(ROW) LOCALS(LOCAL_ROW)};
#define NUMBER(name, ...) ID_##name,
enum { TIMED(NUMBER) LOCALS(NUMBER) CALL_COUNT };

// ------------------------------------------------------------------------------------------------------ the file

enum { VERSION = 1, THREADS = 64, MOST_COMMS = 4096, SIZES = 48, PAGE = 4096 };
enum { DEVICE = 1, DEVICE2 = 2, IN_PLACE = 4, MATCHED = 16, FAILED = 32, LIST_LOST = 64, FULL = 128 };
enum { INITIALISING, RUNNING, FINALIZED };
enum { ANY = -1, NOBODY = -2, NO_PEER = -3 };  // as `peer` and `tag`, whatever the MPI

struct event {
  uint64_t begin, end;       // ticks; an end of 0: the rank is inside
  uint64_t buffer, buffer2;  // addresses; buffer2 is the request of a call that makes or names one
  uint64_t bytes;            // of one message, or what this rank gives to a collective
  uint32_t list, length;     // words that do not fit here
  int32_t peer, tag;         // the peer's rank in the communicator
  uint16_t comm, call;
  uint8_t thread, flags, element, spare;  // element: bytes of one element of the type
};

struct thread {
  uint64_t current;  // the event in which it is: 0: outside MPI; 1: the one below; else its number + 2
  uint64_t since;    // when it left MPI
  uint64_t polls, polls_since;  // unsuccessful Test and Iprobe since the last other call
  uint32_t last, id;            // the call that it left; the kernel's number of the thread
  uint64_t spare[3];
  struct event event;
};

struct count {  // here and below, what is spare was a field of older recorders
  uint64_t calls, ticks, spare, bytes, on_device, polls;
  uint64_t sizes[SIZES];  // messages of 2^(i-1) to 2^i - 1 bytes
};

struct partner {
  uint64_t sent, sent_bytes, spare, spare2;
};

struct sample {  // of a thread, at the begin or the end of a call, about every 10 ms
  uint64_t at, spare, delay_ns;  // delay: ready to run, but without a core (Linux, schedstat)
  uint32_t thread, spare2;
};

struct comm {
  uint32_t id, size, list, flags;  // list: its members as ranks in MPI_COMM_WORLD; flags: 1: all; 2: two groups
};

struct header {
  char magic[8];
  uint32_t version, state;
  int32_t rank, size, pid;
  uint32_t ticks_are_ns;
  uint64_t tick0, ns0, tick1, ns1;  // of CLOCK_REALTIME; the second pair is renewed
  uint64_t events, dropped, words, samples, comms, partners, threads;  // how many there are
  uint64_t most_events, most_words, most_samples;
  uint64_t at_names, at_counts, at_threads, at_comms, at_samples, at_words, at_events, at_partners;
  char host[64], boot[40], library[256];
  char mpi[128];    // the first line of MPI_Get_library_version
  uint8_t gpu[16];  // the UUID of the GPU that the rank uses; zeros: unknown, or none
};
_Static_assert(sizeof(struct event) == 64 && sizeof(struct thread) == 128 && sizeof(struct header) <= PAGE, "layout");

static struct header* header;
static struct count* counts;
static struct thread* threads;
static struct comm* comms;
static struct sample* samples;
static uint64_t* words;
static struct event* events;
static struct partner* partners;
static bool recording;

// ------------------------------------------------------------------------------------------------- the MPI library

typedef intptr_t Word;
#define HIDDEN __attribute__((visibility("hidden")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

// What differs between binary interfaces.
static struct abi {
  bool ints;                        // handles are ints
  int status_bytes, status_source;  // the tag follows the source
  Word ignore, in_place, world;
  int any_source, any_tag, nobody;
} abi;

static void* library;
static Word (*functions[CALL_COUNT])();

static int look(struct dl_phdr_info* info, size_t size, void* found) {
  (void)size;
  if (info->dlpi_name == NULL || info->dlpi_name[0] != '/') return 0;
  void* const handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == NULL) return 0;
  Dl_info mine, its;
  void* const symbol = dlsym(handle, "PMPI_Send");
  // A library that only uses MPI finds the same symbol in the MPI library.
  if (symbol != NULL && dladdr((void*)rows, &mine) && dladdr(symbol, &its) && its.dli_fbase != mine.dli_fbase) {
    *(void**)found = dlopen(its.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }
  dlclose(handle);
  return *(void**)found != NULL;
}

static void* symbol_of_mpi(const char* name) {
  if (library == NULL) dl_iterate_phdr(look, &library);
  return library == NULL ? NULL : dlsym(library, name);
}

static Word (*function(int id))() {
  if (LIKELY(functions[id] != NULL)) return functions[id];
  char name[64];
  snprintf(name, sizeof name, "PMPI_%s", rows[id].name);
  functions[id] = (Word(*)())symbol_of_mpi(name);
  if (functions[id] == NULL && rows[id].large) {
    name[strlen(name) - strlen("_c")] = 0;
    functions[id] = (Word(*)())symbol_of_mpi(name);
  }
  if (functions[id] == NULL) {
    fprintf(stderr, "volley: the MPI library has no %s; run the program without volley record\n", name);
    abort();
  }
  return functions[id];
}

static void know_interface(void) {
  Dl_info its;
  const bool known = dladdr(symbol_of_mpi("PMPI_Send"), &its) != 0;
  const char* const file = known && strrchr(its.dli_fname, '/') ? strrchr(its.dli_fname, '/') + 1 : "";
  snprintf(header->library, sizeof header->library, "%s", known ? its.dli_fname : "");
  static char version[8192];  // MPI_MAX_LIBRARY_VERSION_STRING of MPICH; others have less
  int length = 0;
  int (*const ask)(char*, int*) = (int (*)(char*, int*))symbol_of_mpi("PMPI_Get_library_version");  // MPI 3
  if (ask != NULL && ask(version, &length) == 0) {
    version[strcspn(version, "\n")] = 0;
    snprintf(header->mpi, sizeof header->mpi, "%.*s", (int)sizeof header->mpi - 1, version);
  }
  if (symbol_of_mpi("ompi_mpi_comm_world") != NULL) {
    // The linker copies the object into the executable: the copy is the one that is used.
    void* const copy = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world");
    const Word world = (Word)(copy != NULL ? copy : symbol_of_mpi("ompi_mpi_comm_world"));
    abi = (struct abi){.status_bytes = 24, .in_place = 1, .world = world, .any_source = -1, .any_tag = -1, .nobody = -2};
  } else if (strncmp(file, "libmpi_abi", 10) == 0) {
    abi = (struct abi){.status_bytes = 32, .in_place = 1, .world = 0x101, .any_source = -1, .any_tag = -2, .nobody = -3};
  } else {  // MPICH and what has its interface
    abi = (struct abi){.ints = true, .status_bytes = 20, .status_source = 2, .ignore = 1, .in_place = -1,
                       .world = 0x44000000, .any_source = -2, .any_tag = -1, .nobody = -1};
  }
}

static Word handle_in(Word word) { return abi.ints ? (Word)(uint32_t)word : word; }
static Word handle_at(Word array, int i) {
  return abi.ints ? (Word)((const uint32_t*)array)[i] : ((const Word*)array)[i];
}

// ----------------------------------------------------------------------------------------------------- the clocks

static uint64_t now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool ticks_are_ns;

static inline uint64_t ticks(void) {
#if defined __x86_64__
  if (LIKELY(!ticks_are_ns)) return __rdtsc();
#elif defined __aarch64__
  uint64_t t;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
  return t;
#endif
  return now_ns(CLOCK_MONOTONIC);
}

static void know_clock(void) {
#if defined __x86_64__  // the counter of all cores alike, whatever their frequency (Intel SDM 3B, 18.17.1)
  unsigned a, b, c, d = 0;
  ticks_are_ns = !__get_cpuid(0x80000007, &a, &b, &c, &d) || (d & 1u << 8) == 0;
#elif !defined __aarch64__
  ticks_are_ns = true;
#endif
  header->ticks_are_ns = ticks_are_ns;
}

static void compare_clocks(uint64_t* tick, uint64_t* ns) {
  *tick = ticks();
  *ns = now_ns(CLOCK_REALTIME);
}

// ------------------------------------------------------------------------------------------------ threads and locks

static __thread __attribute__((tls_model("initial-exec"))) bool inside;  // MPI calls its own functions
static __thread __attribute__((tls_model("initial-exec"))) struct {
  struct thread* slot;
  int schedstat, number;
  uint64_t sampled;
  uint64_t* handles;  // of a Wait or a Test with several requests
  char* statuses;
  int room;
} mine;

static bool several;  // threads call MPI at the same time
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sample_every;  // ticks

static pthread_key_t at_thread_end;

static void leave_thread(void* its) {
  (void)its;
  if (mine.schedstat >= 0) close(mine.schedstat);
  free(mine.handles);
  free(mine.statuses);
  mine.schedstat = -1;  // other destructors may call MPI
  mine.handles = NULL;
  mine.statuses = NULL;
  mine.room = 0;
}

static void enter_thread(void) {
  const uint64_t n = header->threads < THREADS ? header->threads++ : THREADS - 1;
  mine.number = (int)n;
  mine.slot = &threads[n];
  mine.slot->id = (uint32_t)syscall(SYS_gettid);
  mine.schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  pthread_setspecific(at_thread_end, &mine);
}

// Functions of the CUDA driver API, if the program has loaded it; those of the GPU until it is known.
static int (*attribute)(void*, int, uint64_t);  // cuPointerGetAttribute
static int (*current_gpu)(int*);                // cuCtxGetDevice
static int (*uuid_of)(uint8_t*, int);           // cuDeviceGetUuid

static int number_of_libraries(struct dl_phdr_info* info, size_t size, void* number) {
  (void)size;
  *(unsigned long long*)number = info->dlpi_adds;
  return 1;
}

// A program that loads the CUDA driver takes longer for it than there is between two samples.
static void look_for_cuda(void) {
  static unsigned long long loaded;
  unsigned long long now = 0;
  dl_iterate_phdr(number_of_libraries, &now);
  if (attribute != NULL || now == loaded) return;
  loaded = now;
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == NULL) return;
  attribute = (int (*)(void*, int, uint64_t))dlsym(driver, "cuPointerGetAttribute");
  uuid_of = (int (*)(uint8_t*, int))dlsym(driver, "cuDeviceGetUuid");
  if (uuid_of != NULL) current_gpu = (int (*)(int*))dlsym(driver, "cuCtxGetDevice");
}

static void sample(uint64_t at) {
  mine.sampled = at;
  look_for_cuda();
  if (header->samples >= header->most_samples) return;
  struct sample* const s = &samples[header->samples++];
  char text[96];
  const ssize_t length = mine.schedstat < 0 ? -1 : pread(mine.schedstat, text, sizeof text - 1, 0);
  s->delay_ns = 0;
  if (length > 0) {
    text[length] = 0;
    const char* const second = strchr(text, ' ');
    if (second != NULL) s->delay_ns = strtoull(second, NULL, 10);
  }
  s->thread = (uint32_t)mine.number;
  s->at = at;
  if (header->samples % 16 == 0) compare_clocks(&header->tick1, &header->ns1);
}

// -------------------------------------------------------------------------------- communicators, types and buffers

struct known {
  Word handle;
  uint16_t id;
  uint32_t size;
  int* members;  // NULL: two groups, or no memory
};
enum { FREED = -1 };                    // as a handle
static struct known known[MOST_COMMS];  // by hash
static struct known* last_comm = known;

static uint32_t hash(Word word) { return (uint32_t)((uint64_t)word * 0x9e3779b97f4a7c15u >> 40); }

static uint32_t keep_words(const uint64_t* from, uint32_t n) {
  if (header->words + n > header->most_words) return UINT32_MAX;
  const uint32_t at = (uint32_t)header->words;
  if (from != NULL) memcpy(words + at, from, n * sizeof *from);
  header->words += n;
  return at;
}

#define CALL_MPI(name, ...) ((int (*)())symbol_of_mpi("PMPI_" #name))(__VA_ARGS__)

static int* members_of(Word comm, int size) {
  int* const ranks = calloc(2 * (size_t)size, sizeof(int));
  if (ranks == NULL) return NULL;
  Word group = 0, world = 0;
  CALL_MPI(Comm_group, comm, &group);
  CALL_MPI(Comm_group, abi.world, &world);
  for (int i = 0; i < size; ++i) ranks[size + i] = i;
  CALL_MPI(Group_translate_ranks, group, size, ranks + size, world, ranks);
  CALL_MPI(Group_free, &group);
  CALL_MPI(Group_free, &world);
  return ranks;
}

// It has the members of `like`.
static void describe_comm(struct known* its, Word like) {
  struct comm* const entry = &comms[its->id];
  int size = 0, inter = 0;
  CALL_MPI(Comm_size, like, &size);
  CALL_MPI(Comm_test_inter, like, &inter);
  its->members = inter ? NULL : members_of(like, size);
  its->size = (uint32_t)size;
  bool all = size == header->size && its->members != NULL;
  for (int i = 0; all && i < size; ++i) all = its->members[i] == i;
  entry->id = its->id;
  entry->size = its->size;
  entry->flags = (all ? 1u : 0) | (inter ? 2u : 0);
  entry->list = all || its->members == NULL ? 0 : keep_words(NULL, its->size);
  if (!all && its->members != NULL && entry->list != UINT32_MAX)
    for (int i = 0; i < size; ++i) words[entry->list + (uint32_t)i] = (uint64_t)its->members[i];
}

// Where a communicator is, or can be put. One that was freed leaves its place to another, which others may follow.
static struct known* place_of(Word handle) {
  struct known* its = &known[hash(handle) % MOST_COMMS];
  struct known* freed = NULL;
  for (; its->handle != 0 && its->handle != handle; its = its == known + MOST_COMMS - 1 ? known : its + 1)
    if (its->handle == FREED && freed == NULL) freed = its;
  return its->handle == 0 && freed != NULL ? freed : its;
}

// The communicator of a handle. It is new where `like` is not 0, and where nobody told of it.
static struct known* comm_of(Word handle, Word like) {
  if (LIKELY(last_comm->handle == handle && !like)) return last_comm;
  struct known* const its = place_of(handle);
  if (its->handle != handle || like) {
    if (header->comms + 1 >= MOST_COMMS) {  // one place stays empty for the hash
      static struct known lost = {.id = UINT16_MAX};
      lost.handle = handle;
      return &lost;
    }
    free(its->members);
    its->handle = handle;
    its->id = (uint16_t)header->comms++;
    describe_comm(its, like ? like : handle);
  }
  return last_comm = its;
}

// Whether a handle is the null handle of its kind, of which MPI would complain.
static bool is_null(Word handle, const char* in_open_mpi, Word in_mpich, Word in_standard) {
  if (abi.status_bytes != 24) return handle == (abi.ints ? in_mpich : in_standard);
  return handle == (Word)dlsym(RTLD_DEFAULT, in_open_mpi) || handle == (Word)symbol_of_mpi(in_open_mpi);
}

static struct {
  Word type;
  int64_t bytes;
} sizes[256];

static int64_t size_of(Word type) {
  const uint32_t place = hash(type) % 256;
  if (sizes[place].type == type) return sizes[place].bytes;
  int bytes = 0;
  int64_t all = 0;
  // MPICH takes a null type with a count of 0.
  if (!is_null(type, "ompi_mpi_datatype_null", 0x0c000000, 0x200)) CALL_MPI(Type_size, type, &bytes);
  if (bytes < 0) CALL_MPI(Type_size_x, type, &all);  // MPI_UNDEFINED: more than an int can say
  sizes[place].type = type;
  return sizes[place].bytes = bytes < 0 ? all : bytes;
}
static uint8_t element_of(int64_t bytes) { return (uint8_t)(bytes < 256 ? bytes : 0); }

static struct {
  uint64_t block;
  bool device;
} blocks[256];
// Whether an address is in GPU memory, as the CUDA driver says if the program has loaded one. Kept by blocks of 64 KiB.
static bool on_device(Word address) {
  const uint64_t block = (uint64_t)address >> 16, place = block % 256;
  if (LIKELY(blocks[place].block == block)) return blocks[place].device;
  if (attribute == NULL) return false;
  unsigned kind = 0;
  enum { MEMORY_TYPE = 2, ON_DEVICE = 2 };
  blocks[place].block = block;
  int gpu;
  if (current_gpu != NULL && current_gpu(&gpu) == 0) {
    uuid_of(header->gpu, gpu);
    current_gpu = NULL;
  }
  return blocks[place].device = attribute(&kind, MEMORY_TYPE, (uint64_t)address) == 0 && kind == ON_DEVICE;
}

// ------------------------------------------------------------------------------------------------------- one call

struct call {
  struct event* event;
  struct known* comm;
  Word* arguments;
  const struct row* row;
  int requests;     // of a Wait or a Test; handles and statuses are in `mine`
  Word statuses;    // where MPI writes them
  char status[64];  // one that the program does not want
};

static int peer_of(Word word, bool source) {
  const int peer = (int)word;
  return peer == abi.nobody ? NOBODY : source && peer == abi.any_source ? ANY : peer < 0 ? NO_PEER : peer;
}
static int tag_of(Word word) { return (int)word == abi.any_tag ? ANY : (int)word; }
#define ARGUMENT(field) (call->arguments[call->row->field - 1])

static uint64_t number(const struct call* call, int place) {
  const Word word = call->arguments[place - 1];
  return (uint64_t)(call->row->large ? word : (int)word);
}

static bool sees_wildcards;  // a receive from any source was posted: whoever completes it learns from whom

static void count_bytes(struct count* count, const struct event* e) {
  count->bytes += e->bytes;
  count->on_device += (e->flags & (DEVICE | DEVICE2)) != 0;
  const int log = e->bytes == 0 ? 0 : 64 - __builtin_clzll(e->bytes);
  ++count->sizes[log < SIZES ? log : SIZES - 1];
}

// The rank of a peer in MPI_COMM_WORLD; -1: there is none.
static int world_of(const struct call* call, int peer) {
  const struct known* const comm = call->comm;
  return peer < 0 || comm == NULL || comm->members == NULL || (uint32_t)peer >= comm->size ? -1 : comm->members[peer];
}

static void count_sent(int world, uint64_t bytes) {
  if (world < 0 || world >= header->size) return;
  ++partners[world].sent;
  partners[world].sent_bytes += bytes;
}

// What a persistent request sends or receives each time that it is started.
static struct persistent {
  Word handle;
  int world;   // to which it sends; -1: none
  bool freed;  // the handle may come again, as that of another kind of request
  struct event about;
} persistents[1024];  // by hash; those that find no place near it are not counted

static struct persistent* persistent_of(Word handle) {
  enum { ALL = sizeof persistents / sizeof *persistents, NEAR = 32 };  // a full table costs each start this much
  struct persistent* its = &persistents[hash(handle) % ALL];
  for (int i = 0; i < NEAR && its->handle != 0 && its->handle != handle; ++i)
    its = its == persistents + ALL - 1 ? persistents : its + 1;
  return its;
}

static void remember_persistent(const struct call* call) {
  const struct event* const e = call->event;
  struct persistent* const its = persistent_of((Word)e->buffer2);
  if (its->handle == 0 || its->handle == (Word)e->buffer2)
    *its = (struct persistent){(Word)e->buffer2, call->row->source ? -1 : world_of(call, e->peer), false, *e};
}

// Those that MPI_Start, MPI_Startall or MPI_Request_free names.
static void look_at_persistent(const struct call* call, struct count* count) {
  for (int i = 0; i < call->requests; ++i) {
    struct persistent* const its = persistent_of((Word)mine.handles[i]);
    if (its->handle == 0 || its->handle != (Word)mine.handles[i]) continue;
    its->freed |= call->row == &rows[ID_Request_free];
    if (its->freed) continue;
    count_bytes(count, &its->about);
    count_sent(its->world, its->about.bytes);
  }
}

// Adds words to the list of an event; returns where they are, or UINT32_MAX if they have no room.
static uint32_t remember_list(struct event* e, const uint64_t* from, uint32_t n) {
  const uint32_t at = e->flags & FULL ? UINT32_MAX : keep_words(from, n);
  if (at == UINT32_MAX) return e->flags |= LIST_LOST, at;
  if (e->length == 0) e->list = at;
  e->length += n;
  return at;
}

// The bytes to or from each rank: a list for a vector of counts. Returns their sum.
static uint64_t vector_of(struct event* e, const struct call* call, Word numbers, Word type, bool types) {
  const uint32_t n = call->comm->size, at = remember_list(e, NULL, n);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t bytes = (uint64_t)((const int*)numbers)[i] *
                           (uint64_t)size_of(types ? handle_at(type, (int)i) : handle_in(type));
    sum += bytes;
    if (at != UINT32_MAX) words[at + i] = bytes;
  }
  return sum;
}

static void describe_collective(struct event* e, const struct call* call) {
  const struct row* const row = call->row;
  int rank = -1;
  CALL_MPI(Comm_rank, call->comm->handle, &rank);
  const bool inter = call->comm->members == NULL;
  const bool root = row->peer == 0 || e->peer == (inter ? NO_PEER : rank);  // of two groups it says MPI_ROOT
  if (e->peer == NOBODY) return;                                            // the others of its group
  // Of the two counts only those are looked at that MPI looks at.
  const bool scatters = row->peer != 0 && row->count2 != 0 && !row->gathers, in_place = (e->flags & IN_PLACE) != 0;
  const bool unsent = (in_place && row->count2) || (inter && root && row->gathers);
  const bool first = row->count != 0 && (scatters ? root : !unsent);
  const bool second = row->count2 != 0 && (scatters ? !in_place : !row->gathers || root);
  if (first) {
    e->element = row->types ? 1 : element_of(size_of(handle_in(ARGUMENT(type))));
    e->bytes = row->counts && !inter
                   ? vector_of(e, call, ARGUMENT(count), ARGUMENT(type), row->types)
                   : (row->counts ? 0 : number(call, row->count) * (uint64_t)size_of(handle_in(ARGUMENT(type))));
  }
  if (second && !inter) {
    const uint64_t bytes = row->counts2 ? vector_of(e, call, ARGUMENT(count2), ARGUMENT(type2), row->types)
                                        : number(call, row->count2) * (uint64_t)size_of(handle_in(ARGUMENT(type2)));
    if (!first) e->bytes = bytes;
  }
}

// What is known of where a buffer is.
static uint8_t place_flags(Word address, bool may_be_in_place, uint8_t device) {
  if (address == abi.in_place && may_be_in_place) return IN_PLACE;
  return address != 0 && on_device(address) ? device : 0;
}

// Notes the requests, and gives a place for statuses where the program wants none but a source must be known.
static void look_at_requests(struct event* e, struct call* call) {
  const struct row* const row = call->row;
  const int n = row->count ? (int)ARGUMENT(count) : 1;
  call->requests = n;
  if (n > mine.room) {
    free(mine.handles);
    free(mine.statuses);
    mine.room = 2 * n;
    mine.handles = malloc((size_t)mine.room * sizeof *mine.handles);
    mine.statuses = malloc((size_t)mine.room * 32);
  }
  if (mine.handles == NULL || mine.statuses == NULL) {
    mine.room = call->requests = 0;
    return;
  }
  for (int i = 0; i < n; ++i) mine.handles[i] = (uint64_t)handle_at(ARGUMENT(request), i);
  if (n == 1) e->buffer2 = mine.handles[0];
  if (row->kind == WAIT) remember_list(e, mine.handles, (uint32_t)n);
  if (row->status == 0) return;
  call->statuses = ARGUMENT(status);
  if (call->statuses == abi.ignore && sees_wildcards) call->statuses = ARGUMENT(status) = (Word)mine.statuses;
}

static void describe(struct event* e, struct call* call) {
  const struct row* const row = call->row;
  if (row->comm) {
    call->comm = comm_of(handle_in(ARGUMENT(comm)), 0);
    e->comm = call->comm->id;
  }
  const bool source = row->source;
  if (row->peer) e->peer = peer_of(ARGUMENT(peer), source);
  if (row->tag) e->tag = tag_of(ARGUMENT(tag));
  if (row->buffer) {
    e->buffer = (uint64_t)ARGUMENT(buffer);
    e->flags |= place_flags(ARGUMENT(buffer), row->buffer2 != 0, DEVICE);
  }
  if (row->buffer2 && row->buffer2 != row->buffer) {
    e->buffer2 = (uint64_t)ARGUMENT(buffer2);
    e->flags |= place_flags(ARGUMENT(buffer2), true, DEVICE2);
  }
  if (row->kind == COLL || row->kind == ICOLL) {
    describe_collective(e, call);
  } else if (row->type) {
    const int64_t element = size_of(handle_in(ARGUMENT(type)));
    e->element = element_of(element);
    e->bytes = number(call, row->count) * (uint64_t)element;
  }
  if (row->kind == SENDRECV) {
    const uint64_t theirs = number(call, row->count2) * (uint64_t)size_of(handle_in(ARGUMENT(type2)));
    const int from = peer_of(ARGUMENT(peer2), true);
    const uint64_t list[] = {(uint64_t)from, (uint64_t)tag_of(ARGUMENT(tag2)), theirs};
    remember_list(e, list, 3);
  }
  if (row->message) {
    const uint64_t handle = e->buffer2 = (uint64_t)handle_at(ARGUMENT(message), 0);
    if (row->request) remember_list(e, &handle, 1);  // buffer2 will be the request
  }
  if (row->kind == WAIT || row->kind == TEST || row->kind == START) look_at_requests(e, call);
  if (row->kind == START) remember_list(e, mine.handles, (uint32_t)call->requests);
  if (row->kind == FREE) e->buffer2 = (uint64_t)handle_at(ARGUMENT(request), 0);
  const bool wild = (source && (e->peer == ANY || e->tag == ANY)) || row->kind == SENDRECV || row->kind == PROBE;
  if (wild) {
    if (row->kind == IRECV || row->kind == INIT) sees_wildcards = true;
    if (row->status && ARGUMENT(status) == abi.ignore) ARGUMENT(status) = (Word)call->status;
  }
}

static void begin(struct call* call, int id, Word* arguments) {
  inside = true;
  if (several) pthread_mutex_lock(&lock);
  if (mine.slot == NULL) enter_thread();
  const struct row* const row = &rows[id];
  call->row = row;
  call->arguments = arguments;
  call->comm = NULL;
  call->requests = 0;
  call->statuses = 0;
  const bool poll = row->flag != 0 || id == ID_Testsome;
  struct event* const scratch = &mine.slot->event;
  struct event* e = scratch;
  uint64_t current = 1;
  const bool full = header->events >= header->most_events;
  if (!poll && full) ++header->dropped;
  if (!poll && !full) {
    e = &events[header->events++];
    current = (uint64_t)(e - events) + 2;
  }
  *e = (struct event){.peer = NO_PEER, .tag = ANY, .call = (uint16_t)id, .comm = UINT16_MAX,
                      .thread = (uint8_t)mine.number, .flags = full ? FULL : 0};
  call->event = e;
  const uint64_t at = ticks();
  if (at - mine.sampled > sample_every) sample(at);
  describe(e, call);
  if (several) pthread_mutex_unlock(&lock);
  e->begin = ticks();
  __atomic_store_n(&mine.slot->current, current, __ATOMIC_RELEASE);
}

static void learn_source(struct call* call, const void* status) {
  const int* const its = (const int*)status + abi.status_source;
  struct event* const e = call->event;
  if (e->peer == ANY) e->peer = peer_of(its[0], true);
  if (e->tag == ANY) e->tag = its[1];
}

// Which requests are done, in the list of the event: their handles, then source and tag of each if they are known.
static void learn_requests(struct call* call) {
  const struct row* const row = call->row;
  struct event* const e = call->event;
  const int n = call->requests;
  int done = n;
  const int* which = NULL;
  if (row->some) {
    done = *(const int*)ARGUMENT(some);
    which = (const int*)ARGUMENT(index);
  } else if (row->index) {
    which = (const int*)ARGUMENT(index);
    done = *which >= 0 && *which < n;
  }
  if (done < 0) done = 0;  // MPI_UNDEFINED: no request is active
  const bool sources = sees_wildcards && call->statuses != abi.ignore && call->statuses != 0;
  const uint32_t size = (uint32_t)done * (sources ? 2 : 1);
  const bool fits = row->kind == WAIT && (e->flags & LIST_LOST) == 0 && size <= (uint32_t)n;
  const uint32_t at = fits ? e->list : e->flags & FULL ? UINT32_MAX : keep_words(NULL, size);
  e->length = 0;
  if (at == UINT32_MAX) {
    e->flags |= LIST_LOST;
    return;
  }
  for (int i = 0; i < done; ++i) {
    const int k = which != NULL ? which[i] : i;
    if (k < 0 || k >= n) continue;
    words[at + (uint32_t)i] = mine.handles[k];
    if (!sources) continue;
    const int place = row->some || which == NULL ? i : 0;
    const int* const its = (const int*)(call->statuses + (Word)place * abi.status_bytes) + abi.status_source;
    words[at + (uint32_t)(done + i)] = (uint64_t)(uint32_t)peer_of(its[0], true) << 32 | (uint32_t)its[1];
  }
  e->list = at;
  e->length = size;
  if (sources) e->flags |= MATCHED;
}

static bool is_poll(const struct call* call) {
  if (call->row->flag) {
    if (*(const int*)ARGUMENT(flag) == 0) return true;
    return call->row->index && *(const int*)ARGUMENT(index) < 0;
  }
  return call->row == &rows[ID_Testsome] && *(const int*)ARGUMENT(some) <= 0;
}

static void learn(struct call* call) {
  const struct row* const row = call->row;
  struct event* const e = call->event;
  switch (row->kind) {
    case WAIT:
    case TEST: learn_requests(call); break;
    case RECV:
    case PROBE:
      if (row->status && ARGUMENT(status) != abi.ignore) learn_source(call, (const void*)ARGUMENT(status));
      break;
    case SENDRECV: {
      if (ARGUMENT(status) == abi.ignore || e->length != 3) break;
      const int* const its = (const int*)ARGUMENT(status) + abi.status_source;
      if ((int)words[e->list] == ANY) words[e->list] = (uint64_t)peer_of(its[0], true);
      words[e->list + 1] = (uint64_t)its[1];
      break;
    }
    case MAKER: {
      const Word handle = handle_at(ARGUMENT(made), 0);
      // What makes communicators for some gives a null handle to the others.
      const bool none = handle == 0 || is_null(handle, "ompi_mpi_comm_null", 0x04000000, 0x100);
      // What MPI_Comm_idup makes may not be asked before it is complete.
      const Word like = row == &rows[ID_Comm_idup] ? call->comm->handle : handle;
      if (!none) e->buffer2 = comm_of(handle, like)->id;
      break;
    }
    case FREE: {
      struct known* const its = place_of((Word)e->buffer2);
      if (its->handle != (Word)e->buffer2) break;
      free(its->members);
      its->members = NULL;
      its->handle = FREED;
      break;
    }
    case TYPE_FREE: memset(sizes, 0, sizeof sizes); break;  // handles are used again
    default: break;
  }
  if (row->request && (row->kind == ISEND || row->kind == IRECV || row->kind == INIT || row->kind == ICOLL ||
                       row->kind == PROBE || row == &rows[ID_Imrecv]))
    if (row->kind != PROBE || e->peer != NOBODY) e->buffer2 = (uint64_t)handle_at(ARGUMENT(request), 0);
}

static void end(struct call* call, int id, Word result) {
  const uint64_t at = ticks();
  struct event* e = call->event;
  struct thread* const slot = mine.slot;
  struct count* const count = &counts[id];
  if (several) pthread_mutex_lock(&lock);
  ++count->calls;
  count->ticks += at - e->begin;
  if ((int)result != 0) {
    e->flags |= FAILED;
  } else if (is_poll(call)) {
    ++count->polls;
    if (slot->polls++ == 0) slot->polls_since = e->begin;
    goto out;
  } else {
    learn(call);
  }
  const struct row* const row = call->row;
  if (row->kind == INIT) {
    remember_persistent(call);
  } else if (row->kind == START && id != ID_Cancel) {
    look_at_persistent(call, count);
  } else if (row->type || row->comm) {
    if (row->type) count_bytes(count, e);
    if (!row->source && row->kind < INIT) count_sent(world_of(call, e->peer), e->bytes);
  }
  e->end = at;
  if (e == &slot->event && (row->flag || id == ID_Testsome)) {  // a poll that found something
    if (header->events < header->most_events) events[header->events++] = *e;
    else ++header->dropped;
  }
  slot->polls = 0;
out:
  slot->since = at;
  slot->last = (uint32_t)id;
  if (at - mine.sampled > sample_every) sample(at);
  if (several) pthread_mutex_unlock(&lock);
  __atomic_store_n(&slot->current, 0, __ATOMIC_RELEASE);
  inside = false;
}

// ----------------------------------------------------------------------------------------- the begin and the end

static uint64_t aligned(uint64_t n) { return (n + PAGE - 1) / PAGE * PAGE; }

static void fill_header(void) {
  header->version = VERSION;
  header->rank = header->size = -1;
  header->pid = getpid();
  gethostname(header->host, sizeof header->host - 1);
  const int boot = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (boot >= 0) {
    if (read(boot, header->boot, 36) < 0) header->boot[0] = 0;
    close(boot);
  }
  memcpy(header->magic, "VOLLEYTR", 8);  // from here on it can be read
}

static int file = -1;
static char path[PATH_MAX], copies_path[PATH_MAX];

// Leaves an empty file, for which a full disk has room: its name tells volley record the error.
static bool give_up(int error) {
  fprintf(stderr, "volley: this rank is not recorded: %s: %s\n", path, strerror(error));
  char name[PATH_MAX + 16];
  snprintf(name, sizeof name, "%.*s.%d.lost", (int)(strlen(path) - strlen(".rank")), path, error);
  const int lost = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (lost >= 0) close(lost);
  return false;
}

// What the file has after the names of the calls, in this order, and how many of each.
#define PARTS(X)                                                                                              \
  X(counts, CALL_COUNT) X(threads, THREADS) X(comms, MOST_COMMS) X(samples, h.most_samples) X(words, h.most_words) \
  X(events, h.most_events)

static bool open_file(void) {
  const char* const folder = getenv("VOLLEY_TRACE_FOLDER");
  const char* const number = getenv("VOLLEY_TRACE_EVENTS");
  if (folder == NULL) return false;
  struct header h = {0};
  h.most_events = number != NULL ? strtoull(number, NULL, 10) : 1 << 18;
  h.most_words = 2 * h.most_events + 65536;
  h.most_samples = h.most_events / 4 + 4096;
  uint64_t names = 0;
  for (int i = 0; i < CALL_COUNT; ++i) names += strlen(rows[i].name) + 1;
  uint64_t at = PAGE;
  h.at_names = at;
  at += aligned(names);
#define PLACE(name, number) h.at_##name = at, at += aligned((number) * sizeof *name);
  PARTS(PLACE)
  h.at_partners = at;
  char host[64] = "";
  gethostname(host, sizeof host - 1);
  const char* const local = getenv("VOLLEY_TRACE_LOCAL");  // for a host that does not reach the folder
  const bool here = local == NULL || access(folder, X_OK) == 0;
  if (!here) mkdir(local, 0700);
  snprintf(path, sizeof path, "%s/%s-%d.rank", here ? folder : local, host, (int)getpid());
  file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return give_up(errno);
  snprintf(copies_path, sizeof copies_path, "%.*s.copies", (int)(strlen(path) - strlen(".rank")), path);
  // Without room on the file system, a write to the mapped file would kill the process.
  const int error = posix_fallocate(file, 0, (off_t)at);
  if (error != 0) return unlink(path), give_up(error);
  char* const base = mmap(NULL, at, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (base == MAP_FAILED) return unlink(path), give_up(errno);
#ifdef MADV_POPULATE_WRITE
  madvise(base, at, MADV_POPULATE_WRITE);  // Linux 5.14: no page fault while the program runs
#endif
  header = (struct header*)base;
  *header = h;
#define POINT(name, number) name = (void*)(base + h.at_##name);
  PARTS(POINT)
  char* name = base + h.at_names;
  for (int i = 0; i < CALL_COUNT; ++i) name = stpcpy(name, rows[i].name) + 1;
  fill_header();
  return true;
}

static bool add_partners(void) {
  const uint64_t bytes = aligned((uint64_t)header->size * sizeof *partners);
  const int error = posix_fallocate(file, (off_t)header->at_partners, (off_t)bytes);
  if (error != 0) return unlink(path), give_up(error);
  partners = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)header->at_partners);
  if (partners == MAP_FAILED) return unlink(path), give_up(errno);
  header->partners = (uint64_t)header->size;
  return true;
}

static Word initialise(const char* name, Word a, Word b, Word wanted, Word given) {
  Word (*const call)() = (Word(*)())symbol_of_mpi(name);
  if (call == NULL) {
    fprintf(stderr, "volley: there is no %s in the libraries of this program\n", name);
    abort();
  }
  if (inside || header != NULL || !open_file()) return call(a, b, wanted, given);
  pthread_key_create(&at_thread_end, leave_thread);
  know_clock();
  know_interface();
  compare_clocks(&header->tick0, &header->ns0);
  enter_thread();
  mine.slot->since = header->tick0;
  inside = true;
  const Word result = call(a, b, wanted, given);
  inside = false;
  if (result != 0) return result;
  compare_clocks(&header->tick1, &header->ns1);
  const double per_ns = (double)(header->tick1 - header->tick0) / (double)(header->ns1 - header->ns0 + 1);
  sample_every = (uint64_t)(1e7 * per_ns);
  int level = 0;
  CALL_MPI(Query_thread, &level);
  several = level >= (abi.status_bytes == 32 ? 4096 : 3);  // MPI_THREAD_MULTIPLE
  CALL_MPI(Comm_rank, abi.world, &header->rank);
  CALL_MPI(Comm_size, abi.world, &header->size);
  if (!add_partners()) return result;
  comm_of(abi.world, abi.world);
  mine.slot->since = ticks();
  header->state = RUNNING;
  recording = true;
  return result;
}

#define EXPORT __attribute__((visibility("default")))
EXPORT Word MPI_Init(Word a, Word b) { return initialise("PMPI_Init", a, b, 0, 0); }
EXPORT Word PMPI_Init(Word, Word) __attribute__((alias("MPI_Init")));
EXPORT Word MPI_Init_thread(Word a, Word b, Word wanted, Word given) {
  return initialise("PMPI_Init_thread", a, b, wanted, given);
}
EXPORT Word PMPI_Init_thread(Word, Word, Word, Word) __attribute__((alias("MPI_Init_thread")));

static void finish(void) {
  compare_clocks(&header->tick1, &header->ns1);
  header->state = FINALIZED;
}

// ------------------------------------------------------------------------- copies between host and GPU memory

// The driver of CUDA loads this library as CUDA_INJECTION64_PATH says, and calls InitializeInjection. CUPTI (its
// manual, "CUPTI Callback API" and "CUPTI Activity API") then tells of each copy twice: of the call, which has the
// addresses, and of what the GPU did, which has the time. CUPTI takes one subscriber; if there is another one, the
// trace has no copies.

enum { ASYNCHRONOUS = 1, IN_MPI = 2, TO_HOST = 4, TO_GPU = 8 };

struct copy {
  uint64_t begin, end;  // of a call in ticks; of the work of a GPU in ns of CLOCK_REALTIME
  uint64_t to, from, bytes;
  uint32_t correlation;  // of a call and of its work
  uint8_t work, flags, spare[2];  // work: 0: a call; else a CUpti_ActivityMemcpyKind (1: to the GPU; 2: to the host)
};

struct site {  // CUpti_CallbackData
  int at_exit;
  const char* name;
  const uint64_t* arguments;
  void* result;
  const char* symbol;
  void* context;
  uint32_t context_number;
  uint64_t* kept;  // from the begin of a call to its end
  uint32_t correlation;
};

struct work {  // CUpti_ActivityMemcpy and its successors begin so
  uint32_t activity;
  uint8_t work, from, to, flags;
  uint64_t bytes, begin, end;
  uint32_t device, context, stream, correlation;
};

static struct copy* copies;
static uint64_t copied;
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static int (*next_activity)(uint8_t*, size_t, struct work**);
static int (*flush_activities)(uint32_t);

static void open_copies(void) {
  const size_t bytes = header->most_events * sizeof *copies;
  const int its = open(copies_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (its < 0 || posix_fallocate(its, 0, (off_t)bytes) != 0) return;
  void* const base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, its, 0);
  if (base != MAP_FAILED) copies = base;
}

static void keep_copy(struct copy copy) {
  pthread_once(&opened, open_copies);
  if (copies == NULL) return;
  const uint64_t n = __atomic_fetch_add(&copied, 1, __ATOMIC_RELAXED);
  if (n < header->most_events) copies[n] = copy;
}

static void on_call(void* user, int domain, uint32_t id, const struct site* site) {
  (void)user, (void)domain, (void)id;
  if (!recording) return;
  if (!site->at_exit) {
    *site->kept = ticks();
    return;
  }
  const uint64_t* w = site->arguments;  // destination, source, bytes; or the address of a CUDA_MEMCPY2D
  struct copy copy = {.begin = *site->kept, .end = ticks(), .correlation = site->correlation};
  copy.flags = (strstr(site->name, "Async") != NULL ? ASYNCHRONOUS : 0) | (inside ? IN_MPI : 0);
  if (strstr(site->name, "2D") != NULL) {
    enum { HOST = 1, SOURCE = 0, DESTINATION = 7 };  // x, y, kind, in host memory, in GPU memory, array, pitch
    w = (const uint64_t*)w[0];
    copy.from = w[(int)w[SOURCE + 2] == HOST ? SOURCE + 3 : SOURCE + 4] + w[SOURCE + 1] * w[SOURCE + 6] + w[SOURCE];
    copy.to = w[(int)w[DESTINATION + 2] == HOST ? DESTINATION + 3 : DESTINATION + 4] +
              w[DESTINATION + 1] * w[DESTINATION + 6] + w[DESTINATION];
    copy.bytes = w[14] * w[15];
    copy.flags |= (int)w[SOURCE + 2] == HOST ? TO_GPU : (int)w[DESTINATION + 2] == HOST ? TO_HOST : 0;
  } else {
    copy.flags |= strstr(site->name, "HtoD") != NULL ? TO_GPU : strstr(site->name, "DtoH") != NULL ? TO_HOST : 0;
    copy.to = w[0];
    copy.from = w[1];
    copy.bytes = w[2];
  }
  if (copy.begin != 0) keep_copy(copy);
}

static void give_buffer(uint8_t** buffer, size_t* size, size_t* most) {
  *size = 1 << 18;
  *buffer = malloc(*size);
  if (*buffer == NULL) *size = 0;
  *most = 0;  // as many as fit
}

static void take_buffer(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  enum { MEMCPY = 1 };
  for (struct work* its = NULL; recording && next_activity(buffer, valid, &its) == 0;)
    if (its->activity == MEMCPY)
      keep_copy((struct copy){.begin = its->begin, .end = its->end, .bytes = its->bytes,
                              .correlation = its->correlation, .work = its->work});
  free(buffer);
}

// Copies of one row, or of several, between memories that are no arrays.
static bool is_copy(const char* name) {
  const char* const rest = strncmp(name, "cuMemcpy", 8) == 0 ? name + 8 : "?";
  if (strncmp(rest, "HtoD", 4) == 0 || strncmp(rest, "DtoH", 4) == 0 || strncmp(rest, "2D", 2) == 0)
    return strstr(rest, "_v2") != NULL;  // addresses of 64 bits
  return *rest == 0 || strcmp(rest, "_ptds") == 0 || strcmp(rest, "Async") == 0 || strcmp(rest, "Async_ptsz") == 0;
}

static void subscribe(void* cupti) {
  enum { DRIVER = 1, MEMCPY = 1, PERIOD_MS = 1000, MOST = 4096 };
  void* subscriber = NULL;
  const char* name = NULL;
#define CUPTI(function) ((int (*)())dlsym(cupti, #function))
  if (CUPTI(cuptiSubscribe)(&subscriber, on_call, NULL) != 0) return;
  for (uint32_t id = 1; id < MOST; ++id)
    if (CUPTI(cuptiGetCallbackName)(DRIVER, id, &name) == 0 && name != NULL && is_copy(name))
      CUPTI(cuptiEnableCallback)(1u, subscriber, DRIVER, id);
  next_activity = (int (*)(uint8_t*, size_t, struct work**))dlsym(cupti, "cuptiActivityGetNextRecord");
  CUPTI(cuptiActivityRegisterCallbacks)(give_buffer, take_buffer);
  CUPTI(cuptiActivityEnable)(MEMCPY);
  if (CUPTI(cuptiActivityFlushPeriod) != NULL) CUPTI(cuptiActivityFlushPeriod)(PERIOD_MS);  // CUDA 11.1
  flush_activities = (int (*)(uint32_t))dlsym(cupti, "cuptiActivityFlushAll");
}

__attribute__((visibility("default"))) int InitializeInjection(void) {
  static bool begun;
  const char* const name = getenv("VOLLEY_TRACE_CUPTI");
  void* const cupti = begun || name == NULL ? NULL : dlopen(name, RTLD_LAZY);
  begun = true;
  if (cupti != NULL && dlsym(cupti, "cuptiActivityFlushAll") != NULL) subscribe(cupti);
  return 1;
}

// -------------------------------------------------------------------------------------------- the exported functions

static inline Word intercept(int id, Word* a) {
  const bool local = rows[id].kind == LOCAL;
  Word (*const real)() = function(id);
#define REAL() real(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12])
  if (!recording || inside) return REAL();
  struct call call;
  if (local) {
    __atomic_fetch_add(&counts[id].calls, 1, __ATOMIC_RELAXED);
    inside = true;
  } else {
    begin(&call, id, a);
  }
  if (id == ID_Finalize && flush_activities != NULL) flush_activities(0);
  const Word result = REAL();
  if (local) inside = false;
  else end(&call, id, result);
  if (id == ID_Finalize) finish();
  return result;
}

// Each takes as many words as the longest call and passes them on: those beyond a call's own are never looked at.
#define PARAMETERS                                                                                             \
  Word a1, Word a2, Word a3, Word a4, Word a5, Word a6, Word a7, Word a8, Word a9, Word a10, Word a11, Word a12, \
      Word a13
#define FUNCTION(name, ...)                                                                                    \
  EXPORT Word MPI_##name(PARAMETERS) {                                                                         \
    Word a[] = {a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13};                                       \
    return intercept(ID_##name, a);                                                                            \
  }                                                                                                            \
  EXPORT Word PMPI_##name(PARAMETERS) __attribute__((alias("MPI_" #name)));
TIMED(FUNCTION)
LOCALS(FUNCTION)
