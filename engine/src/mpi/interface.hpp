// The part of MPI that the engine calls, without an MPI: functions are pointers and constants are variables, and
// load_mpi() sets them from the library that the job runs with. So one engine runs on every MPI, and a call costs what
// it costs through the PLT.
//
// MPIs have three binary interfaces (docs/sites.md). A handle is a pointer in Open MPI and in the interface of MPI 5.0,
// and an int in MPICH's. Here it is a word: the ABIs of x86-64 and AArch64 pass an int in the lower half of the same
// register, and MPICH writes one into the lower half of a word that is initialised, on these little-endian processors.
// Only arrays of handles differ; the engine has one kind (RequestList in mpi.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "record/json.hpp"

namespace volley {

using MPI_Comm = struct CommOfMpi*;
using MPI_Datatype = struct DatatypeOfMpi*;
using MPI_Errhandler = struct ErrhandlerOfMpi*;
using MPI_Group = struct GroupOfMpi*;
using MPI_Info = struct InfoOfMpi*;
using MPI_Op = struct OpOfMpi*;
using MPI_Request = struct RequestOfMpi*;
using MPI_Win = struct WinOfMpi*;
using MPI_Aint = std::intptr_t;
using MPI_Count = std::int64_t;

// Only MPI reads it; that of MPI 5.0 is the largest, with 32 bytes.
struct MPI_Status {
  std::uint64_t words[8];
};

inline constexpr int MPI_SUCCESS = 0;
inline constexpr int MPI_MAX_ERROR_STRING = 512;             // the largest of all
inline constexpr int MPI_MAX_LIBRARY_VERSION_STRING = 8192;  // the largest of all

// The collectives: Form(X, operation, Name, name, the arguments before the communicator).
// clang-format off
#define VOLLEY_MPI_COLLECTIVES(Form, X)                                                                                \
  Form(X, barrier, Barrier, barrier)                                                                                   \
  Form(X, broadcast, Bcast, bcast, void*, int, MPI_Datatype, int)                                                      \
  Form(X, reduce, Reduce, reduce, const void*, void*, int, MPI_Datatype, MPI_Op, int)                                  \
  Form(X, allreduce, Allreduce, allreduce, const void*, void*, int, MPI_Datatype, MPI_Op)                              \
  Form(X, reduce_scatter, Reduce_scatter_block, reduce_scatter_block, const void*, void*, int, MPI_Datatype, MPI_Op)   \
  Form(X, allgather, Allgather, allgather, const void*, int, MPI_Datatype, void*, int, MPI_Datatype)                   \
  Form(X, all_to_all, Alltoall, alltoall, const void*, int, MPI_Datatype, void*, int, MPI_Datatype)                    \
  Form(X, gather, Gather, gather, const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int)                       \
  Form(X, scatter, Scatter, scatter, const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int)                    \
  Form(X, scan, Scan, scan, const void*, void*, int, MPI_Datatype, MPI_Op)                                             \
  Form(X, allgatherv, Allgatherv, allgatherv, const void*, int, MPI_Datatype, void*, const int*, const int*,           \
       MPI_Datatype)                                                                                                   \
  Form(X, all_to_allv, Alltoallv, alltoallv, const void*, const int*, const int*, MPI_Datatype, void*, const int*,     \
       const int*, MPI_Datatype)                                                                                       \
  Form(X, all_to_allw, Alltoallw, alltoallw, const void*, const int*, const int*, const void*, void*, const int*,      \
       const int*, const void*)                                                                                        \
  Form(X, gatherv, Gatherv, gatherv, const void*, int, MPI_Datatype, void*, const int*, const int*, MPI_Datatype, int) \
  Form(X, scatterv, Scatterv, scatterv, const void*, const int*, const int*, MPI_Datatype, void*, int, MPI_Datatype,   \
       int)                                                                                                            \
  Form(X, neighbor_allgather, Neighbor_allgather, neighbor_allgather, const void*, int, MPI_Datatype, void*, int,      \
       MPI_Datatype)                                                                                                   \
  Form(X, neighbor_all_to_all, Neighbor_alltoall, neighbor_alltoall, const void*, int, MPI_Datatype, void*, int,       \
       MPI_Datatype)                                                                                                   \
  Form(X, neighbor_allgatherv, Neighbor_allgatherv, neighbor_allgatherv, const void*, int, MPI_Datatype, void*,        \
       const int*, const int*, MPI_Datatype)                                                                           \
  Form(X, neighbor_all_to_allv, Neighbor_alltoallv, neighbor_alltoallv, const void*, const int*, const int*,           \
       MPI_Datatype, void*, const int*, const int*, MPI_Datatype)                                                      \
  Form(X, neighbor_all_to_allw, Neighbor_alltoallw, neighbor_alltoallw, const void*, const int*, const MPI_Aint*,      \
       const void*, void*, const int*, const MPI_Aint*, const void*)
// clang-format on

// Their forms, and a list of the names of one.
#define VOLLEY_MPI_BLOCKING(X, operation, Name, name, ...) X(MPI_##Name, __VA_ARGS__ __VA_OPT__(, ) MPI_Comm)
#define VOLLEY_MPI_NONBLOCKING(X, operation, Name, name, ...) \
  X(MPI_I##name, __VA_ARGS__ __VA_OPT__(, ) MPI_Comm, MPI_Request*)
#define VOLLEY_MPI_PERSISTENT(X, operation, Name, name, ...) \
  X(MPI_##Name##_init, __VA_ARGS__ __VA_OPT__(, ) MPI_Comm, MPI_Info, MPI_Request*)
#define VOLLEY_MPI_NAME(name, ...) name,

// Name and arguments; each returns an int. A library without one of these is too old.
#define VOLLEY_MPI_FUNCTIONS(X)                                                                                        \
  VOLLEY_MPI_COLLECTIVES(VOLLEY_MPI_BLOCKING, X)                                                                       \
  VOLLEY_MPI_COLLECTIVES(VOLLEY_MPI_NONBLOCKING, X)                                                                    \
  X(MPI_Abort, MPI_Comm, int)                                                                                          \
  X(MPI_Cart_create, MPI_Comm, int, const int*, const int*, int, MPI_Comm*)                                            \
  X(MPI_Comm_create_group, MPI_Comm, MPI_Group, int, MPI_Comm*)                                                        \
  X(MPI_Comm_dup, MPI_Comm, MPI_Comm*)                                                                                 \
  X(MPI_Comm_free, MPI_Comm*)                                                                                          \
  X(MPI_Comm_group, MPI_Comm, MPI_Group*)                                                                              \
  X(MPI_Comm_rank, MPI_Comm, int*)                                                                                     \
  X(MPI_Comm_set_errhandler, MPI_Comm, MPI_Errhandler)                                                                 \
  X(MPI_Comm_size, MPI_Comm, int*)                                                                                     \
  X(MPI_Comm_split_type, MPI_Comm, int, int, MPI_Info, MPI_Comm*)                                                      \
  X(MPI_Error_string, int, char*, int*)                                                                                \
  X(MPI_Finalize)                                                                                                      \
  X(MPI_Finalized, int*)                                                                                               \
  X(MPI_Get_count, const MPI_Status*, MPI_Datatype, int*)                                                              \
  X(MPI_Get_library_version, char*, int*)                                                                              \
  X(MPI_Get_version, int*, int*)                                                                                       \
  X(MPI_Group_free, MPI_Group*)                                                                                        \
  X(MPI_Group_incl, MPI_Group, int, const int*, MPI_Group*)                                                            \
  X(MPI_Init_thread, int*, char***, int, int*)                                                                         \
  X(MPI_Initialized, int*)                                                                                             \
  X(MPI_Iprobe, int, int, MPI_Comm, int*, MPI_Status*)                                                                 \
  X(MPI_Irecv, void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)                                             \
  X(MPI_Isend, const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)                                       \
  X(MPI_Query_thread, int*)                                                                                            \
  X(MPI_Recv, void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status*)                                               \
  X(MPI_Recv_init, void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)                                         \
  X(MPI_Request_free, MPI_Request*)                                                                                    \
  X(MPI_Send, const void*, int, MPI_Datatype, int, int, MPI_Comm)                                                      \
  X(MPI_Send_init, const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)                                   \
  X(MPI_Sendrecv, const void*, int, MPI_Datatype, int, int, void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status*) \
  X(MPI_Start, MPI_Request*)                                                                                           \
  X(MPI_Test, MPI_Request*, int*, MPI_Status*)                                                                         \
  X(MPI_Testall, int, MPI_Request*, int*, MPI_Status*)                                                                 \
  X(MPI_Type_commit, MPI_Datatype*)                                                                                    \
  X(MPI_Type_create_hindexed, int, const int*, const MPI_Aint*, MPI_Datatype, MPI_Datatype*)                           \
  X(MPI_Type_create_resized, MPI_Datatype, MPI_Aint, MPI_Aint, MPI_Datatype*)                                          \
  X(MPI_Type_free, MPI_Datatype*)                                                                                      \
  X(MPI_Type_vector, int, int, int, MPI_Datatype, MPI_Datatype*)                                                       \
  X(MPI_Wait, MPI_Request*, MPI_Status*)                                                                               \
  X(MPI_Waitall, int, MPI_Request*, MPI_Status*)

// Those of one-sided communication: a call of one that the library lacks throws, so only what needs it is unavailable.
#define VOLLEY_MPI_ONE_SIDED_FUNCTIONS(X)                                                                           \
  X(MPI_Accumulate, const void*, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Op, MPI_Win)              \
  X(MPI_Compare_and_swap, const void*, const void*, void*, MPI_Datatype, int, MPI_Aint, MPI_Win)                    \
  X(MPI_Fetch_and_op, const void*, void*, MPI_Datatype, int, MPI_Aint, MPI_Op, MPI_Win)                             \
  X(MPI_Get, void*, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Win)                                   \
  X(MPI_Get_accumulate, const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, \
    MPI_Op, MPI_Win)                                                                                                \
  X(MPI_Put, const void*, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Win)                             \
  X(MPI_Win_allocate, MPI_Aint, int, MPI_Info, MPI_Comm, void*, MPI_Win*)                                           \
  X(MPI_Win_complete, MPI_Win)                                                                                      \
  X(MPI_Win_create, void*, MPI_Aint, int, MPI_Info, MPI_Comm, MPI_Win*)                                             \
  X(MPI_Win_fence, int, MPI_Win)                                                                                    \
  X(MPI_Win_flush, int, MPI_Win)                                                                                    \
  X(MPI_Win_free, MPI_Win*)                                                                                         \
  X(MPI_Win_get_attr, MPI_Win, int, void*, int*)                                                                    \
  X(MPI_Win_lock_all, int, MPI_Win)                                                                                 \
  X(MPI_Win_post, MPI_Group, int, MPI_Win)                                                                          \
  X(MPI_Win_set_errhandler, MPI_Win, MPI_Errhandler)                                                                \
  X(MPI_Win_start, MPI_Group, int, MPI_Win)                                                                         \
  X(MPI_Win_sync, MPI_Win)                                                                                          \
  X(MPI_Win_unlock_all, MPI_Win)                                                                                    \
  X(MPI_Win_wait, MPI_Win)

// Persistent collectives, of MPI 4.0. One that the library lacks is null: whoever calls them asks first.
#define VOLLEY_MPI_PERSISTENT_FUNCTIONS(X) VOLLEY_MPI_COLLECTIVES(VOLLEY_MPI_PERSISTENT, X)

// Partitioned messages, of MPI 4.0, in the same way.
#define VOLLEY_MPI_PARTITIONED_FUNCTIONS(X)                                                          \
  X(MPI_Pready, int, MPI_Request)                                                                    \
  X(MPI_Precv_init, void*, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request*) \
  X(MPI_Psend_init, const void*, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request*)

// Type, name, and the value in Open MPI (or the variable of its library at whose address the object is), in MPICH and
// in the interface of MPI 5.0.
#define VOLLEY_MPI_CONSTANTS(X)                                                     \
  X(MPI_Comm, MPI_COMM_NULL, "ompi_mpi_comm_null", 0x04000000, 0x100)               \
  X(MPI_Comm, MPI_COMM_WORLD, "ompi_mpi_comm_world", 0x44000000, 0x101)             \
  X(MPI_Datatype, MPI_BYTE, "ompi_mpi_byte", 0x4c00010d, 0x247)                     \
  X(MPI_Datatype, MPI_CHAR, "ompi_mpi_char", 0x4c000101, 0x243)                     \
  X(MPI_Datatype, MPI_DATATYPE_NULL, "ompi_mpi_datatype_null", 0x0c000000, 0x200)   \
  X(MPI_Datatype, MPI_DOUBLE, "ompi_mpi_double", 0x4c00080b, 0x214)                 \
  X(MPI_Datatype, MPI_FLOAT, "ompi_mpi_float", 0x4c00040a, 0x210)                   \
  X(MPI_Datatype, MPI_INT, "ompi_mpi_int", 0x4c000405, 0x209)                       \
  X(MPI_Datatype, MPI_INT32_T, "ompi_mpi_int32_t", 0x4c000439, 0x250)               \
  X(MPI_Datatype, MPI_INT64_T, "ompi_mpi_int64_t", 0x4c00083a, 0x258)               \
  X(MPI_Datatype, MPI_UINT64_T, "ompi_mpi_uint64_t", 0x4c00083e, 0x259)             \
  X(MPI_Errhandler, MPI_ERRORS_RETURN, "ompi_mpi_errors_return", 0x54000001, 0x143) \
  X(MPI_Group, MPI_GROUP_NULL, "ompi_mpi_group_null", 0x08000000, 0x108)            \
  X(MPI_Info, MPI_INFO_NULL, "ompi_mpi_info_null", 0x1c000000, 0x130)               \
  X(MPI_Op, MPI_MAX, "ompi_mpi_op_max", 0x58000001, 0x23)                           \
  X(MPI_Op, MPI_MIN, "ompi_mpi_op_min", 0x58000002, 0x22)                           \
  X(MPI_Op, MPI_NO_OP, "ompi_mpi_op_no_op", 0x5800000e, 0x3d)                       \
  X(MPI_Op, MPI_REPLACE, "ompi_mpi_op_replace", 0x5800000d, 0x3c)                   \
  X(MPI_Op, MPI_SUM, "ompi_mpi_op_sum", 0x58000003, 0x21)                           \
  X(MPI_Request, MPI_REQUEST_NULL, "ompi_request_null", 0x2c000000, 0x180)          \
  X(MPI_Win, MPI_WIN_NULL, "ompi_mpi_win_null", 0x20000000, 0x110)                  \
  X(MPI_Status*, MPI_STATUS_IGNORE, 0, 1, 0)                                        \
  X(MPI_Status*, MPI_STATUSES_IGNORE, 0, 1, 0)                                      \
  X(void*, MPI_IN_PLACE, 1, -1, 1)                                                  \
  X(int, MPI_COMM_TYPE_SHARED, 0, 1, 221)                                           \
  X(int, MPI_ERR_OTHER, 16, 15, 16)                                                 \
  X(int, MPI_PROC_NULL, -2, -1, -3)                                                 \
  X(int, MPI_MODE_NOCHECK, 1, 1024, 1024)                                           \
  X(int, MPI_MODE_NOSUCCEED, 16, 16384, 16384)                                      \
  X(int, MPI_THREAD_FUNNELED, 1, 1, 1024)                                           \
  X(int, MPI_THREAD_MULTIPLE, 3, 3, 4096)                                           \
  X(int, MPI_WIN_MODEL, 11, 0x66000009, 605)                                        \
  X(int, MPI_WIN_UNIFIED, 0, 2, 321)

#define VOLLEY_DEFINE(name, ...) inline int (*name)(__VA_ARGS__) = nullptr;
VOLLEY_MPI_FUNCTIONS(VOLLEY_DEFINE)
VOLLEY_MPI_ONE_SIDED_FUNCTIONS(VOLLEY_DEFINE)
VOLLEY_MPI_PERSISTENT_FUNCTIONS(VOLLEY_DEFINE)
VOLLEY_MPI_PARTITIONED_FUNCTIONS(VOLLEY_DEFINE)
#undef VOLLEY_DEFINE
#define VOLLEY_DEFINE(type, name, ...) inline type name{};
VOLLEY_MPI_CONSTANTS(VOLLEY_DEFINE)
#undef VOLLEY_DEFINE

// Bytes of a handle in an array of them.
inline std::size_t mpi_handle_bytes = sizeof(void*);

// Loads this library and sets everything above; before anything of it is used. Throws UnsupportedError if that cannot
// be.
void load_mpi(const std::string& library);

// What the loaded library says of itself: its version, that of the standard, its binary interface, whether it says that
// it is CUDA-aware (null: it does not say).
[[nodiscard]] Json mpi_facts();

}  // namespace volley
