// The functions of NCCL that are used here, found at run time: the engine needs NCCL neither to be built nor to start.
//
// The declarations repeat those of nccl.h, unchanged from NCCL 2.13 (ncclGetLastError is the youngest) to 2.32:
// ncclUniqueId is a struct of 128 bytes passed by value, ncclResult_t and ncclDataType_t are enumerations of ints,
// ncclSuccess and ncclInt8 are 0. A stream's handle belongs to the driver, so that NCCL can use one made here, although
// it has another copy of the CUDA runtime.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/streams.cuh"
#include "host/shared_library.hpp"

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

  // Throws std::runtime_error with NCCL's message and the place if `result` is not success.
  void check(Result result, const char* call, std::source_location where = std::source_location::current()) const {
    if (result == success) return;
    const std::string path = where.file_name();
    // ncclGetLastError returns the last error of the process; its argument is not used.
    throw std::runtime_error(std::string(call) + " failed: " + error_string(result) + " (" + last_error(nullptr) +
                             ", " + path.substr(path.rfind('/') + 1) + ":" + std::to_string(where.line()) + ")");
  }

  [[nodiscard]] std::string version() const {
    int code = 0;
    check(get_version(&code), "ncclGetVersion");
    return version_of(code);
  }

  [[nodiscard]] UniqueId unique_id() const {
    UniqueId id{};
    check(get_unique_id(&id), "ncclGetUniqueId");
    return id;
  }
};

// A communicator that destroys itself. While an exception unwinds this rank, the other rank does not destroy its own:
// the communicator is then aborted, which also ends kernels that wait for the other rank.
class NcclCommunicator {
 public:
  NcclCommunicator() = default;
  NcclCommunicator(const Nccl& nccl, int ranks, const UniqueId& id, int rank) : nccl_(&nccl) {
    nccl.check(nccl.init_rank(&handle_, ranks, id, rank), "ncclCommInitRank");
  }
  NcclCommunicator(NcclCommunicator&& other) noexcept
      : nccl_(other.nccl_), handle_(std::exchange(other.handle_, nullptr)) {}
  NcclCommunicator& operator=(NcclCommunicator&& other) noexcept {
    std::swap(nccl_, other.nccl_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator() {
    if (handle_ == nullptr) return;
    if (std::uncaught_exceptions() > 0) nccl_->abort(handle_);
    else nccl_->destroy(handle_);
  }

  // Makes a communicator of this rank alone. It fails if the driver is too old for this NCCL or if NCCL finds no
  // network interface; in open() the other ranks would wait for this one.
  static void try_alone(const Nccl& nccl) { const NcclCommunicator alone(nccl, 1, nccl.unique_id(), 0); }

  [[nodiscard]] Comm get() const noexcept { return handle_; }

  // Throws if an error has occurred that no call has returned.
  void check_async() const {
    Result pending = success;
    nccl_->check(nccl_->async_error(handle_, &pending), "ncclCommGetAsyncError");
    nccl_->check(pending, "NCCL, while messages were under way,");
  }

  // Waits until everything enqueued is complete. Polls, because a synchronizing call would never return if the other
  // side of a kernel has failed. The watchdog ends a hang without an error.
  void wait_for(const gpu::Stream& stream) const {
    for (unsigned polls = 1; stream.busy(); ++polls) {
      if (polls % polls_between_checks == 0) check_async();
    }
  }

 private:
  // A query of NCCL takes longer than a query of the stream.
  static constexpr unsigned polls_between_checks = 1024;

  const Nccl* nccl_ = nullptr;
  Comm handle_ = nullptr;
};

}  // namespace volley::nccl
