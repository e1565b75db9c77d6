// `nvshmem`: kernels on both devices put messages with a signal behind them (nvshmemx_putmem_signal_nbi_block), and
// wait for the signal (nvshmem_signal_wait_until). The buffers are in NVSHMEM's symmetric heap.
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

#include <exception>
#include <memory>

#include "gpu/copy.cuh"
#include "gpu/cuda_driver.cuh"
#include "gpu/gpu.hpp"
#include "gpu/kernel_launch.cuh"
#include "gpu/streams.cuh"
#include "host/placement.hpp"
#include "host/shared_library.hpp"
#include "mpi/collectives.hpp"
#include "transport/agreement.hpp"
#include "transport/device/shape.hpp"
#include "transport/peer_memory.cuh"

// What nvshmemx_cumodule_init looks for in a module, besides the state itself: the version of the headers, which these
// define themselves from 3.7 on, and the state for InfiniBand, which is not used here but must be there, and must be
// large enough.
#if NVSHMEM_VENDOR_MAJOR_VERSION == 3 && NVSHMEM_VENDOR_MINOR_VERSION < 7
__device__ nvshmemi_version_t nvshmemi_device_lib_version_d = {
    NVSHMEM_VENDOR_MAJOR_VERSION, NVSHMEM_VENDOR_MINOR_VERSION, NVSHMEM_VENDOR_PATCH_VERSION};
#endif
__constant__ unsigned char nvshmemi_ibgda_device_state_d[32768];

