// The functions of NCCL that are used here, found at run time: the engine needs NCCL neither to be built nor to start.
// Users of more functions derive from `Nccl`.
//
// The declarations repeat those of nccl.h, unchanged from NCCL 2.13 (ncclGetLastError is the youngest) to 2.32:
// ncclUniqueId is a struct of 128 bytes passed by value, ncclResult_t and ncclDataType_t are enumerations of ints,
// ncclSuccess and ncclInt8 are 0. A stream's handle belongs to the driver, so that NCCL can use one made here, although
// it has another copy of the CUDA runtime.
#pragma once

#include <sched.h>

#include "base/clock.hpp"
#include "base/shared_library.hpp"
#include "gpu/runtime.hpp"
#include "group/agreement.hpp"

namespace volley::nccl {

using Comm = struct ncclComm*;
using Result = int;

struct UniqueId {
  std::array<char, 128> internal;
};

inline constexpr Result success = 0;  // ncclSuccess
inline constexpr int bytes_type = 0;  // ncclInt8

// e.g. "2.28.9", from 22809: major * 10000 + minor * 100 + patch.
[[nodiscard]] inline std::string version_of(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
}

struct Nccl {
  Library library{"libnccl.so.2"};
  Result (*get_version)(int*) = library.find("ncclGetVersion");
  const char* (*error_string)(Result) = library.find("ncclGetErrorString");
  const char* (*last_error)(Comm) = library.find("ncclGetLastError");
  Result (*get_unique_id)(UniqueId*) = library.find("ncclGetUniqueId");
  Result (*init_rank)(Comm*, int ranks, UniqueId, int rank) = library.find("ncclCommInitRank");
  Result (*destroy)(Comm) = library.find("ncclCommDestroy");
  Result (*abort)(Comm) = library.find("ncclCommAbort");
  Result (*async_error)(Comm, Result*) = library.find("ncclCommGetAsyncError");
  Result (*group_start)() = library.find("ncclGroupStart");
  Result (*group_end)() = library.find("ncclGroupEnd");
  Result (*send)(const void*, std::size_t, int type, int peer, Comm, gpu::StreamHandle) = library.find("ncclSend");
  Result (*recv)(void*, std::size_t, int type, int peer, Comm, gpu::StreamHandle) = library.find("ncclRecv");
  // Since NCCL 2.19: memory that NCCL can map for the other ranks.
  Result (*allocate)(void**, std::size_t) = library.find_optional("ncclMemAlloc");
  Result (*free)(void*) = library.find_optional("ncclMemFree");

  // Throws std::runtime_error with NCCL's message and the place if `result` is not success.
  void check(Result result, const char* call, std::source_location where = std::source_location::current()) const {
    if (result == success) return;
    // ncclGetLastError returns the last error of the process; its argument is not used.
    throw std::runtime_error(std::string(call) + " failed: " + error_string(result) + " (" + last_error(nullptr) +
                             ", " + in_sources(where) + ")");
  }

  // See version_of().
  [[nodiscard]] int version_code() const {
    int code = 0;
    check(get_version(&code), "ncclGetVersion");
    return code;
  }

  [[nodiscard]] UniqueId unique_id() const {
    UniqueId id{};
    check(get_unique_id(&id), "ncclGetUniqueId");
    return id;
  }
};

// Memory of ncclMemAlloc. Throws a std::runtime_error where this NCCL is older.
[[nodiscard]] inline std::unique_ptr<Memory> make_memory(std::shared_ptr<const Nccl> nccl) {
  if (nccl->allocate == nullptr) {
    throw std::runtime_error("NCCL " + version_of(nccl->version_code()) + " has no ncclMemAlloc");
  }
  return gpu::make_memory([nccl = std::move(nccl)](std::size_t bytes) -> std::shared_ptr<std::byte> {
    void* data = nullptr;
    nccl->check(nccl->allocate(&data, bytes), "ncclMemAlloc");
    return {static_cast<std::byte*>(data), [nccl](std::byte* block) { nccl->free(block); }};
  });
}

// While an exception unwinds this rank, the other rank does not destroy its own communicator: this one is then aborted.
struct EndCommunicator {
  const Nccl* nccl = nullptr;
  void operator()(Comm handle) const noexcept {
    if (std::uncaught_exceptions() > 0) nccl->abort(handle);
    else nccl->destroy(handle);
  }
};

class NcclCommunicator {
 public:
  NcclCommunicator() = default;
  NcclCommunicator(const Nccl& nccl, const RankGroup& group, const UniqueId& id)
      : handle_(nullptr, {&nccl}), gives_way_(group.shares_core) {
    Comm made = nullptr;
    nccl.check(nccl.init_rank(&made, group.size(), id, group.self), "ncclCommInitRank");
    handle_.reset(made);
  }

