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

#include "host/placement.hpp"
#include "host/shared_library.hpp"
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

// The parameters of a launch. `recv` is here; its place in the other rank's heap is the same.
struct NvshmemLaunch {
  device::Launch message;  // without inboxes
  Signals* signals;
  int peer;
};

// This block's part of every message.
struct BlockShare {
  std::uint64_t offset;
  std::uint64_t bytes;
};

__device__ BlockShare block_share(std::uint64_t bytes) {
  const std::uint64_t share = round_up((bytes + gridDim.x - 1) / gridDim.x, device::vector_bytes);
  const std::uint64_t offset = min(blockIdx.x * share, bytes);
  return {offset, min(share, bytes - offset)};
}

// Waits until a signal has message `number`.
__device__ bool await_signal(const NvshmemLaunch& launch, std::uint64_t* signal, std::uint64_t number) {
  return device::await_peer(launch.message.wait, number,
                            [&] { return nvshmem_uint64_test(signal, NVSHMEM_CMP_GE, number) != 0; });
}

// Returns when all blocks of the other rank have signalled message `number`: the whole message is in its place.
__device__ bool await_signals(const NvshmemLaunch& launch, std::uint64_t number) {
  bool good = true;
  if (threadIdx.x < gridDim.x) good = await_signal(launch, &launch.signals->arrived[threadIdx.x], number);
  return __syncthreads_and(good);
}

__global__ void __launch_bounds__(device::max_threads, 1) nvshmem_round_trips(const NvshmemLaunch launch) {
  const device::Launch& message = launch.message;
  const BlockShare mine = block_share(message.bytes);
  std::uint64_t from = mine.offset + device::send_offset(message, 1);
  std::uint64_t to = mine.offset + device::recv_offset(message, 1);
  for (std::uint64_t exchange = 1; exchange <= message.count; ++exchange) {
    const std::uint64_t number = message.last + exchange;
    if (!message.leads && !await_signals(launch, number)) return;
    nvshmemx_putmem_signal_nbi_block(message.recv + to, message.send + from, mine.bytes,
                                     &launch.signals->arrived[blockIdx.x], number, NVSHMEM_SIGNAL_SET, launch.peer);
    from = mine.offset + device::send_offset(message, exchange + 1);
    to = mine.offset + device::recv_offset(message, exchange + 1);
    if (message.leads && !await_signals(launch, number)) return;
  }
}

// The messages of a window are put one after the other and signalled together. The first block of the receiver
// acknowledges the window; only then does the sender begin the next.
__global__ void __launch_bounds__(device::max_threads, 1) nvshmem_windows(const NvshmemLaunch launch) {
  const device::Launch& message = launch.message;
  const BlockShare mine = block_share(message.bytes);
  for (std::uint64_t window = 1; window <= message.count; ++window) {
    const std::uint64_t number = message.last + window;
    if (message.sends) {
      const std::byte* const from = message.send + mine.offset + device::send_offset(message, window);
      std::byte* const to = message.recv + mine.offset + device::recv_offset(message, window);
      for (int i = 0; i < message.window_messages; ++i) {
        const std::uint64_t place = static_cast<std::uint64_t>(i) * message.stride;
        nvshmemx_putmem_nbi_block(to + place, from + place, mine.bytes, launch.peer);
      }
      nvshmem_fence();
      __syncthreads();
      if (threadIdx.x == 0) {
        nvshmemx_signal_op(&launch.signals->arrived[blockIdx.x], number, NVSHMEM_SIGNAL_SET, launch.peer);
      }
    }
    if (message.receives && blockIdx.x == 0) {
      if (!await_signals(launch, number)) return;
      if (threadIdx.x == 0) {
        nvshmemx_signal_op(&launch.signals->acknowledged, number, NVSHMEM_SIGNAL_SET, launch.peer);
      }
    }
    if (message.sends) {
      const bool good = threadIdx.x != 0 || await_signal(launch, &launch.signals->acknowledged, number);
      if (!__syncthreads_and(good)) return;
    }
  }
}

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

class NvshmemTransport final : public device::KernelDriven {
 public:
  NvshmemTransport() : KernelDriven("nvshmem") {}
  std::string unavailable(const Context& context, const RankGroup& pair) override {
    std::string reason = KernelDriven::unavailable(context, pair);
    if (!reason.empty()) return reason;
    if (!started_with.empty() && started_with != pair.ranks) {
      return "NVSHMEM can start only once in a process, and has started with ranks " + std::to_string(started_with[0]) +
             " and " + std::to_string(started_with[1]);
    }
    const std::string problem = problem_of([&] { nvshmem_ = std::make_shared<const Nvshmem>(); });
    return problem.empty() ? "" : "no NVSHMEM: " + problem + "; the wheel nvidia-nvshmem-cu13 contains it";
  }

  // Starts NVSHMEM with these two ranks: its heap does not exist before. Allocations are collective, and agreed on.
  std::unique_ptr<Memory> own_memory(const RankGroup& pair) override {
    if (started_with.empty()) start_nvshmem(pair);
    return gpu::make_memory([&pair, nvshmem = nvshmem_](std::size_t bytes) { return symmetric(pair, nvshmem, bytes); });
  }

  void open(const RankGroup& pair, const Buffers& buffers) override {
    peer_ = pair.peer();
    open_launches(pair, nvshmem_round_trips, nvshmem_windows);
    agreed_step(pair, [&] {
      if (nvshmem_->pointer_at(buffers.recv, peer_) == nullptr) {
        throw std::runtime_error("NVSHMEM's kernels have no direct access to the other GPU's memory");
      }
    });
    signals_ = symmetric(pair, nvshmem_, sizeof(Signals));
  }

  void prepare(const View&) override { reset(signals_.get(), sizeof(Signals)); }

  void close() override {
    signals_ = {};
    KernelDriven::close();
  }

  void round_trips(const View& view, std::uint64_t exchanges) override {
    run_kernel(nvshmem_round_trips, launch_of(view, exchanges));
  }

  void windows(const View& view, std::uint64_t count, const Window& window) override {
    run_kernel(nvshmem_windows, windows_of(launch_of(view, count), window));
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
    gpu::ModuleHandle module = nullptr;
    agreed_step(pair, [&] { module = gpu::module_containing(reinterpret_cast<const void*>(nvshmem_round_trips)); });
    agreed_step(pair, [&] { check_nvshmem(nvshmem_->start_module(module), "nvshmemx_cumodule_init"); });
    started_with = pair.ranks;
  }

  void run_kernel(void (*kernel)(NvshmemLaunch), device::Launch message) {
    auto* const signals = reinterpret_cast<Signals*>(signals_.get());
    message.wait.peer_gave_up = &signals->gave_up;
    message.wait.gave_up = static_cast<std::uint64_t*>(nvshmem_->pointer_at(&signals->gave_up, peer_));
    wait_for_bytes(message);
    launch_long(kernel, NvshmemLaunch{message, signals, peer_}, message.bytes);
    complete(message, message.count);
  }

  std::shared_ptr<const Nvshmem> nvshmem_;
  std::shared_ptr<std::byte> signals_;
  int peer_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_nvshmem() { return std::make_unique<NvshmemTransport>(); }

}  // namespace volley