namespace volley {

namespace {

constexpr unsigned max_blocks = device::warp_threads;  // one lane of a warp waits for each block's signal

// In the symmetric heap. The other rank writes all of it.
struct Signals {
  // Number of the last message of which each block of the sender has put its part.
  alignas(128) std::uint64_t arrived[max_blocks];
  // Number of the last window that the receiver has received.
  alignas(128) std::uint64_t acknowledged;
};

// The parameters of a launch.
struct NvshmemLaunch {
  const std::byte* send;
  std::byte* recv;  // here; its place in the other rank's heap is the same
  std::uint64_t bytes;
  std::uint64_t last_offset;  // from `send` to the place of the last message (or window)
  std::uint64_t stride;       // from one message of a window to the next
  Signals* signals;
  std::uint64_t last;   // number of the last message (or window) of earlier launches
  std::uint64_t count;  // exchanges (or windows) to make
  int window_messages;
  int peer;
  bool leads;
  bool sends;  // in windows
  bool receives;
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

// Returns when all blocks of the other rank have signalled message `number`: the whole message is in its place.
__device__ void await_signals(const NvshmemLaunch& launch, std::uint64_t number) {
  if (threadIdx.x < gridDim.x) {
    nvshmem_signal_wait_until(&launch.signals->arrived[threadIdx.x], NVSHMEM_CMP_GE, number);
  }
  __syncthreads();
}

__global__ void __launch_bounds__(device::max_threads, 1) nvshmem_round_trips(const NvshmemLaunch launch) {
  const BlockShare mine = block_share(launch.bytes);
  for (std::uint64_t exchange = 1; exchange <= launch.count; ++exchange) {
    const std::uint64_t number = launch.last + exchange;
    const std::byte* const from = launch.send + mine.offset + (exchange == launch.count ? launch.last_offset : 0);
    if (!launch.leads) await_signals(launch, number);
    nvshmemx_putmem_signal_nbi_block(launch.recv + mine.offset, from, mine.bytes, &launch.signals->arrived[blockIdx.x],
                                     number, NVSHMEM_SIGNAL_SET, launch.peer);
    if (launch.leads) await_signals(launch, number);
  }
}

// The messages of a window are put one after the other and signalled together. The first block of the receiver
// acknowledges the window; only then does the sender begin the next.
__global__ void __launch_bounds__(device::max_threads, 1) nvshmem_windows(const NvshmemLaunch launch) {
  const BlockShare mine = block_share(launch.bytes);
  for (std::uint64_t window = 1; window <= launch.count; ++window) {
    const std::uint64_t number = launch.last + window;
    if (launch.sends) {
      const std::byte* const from = launch.send + mine.offset + (window == launch.count ? launch.last_offset : 0);
      for (int message = 0; message < launch.window_messages; ++message) {
        const std::uint64_t place = static_cast<std::uint64_t>(message) * launch.stride;
        nvshmemx_putmem_nbi_block(launch.recv + mine.offset + place, from + place, mine.bytes, launch.peer);
      }
      nvshmem_fence();
      __syncthreads();
      if (threadIdx.x == 0) {
        nvshmemx_signal_op(&launch.signals->arrived[blockIdx.x], number, NVSHMEM_SIGNAL_SET, launch.peer);
      }
    }
    if (launch.receives && blockIdx.x == 0) {
      await_signals(launch, number);
      if (threadIdx.x == 0) {
        nvshmemx_signal_op(&launch.signals->acknowledged, number, NVSHMEM_SIGNAL_SET, launch.peer);
      }
    }
    if (launch.sends) {
      if (threadIdx.x == 0) nvshmem_signal_wait_until(&launch.signals->acknowledged, NVSHMEM_CMP_GE, number);
      __syncthreads();
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

class NvshmemTransport final : public KernelDriven {
 public:
  std::string unavailable(const Context& context, const RankGroup& pair) override {
    std::string reason = KernelDriven::unavailable(context, pair);
    if (!reason.empty()) return reason;
    spare_cpus_ = context.spare_cpus;
    if (!started_with.empty() && started_with != pair.ranks) {
      return "NVSHMEM starts once in a process, and has started with ranks " + std::to_string(started_with[0]) +
             " and " + std::to_string(started_with[1]);
    }
    try {
      nvshmem_ = std::make_shared<const Nvshmem>();
    } catch (const std::runtime_error& problem) {
      return std::string("no NVSHMEM: ") + problem.what() + "; the wheel nvidia-nvshmem-cu13 brings one";
    }
    return {};
  }

  // Starts NVSHMEM with these two ranks: its heap does not exist before. Each of the two buffers is agreed on, because
  // allocations are collective.
  std::unique_ptr<Memory> own_memory(const RankGroup& pair) override {
    if (started_with.empty()) start_nvshmem(pair);
    return gpu::make_memory([&pair, nvshmem = nvshmem_](std::size_t bytes) { return symmetric(pair, nvshmem, bytes); });
  }

  void open(const RankGroup& pair, const Buffers& buffers) override {
    leads_ = pair.leads();
    peer_ = pair.peer();
    agreed_step(pair, [&] {
      stream_ = gpu::Stream::make();
      max_blocks_ = std::min({max_blocks, gpu::resident_blocks(nvshmem_round_trips, device::max_threads),
                              gpu::resident_blocks(nvshmem_windows, device::max_threads)});
      if (nvshmem_->pointer_at(buffers.recv, peer_) == nullptr) {
        throw std::runtime_error("NVSHMEM's kernels have no direct access to the other GPU's memory");
      }
    });
    max_blocks_ = std::min(max_blocks_, exchanged_with_peer(max_blocks_, pair));
    signals_ = symmetric(pair, nvshmem_, sizeof(Signals));
  }

  // Numbers start again with fresh signals. The sampler lets the other rank's first message come after this.
  void prepare(const View&) override {
    last_ = 0;
    gpu::zero(signals_.get(), sizeof(Signals));
    gpu::synchronize();
  }

  void close() override {
    signals_ = {};
    stream_ = {};
  }

  void windows(const View& view, std::uint64_t count, const Window& window) override {
    NvshmemLaunch launch = launch_of(view, count);
    launch.window_messages = window.messages;
    launch.sends = window.sends(leads_);
    launch.receives = window.receives(leads_);
    run(nvshmem_windows, launch);
  }

  [[nodiscard]] Json facts() const override {
    return {{"nvshmem_headers", std::to_string(NVSHMEM_VENDOR_MAJOR_VERSION) + "." +
                                    std::to_string(NVSHMEM_VENDOR_MINOR_VERSION) + "." +
                                    std::to_string(NVSHMEM_VENDOR_PATCH_VERSION)},
            {"max_blocks", max_blocks_},
            {"max_threads_per_block", device::max_threads}};
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
      // NVSHMEM starts a thread that polls, unless NVSHMEM_DISABLE_LOCAL_ONLY_PROXY=1 is set. It inherits these CPUs:
      // on the core of this rank it would slow all other transports down.
      const Binding elsewhere(spare_cpus_);
      check_nvshmem(nvshmem_->start(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes), "nvshmemx_hostlib_init_attr");
    });
    gpu::ModuleHandle module = nullptr;
    agreed_step(pair, [&] { module = gpu::module_containing(reinterpret_cast<const void*>(nvshmem_round_trips)); });
    agreed_step(pair, [&] { check_nvshmem(nvshmem_->start_module(module), "nvshmemx_cumodule_init"); });
    started_with = pair.ranks;
  }

  void exchange(const View& view, std::uint64_t exchanges) override {
    run(nvshmem_round_trips, launch_of(view, exchanges));
  }

  [[nodiscard]] NvshmemLaunch launch_of(const View& view, std::uint64_t count) const {
    return {.send = view.send,
            .recv = view.recv,
            .bytes = view.bytes,
            .last_offset = view.last_offset,
            .stride = view.stride,
            .signals = reinterpret_cast<Signals*>(signals_.get()),
            .last = last_,
            .count = count,
            .window_messages = 1,
            .peer = peer_,
            .leads = leads_,
            .sends = true,
            .receives = true};
  }

  void run(void (*kernel)(NvshmemLaunch), const NvshmemLaunch& launch) {
    const device::Shape shape = device::long_shape(launch.bytes, max_blocks_);
    gpu::launch_together(kernel, shape.blocks, shape.threads, stream_.get(), launch);
    stream_.synchronize();
    last_ += launch.count;
  }

  std::shared_ptr<const Nvshmem> nvshmem_;
  std::shared_ptr<std::byte> signals_;
  gpu::Stream stream_;
  std::vector<int> spare_cpus_;
  std::uint64_t last_ = 0;  // number of the last message or window, the same on both ranks
  unsigned max_blocks_ = 1;
  int peer_ = 0;
  bool leads_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_nvshmem() { return std::make_unique<NvshmemTransport>(); }

}  // namespace volley