  [[nodiscard]] Comm get() const noexcept { return handle_.get(); }

  // Throws if an error has occurred that no call has returned. The communicator is aborted before: that ends kernels
  // that wait for the other rank, and memory that is freed while the exception unwinds would wait for these.
  void check_async() {
    const Nccl& nccl = *handle_.get_deleter().nccl;
    Result pending = success;
    nccl.check(nccl.async_error(get(), &pending), "ncclCommGetAsyncError");
    if (pending != success) nccl.abort(handle_.release());
    nccl.check(pending, "NCCL, while messages were under way,");
  }

  // Waits until everything enqueued is complete. Polls, because a synchronizing call would never return if the other
  // side has failed. A hang without an error ends after `limit_s` or by the watchdog.
  void wait_for(const gpu::Stream& stream, double limit_s = std::numeric_limits<double>::infinity()) {
    const auto begun = Clock::now();
    for (unsigned polls = 1; stream.busy(); ++polls) {
      if (gives_way_) sched_yield();
      if (polls % polls_between_checks != 0) continue;
      check_async();
      if (const double waited_s = seconds_since(begun); waited_s >= limit_s) fail(waited_s);
    }
  }

 private:
  [[noreturn]] void fail(double waited_s) {
    handle_.get_deleter().nccl->abort(handle_.release());  // as in check_async()
    throw std::runtime_error("NCCL: the kernels of a batch did not end within " +
                             std::to_string(static_cast<int>(waited_s)) +
                             " s: the other rank's kernel is not running, or its stores do not arrive");
  }

  // A query of NCCL takes longer than a query of the stream.
  static constexpr unsigned polls_between_checks = 1024;

  std::unique_ptr<std::remove_pointer_t<Comm>, EndCommunicator> handle_;
  bool gives_way_ = false;  // between two polls, to NCCL's threads that move the data on a network
};

// Loads the library. Returns why this rank cannot; empty if it can.
template <class Functions>
[[nodiscard]] std::string load(std::shared_ptr<const Functions>& nccl) {
  const std::string problem = problem_of([&] { nccl = std::make_shared<const Functions>(); });
  return problem.empty() ? "" : "no NCCL: " + problem + "; the wheel nvidia-nccl-cu13 (or -cu12) contains it";
}

// Uses NCCL on this rank alone: its network, and where it allocates memory (2.19) its CUDA runtime. Returns why that
// fails: NCCL finds no network interface, or the driver is too old for this NCCL; in open() the other ranks would wait
// for this one. Empty if it does not fail. A communicator of this rank alone would take 0.5 s to end.
[[nodiscard]] inline std::string try_alone(const Nccl& nccl) {
  return problem_of([&] {
    static_cast<void>(nccl.unique_id());
    if (nccl.allocate == nullptr) return;
    void* data = nullptr;
    nccl.check(nccl.allocate(&data, 1), "ncclMemAlloc");
    nccl.check(nccl.free(data), "ncclMemFree");
  });
}

// The communicator of the group's ranks. Collective over the group.
[[nodiscard]] inline NcclCommunicator communicator_of(const RankGroup& group, const Nccl& nccl) {
  UniqueId id{};
  agreed_step(group, [&] {
    if (group.leads()) id = nccl.unique_id();
  });
  id = mpi::broadcast_value(id, 0, group.control.get());
  NcclCommunicator made;
  agreed_step(group, [&] { made = NcclCommunicator(nccl, group, id); });
  return made;
}

// For the transport's record; none where the library was not loaded.
[[nodiscard]] inline Json facts_of(const Nccl* nccl) {
  Json facts = Json::object();
  if (nccl == nullptr) return facts;
  facts["nccl_version"] = version_of(nccl->version_code());
  return facts;
}

}  // namespace volley::nccl
