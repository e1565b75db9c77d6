// `nvshmem`: kernels on both devices put messages followed by a signal (nvshmemx_putmem_signal_nbi_block), and test the
// signal (nvshmem_uint64_test) until it has arrived or the time is over: nvshmem_signal_wait_until, the same loop, has
// no limit. The buffers are in NVSHMEM's symmetric heap.
//
// NVSHMEM's functions for kernels are all compiled here, from its headers, so that the engine is linked with no part of
// NVSHMEM; its library for the host is opened at run time. It fills this module's copy of the state that those
// functions read (nvshmemx_cumodule_init).
#define NVSHMEM_ENABLE_ALL_DEVICE_INLINING
#include <non_abi/nvshmem_build_options.h>
#undef NVSHMEM_IBGDA_SUPPORT  // its headers need those of InfiniBand
#include <device_host/nvshmem_common.cuh>
#if NVSHMEM_VENDOR_MAJOR_VERSION == 3 && NVSHMEM_VENDOR_MINOR_VERSION == 6
__constant__ nvshmemi_device_host_state_t nvshmemi_device_state_d;  // the other headers define it here themselves
#endif
#include <nvshmem.h>
#include <nvshmemx.h>

#include "base/shared_library.hpp"
#include "transport/device/kernel_driven.cuh"

// What nvshmemx_cumodule_init looks for in a module, besides the state itself: the version of the headers, which these
// define themselves from 3.7 on, and the state for InfiniBand, not used here but large enough.
#if NVSHMEM_VENDOR_MAJOR_VERSION == 3 && NVSHMEM_VENDOR_MINOR_VERSION < 7
__device__ nvshmemi_version_t nvshmemi_device_lib_version_d = {
    NVSHMEM_VENDOR_MAJOR_VERSION, NVSHMEM_VENDOR_MINOR_VERSION, NVSHMEM_VENDOR_PATCH_VERSION};
#endif
__constant__ unsigned char nvshmemi_ibgda_device_state_d[32768];

namespace volley {
namespace {

// In the symmetric heap. The other rank writes all of it.
struct Signals {
  // Number of the last message of which each block of the sender has put its part.
  alignas(128) std::uint64_t arrived[device::max_blocks];
  // Number of the last window that the receiver has received.
  alignas(128) std::uint64_t acknowledged;
  alignas(128) std::uint64_t gave_up;  // the other device has given up waiting
};

// `recv` is here; its place in the other rank's heap is the same.
struct NvshmemLaunch : device::Launch {
  Signals* signals;
  int peer;
};

struct NvshmemWire {
  using Launch = NvshmemLaunch;
  const Launch& launch;
  std::uint64_t offset;  // of this block's part of every message
  std::uint64_t bytes;
  __device__ explicit NvshmemWire(const Launch& of) : launch(of) {
    const std::uint64_t share = round_up((of.bytes + gridDim.x - 1) / gridDim.x, device::vector_bytes);
    offset = min(blockIdx.x * share, of.bytes);
    bytes = min(share, of.bytes - offset);
  }

  __device__ void put(std::uint64_t from, std::uint64_t to) const {
    nvshmemx_putmem_nbi_block(launch.recv + offset + to, launch.send + offset + from, bytes, launch.peer);
  }
  __device__ void put_and_announce(std::uint64_t from, std::uint64_t to, std::uint64_t number) const {
    nvshmemx_putmem_signal_nbi_block(launch.recv + offset + to, launch.send + offset + from, bytes,
                                     &launch.signals->arrived[blockIdx.x], number, NVSHMEM_SIGNAL_SET, launch.peer);
  }
  __device__ void announce(std::uint64_t number) const {
    nvshmem_fence();
    __syncthreads();
    signal(&launch.signals->arrived[blockIdx.x], number);
  }
  __device__ bool await(std::uint64_t number) const {
    return await_signals(launch.signals->arrived, gridDim.x, number);
  }
  __device__ void acknowledge(std::uint64_t number) const { signal(&launch.signals->acknowledged, number); }
  __device__ bool await_acknowledgement(std::uint64_t number) const {
    return await_signals(&launch.signals->acknowledged, 1, number);
  }

 private:
  __device__ void signal(std::uint64_t* there, std::uint64_t number) const {
    if (threadIdx.x == 0) nvshmemx_signal_op(there, number, NVSHMEM_SIGNAL_SET, launch.peer);
  }
  __device__ bool await_signals(std::uint64_t* signals, unsigned count, std::uint64_t number) const {
    return device::await_words(launch.wait, count, number, [&](unsigned i) {
      return nvshmem_uint64_test(&signals[i], NVSHMEM_CMP_GE, number) != 0;
    });
  }
};

// --- the host --------------------------------------------------------------------------------------------------------

struct Nvshmem {
  Library library{"libnvshmem_host.so.3"};
  decltype(&nvshmemx_get_uniqueid) get_unique_id = library.find("nvshmemx_get_uniqueid");
  decltype(&nvshmemx_set_attr_uniqueid_args) set_unique_id = library.find("nvshmemx_set_attr_uniqueid_args");
  decltype(&nvshmemx_hostlib_init_attr) start = library.find("nvshmemx_hostlib_init_attr");
  decltype(&nvshmemx_cumodule_init) start_module = library.find("nvshmemx_cumodule_init");
  decltype(&nvshmem_malloc) allocate = library.find("nvshmem_malloc");
  decltype(&nvshmem_free) free = library.find("nvshmem_free");
  decltype(&nvshmem_ptr) pointer_at = library.find("nvshmem_ptr");
};

void check_nvshmem(int status, const char* call) {
  if (status == 0) return;
  throw std::runtime_error(std::string(call) + " failed with status " + std::to_string(status));
}

// Both ranks throw if one of them has no room. Collective over the pair, as is the release. While an exception unwinds
// this rank the other does not release, so this rank does not either.
std::shared_ptr<std::byte> symmetric(const RankGroup& pair, const std::shared_ptr<const Nvshmem>& nvshmem,
                                     std::size_t bytes) {
  std::shared_ptr<std::byte> made;
  agreed_step(pair, [&] {
    auto* const data = static_cast<std::byte*>(nvshmem->allocate(bytes));
    if (data == nullptr) throw std::runtime_error("nvshmem_malloc has no " + in_gib(bytes));
    made = {data, [nvshmem](std::byte* block) {
              if (std::uncaught_exceptions() == 0) nvshmem->free(block);
            }};
  });
  return made;
}

class NvshmemTransport final : public device::WireDriven<NvshmemWire> {
 public:
  NvshmemTransport() : WireDriven("nvshmem") {}
  std::string unavailable(const Context& context, const RankGroup& pair) override {
    std::string reason = KernelDriven::unavailable(context, pair);
    if (!reason.empty()) return reason;
    if (!started_with.empty() && started_with != pair.ranks) {
      return "NVSHMEM can start only once in a process, and has started with ranks " + std::to_string(started_with[0]) +
             " and " + std::to_string(started_with[1]);
    }
    const std::string problem = problem_of([&] { nvshmem_ = std::make_shared<const Nvshmem>(); });
    return problem.empty() ? "" : "no NVSHMEM: " + problem + "; the wheel nvidia-nvshmem-cu13 (or -cu12) contains it";
  }

  // Starts NVSHMEM with these two ranks: its heap does not exist before. Allocations are collective, and agreed on.
  std::unique_ptr<Memory> own_memory(const RankGroup& pair) override {
    if (started_with.empty()) start_nvshmem(pair);
    return gpu::make_memory([&pair, nvshmem = nvshmem_](std::size_t bytes) { return symmetric(pair, nvshmem, bytes); });
  }

  void open(const RankGroup& pair, const Buffers& buffers) override {
    peer_ = pair.peer();
    open_launches(pair);
    agreed_step(pair, [&] {
      if (nvshmem_->pointer_at(buffers.recv, peer_) == nullptr) {
        throw std::runtime_error("NVSHMEM's kernels have no direct access to the other GPU's memory");
      }
    });
    signals_ = symmetric(pair, nvshmem_, sizeof(Signals));
  }

  void prepare(const View&, const std::optional<Window>&) override { reset(signals_.get(), sizeof(Signals)); }

  void close() override {
    signals_ = {};
    KernelDriven::close();
  }

  [[nodiscard]] Json facts() const override {
    return {{"nvshmem_headers", std::to_string(NVSHMEM_VENDOR_MAJOR_VERSION) + "." +
                                    std::to_string(NVSHMEM_VENDOR_MINOR_VERSION) + "." +
                                    std::to_string(NVSHMEM_VENDOR_PATCH_VERSION)},
            {"max_blocks", blocks()},
            {"max_threads_per_block", device::max_threads},
            {"timeout_s", timeout_s()}};
  }

 private:
  inline static std::vector<int> started_with;  // world ranks; NVSHMEM stays until the process ends

  void start_nvshmem(const RankGroup& pair) const {
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    agreed_step(pair, [&] {
      if (pair.leads()) check_nvshmem(nvshmem_->get_unique_id(&id), "nvshmemx_get_uniqueid");
    });
    id = mpi::broadcast_value(id, 0, pair.control.get());
    nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
    agreed_step(pair, [&] {
      check_nvshmem(nvshmem_->set_unique_id(pair.self, 2, &id, &attributes), "nvshmemx_set_attr_uniqueid_args");
    });
    agreed_step(pair, [&] {
      check_nvshmem(nvshmem_->start(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes), "nvshmemx_hostlib_init_attr");
    });
    gpu::ModuleHandle own_module = nullptr;
    agreed_step(pair, [&] {
      own_module = gpu::module_containing(reinterpret_cast<const void*>(device::long_round_trips<NvshmemWire, false>));
    });
    agreed_step(pair, [&] { check_nvshmem(nvshmem_->start_module(own_module), "nvshmemx_cumodule_init"); });
    started_with = pair.ranks;
  }

  [[nodiscard]] NvshmemLaunch with_wire(device::Launch launch) const override {
    auto* const signals = reinterpret_cast<Signals*>(signals_.get());
    launch.wait.peer_gave_up = &signals->gave_up;
    launch.wait.gave_up = static_cast<std::uint64_t*>(nvshmem_->pointer_at(&signals->gave_up, peer_));
    return {launch, signals, peer_};
  }

  std::shared_ptr<const Nvshmem> nvshmem_;
  std::shared_ptr<std::byte> signals_;
  int peer_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_nvshmem() { return std::make_unique<NvshmemTransport>(); }

}  // namespace volley
