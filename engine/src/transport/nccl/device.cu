// `nccl/device`: kernels on both devices exchange messages with the means of NCCL's device API, without their hosts.
// The buffers are windows that NCCL has mapped for all ranks with direct access (its LSA team).
//
// Short messages travel in the lines of an ncclLLA2ASession, which carry data and flag together. Longer ones are stored
// to their place in the other rank's window, and an ncclLsaBarrierSession for each block tells that they are there.
#include <nccl.h>
#include <nccl_device.h>

#include "transport/device/kernel_driven.cuh"
#include "transport/nccl/library.hpp"

namespace volley {
namespace {

// As many threads as one block can have, a line each.
constexpr unsigned max_lines = device::max_threads;
using Word = std::uint64_t;  // of a line
constexpr std::size_t short_bytes = max_lines * sizeof(Word);

struct NcclLaunch {
  device::Launch message;  // without inboxes
  ncclDevComm comm;
  ncclLLA2AHandle lines;
  ncclWindow_t window;    // that `recv` is in
  std::size_t in_window;  // the place of `recv` in it
};

// --- short messages --------------------------------------------------------------------------------------------------
//
// One block, a line for each thread, an epoch of the session for each round trip.

__global__ void __launch_bounds__(device::max_threads, 1) nccl_short_round_trips(const NcclLaunch launch) {
  const ncclTeam team = ncclTeamLsa(launch.comm);
  const int peer = 1 - team.rank;
  const auto line = static_cast<int>(threadIdx.x);
  const device::Launch& message = launch.message;
  const auto mine = device::message_word<Word>(message, threadIdx.x * sizeof(Word));
  ncclLLA2ASession<ncclCoopCta> session(ncclCoopCta(), launch.comm, team, launch.lines, /*block*/ 0, max_lines);
  const auto send = [&](std::uint64_t offset) {
    if (mine.bytes > 0) session.send(peer, line, device::gather(mine, offset));
  };
  std::uint64_t from = device::send_offset(message, 1);
  for (std::uint64_t exchange = 1; exchange <= message.count; ++exchange) {
    if (message.leads) send(from);
    from = device::send_offset(message, message.leads ? exchange + 1 : exchange);
    const std::uint64_t to = device::recv_offset(message, exchange);
    if (mine.bytes > 0) device::scatter(mine, to, session.recv<Word>(line));
    if (!message.leads) {
      __syncthreads();  // the whole message is there
      send(from);
    }
    session.endEpoch(ncclCoopCta());  // waits for all threads, too
  }
}

// --- long messages: several blocks -----------------------------------------------------------------------------------

// Runs `body(meet)` with all threads. `meet(arrive, wait)` is one phase of the barriers between the two ranks; all
// threads call it, and the first warp carries it out. There is a barrier for each block of the grid: a block arrives at
// its own, and waits at all of them, a lane each (lanes without a block double the last one's). So every block knows
// that all blocks of the other rank have arrived, without a grid-wide barrier.
//
// Both ranks arrive and wait in each phase. A rank that receives arrives at once, so that the other one does not wait.
template <class Body>
__device__ void with_barriers(const ncclDevComm& comm, const Body& body) {
  if (threadIdx.x < device::warp_threads) {
    ncclLsaBarrierSession<ncclCoopThread> barrier(ncclCoopThread(), comm, ncclTeamTagLsa(),
                                                  min(threadIdx.x, gridDim.x - 1));
    body([&](cuda::memory_order arrive, cuda::memory_order wait) {
      if (threadIdx.x == blockIdx.x) barrier.arrive(ncclCoopThread(), arrive);
      barrier.wait(ncclCoopThread(), wait);
    });
  } else {
    body([](cuda::memory_order, cuda::memory_order) {});
  }
}

__device__ std::byte* place_there(const NcclLaunch& launch) {
  const int peer = 1 - launch.comm.lsaRank;
  return static_cast<std::byte*>(ncclGetLsaPointer(launch.window, launch.in_window, peer));
}

__global__ void __launch_bounds__(device::max_threads, 1) nccl_long_round_trips(const NcclLaunch launch) {
  const device::Launch& message = launch.message;
  std::byte* const there = place_there(launch);
  const std::uint64_t vectors = device::vectors_in(message.send, there, message.bytes);
  with_barriers(launch.comm, [&](const auto& meet) {
    std::uint64_t from = device::send_offset(message, 1);
    std::uint64_t to = 0;
    for (std::uint64_t hop = 1; hop <= 2 * message.count; ++hop) {
      if (message.leads == (hop % 2 == 1)) {
        device::copy_bytes(message.send + from, there + to, message.bytes, vectors);
        __syncthreads();
        meet(cuda::memory_order_release, cuda::memory_order_relaxed);
      } else {
        from = device::send_offset(message, hop / 2 + 1);  // of the answer
        to = device::recv_offset(message, hop / 2 + 1);
        meet(cuda::memory_order_relaxed, cuda::memory_order_acquire);
        __syncthreads();
      }
    }
  });
}

// The messages of a window are stored one after the other and announced together; a second phase acknowledges them.
__global__ void __launch_bounds__(device::max_threads, 1) nccl_windows(const NcclLaunch launch) {
  const device::Launch& message = launch.message;
  std::byte* const there = place_there(launch);
  const std::uint64_t vectors = device::vectors_in(message.send, there, message.bytes);
  with_barriers(launch.comm, [&](const auto& meet) {
    for (std::uint64_t window = 1; window <= message.count; ++window) {
      if (message.sends) {
        const std::byte* const from = message.send + device::send_offset(message, window);
        std::byte* const to = there + device::recv_offset(message, window);
        for (int i = 0; i < message.window_messages; ++i) {
          const std::uint64_t place = static_cast<std::uint64_t>(i) * message.stride;
          device::copy_bytes(from + place, to + place, message.bytes, vectors);
        }
      }
      __syncthreads();
      meet(cuda::memory_order_release, cuda::memory_order_acquire);
      meet(cuda::memory_order_release, cuda::memory_order_acquire);
      __syncthreads();
    }
  });
}

// --- the host --------------------------------------------------------------------------------------------------------

// The device API is no stable interface: its kernels are compiled with the headers of one version of NCCL, and its
// structures are filled by the library.
struct NcclWithDevice : nccl::Nccl {
  decltype(&ncclCommWindowRegister) register_window = library.find("ncclCommWindowRegister");
  decltype(&ncclCommWindowDeregister) deregister_window = library.find("ncclCommWindowDeregister");
  decltype(&ncclDevCommCreate) create_on_device = library.find("ncclDevCommCreate");
  decltype(&ncclDevCommDestroy) destroy_on_device = library.find("ncclDevCommDestroy");
  decltype(&ncclLLA2ACreateRequirement) require_lines = library.find("ncclLLA2ACreateRequirement");
};

class NcclDeviceTransport final : public device::KernelDriven {
 public:
  NcclDeviceTransport() : KernelDriven("nccl/device") {}
  std::string unavailable(const Context& context, const RankGroup& pair) override {
    std::string reason = KernelDriven::unavailable(context, pair);
    std::shared_ptr<const nccl::Nccl> found;
    if (reason.empty()) reason = nccl::load(found);
    if (!reason.empty()) return reason;
    if (found->version_code() != NCCL_VERSION_CODE) {
      return "the engine was built with the device API of NCCL " + nccl::version_of(NCCL_VERSION_CODE) +
             ", but the library is NCCL " + nccl::version_of(found->version_code()) + ": they must be the same version";
    }
    reason = nccl::load(nccl_);
    return reason.empty() ? nccl::try_alone(*nccl_) : reason;
  }

  // Windows need memory that NCCL has allocated.
  std::unique_ptr<Memory> own_memory(const RankGroup&) override { return nccl::make_memory(nccl_); }

  // The communicator is kept when the buffers change: it does not depend on them, and takes long to make.
  void open(const RankGroup& pair, const Buffers& buffers) override {
    open_launches(pair, nccl_long_round_trips, nccl_windows);
    if (communicator_.get() == nullptr) {
      communicator_ = nccl::communicator_of(pair, *nccl_);
      make_device_communicator(pair);
    }
    agreed_step(pair, [&] {
      windows_[0].block = gpu::block_of(buffers.send);
      windows_[1].block = gpu::block_of(buffers.recv);
    });
    for (auto& window : windows_) agreed_step(pair, [&] { register_buffer(window); });
  }

  void close() override {
    for (auto& window : windows_) {
      if (window.handle != nullptr) nccl_->deregister_window(comm(), window.handle);
      window = {};
    }
    KernelDriven::close();
  }

  ~NcclDeviceTransport() override {
    if (has_device_communicator_ && std::uncaught_exceptions() == 0)
      nccl_->destroy_on_device(comm(), &device_communicator_);
  }

  void round_trips(const View& view, std::uint64_t exchanges) override {
    const NcclLaunch launch = nccl_launch(launch_of(view, exchanges));
    if (view.bytes > short_bytes) return exchange_long(nccl_long_round_trips, launch);
    const std::size_t lines = round_up(view.bytes, sizeof(Word)) / sizeof(Word);
    nccl_short_round_trips<<<1, device::threads_for(lines), 0, stream().get()>>>(launch);
    gpu::check_launch();
    await_end(launch.message);
  }

  void windows(const View& view, std::uint64_t count, const Window& window) override {
    exchange_long(nccl_windows, nccl_launch(windows_of(launch_of(view, count), window)));
  }

  [[nodiscard]] Json facts() const override {
    Json facts = nccl::facts_of(nccl_.get());
    facts["flag_in_word_up_to_bytes"] = short_bytes;
    facts["direct_stores_max_blocks"] = blocks();
    facts["direct_stores_max_threads_per_block"] = device::max_threads;
    facts["timeout_s"] = timeout_s();
    return facts;
  }

 private:
  struct RegisteredBuffer {
    gpu::Block block;
    ncclWindow_t handle = nullptr;
  };

  [[nodiscard]] ncclComm_t comm() const { return reinterpret_cast<ncclComm_t>(communicator_.get()); }
  void check(ncclResult_t result, const char* call) const { nccl_->check(static_cast<int>(result), call); }

  void make_device_communicator(const RankGroup& pair) {
    ncclDevResourceRequirements lines{};
    agreed_step(pair, [&] {
      check(nccl_->require_lines(/*blocks*/ 1, max_lines, &lines_, &lines), "ncclLLA2ACreateRequirement");
    });
    ncclDevCommRequirements requirements{};
    requirements.resourceRequirementsList = &lines;
    requirements.lsaBarrierCount = device::max_blocks;
    agreed_step(pair, [&] {
      check(nccl_->create_on_device(comm(), &requirements, &device_communicator_), "ncclDevCommCreate");
      has_device_communicator_ = true;
      if (device_communicator_.lsaSize == 2) return;
      throw std::runtime_error("NCCL's kernels have no direct access from one of these two GPUs to the other");
    });
  }

  // Collective over the pair: the call waits for the other rank's.
  void register_buffer(RegisteredBuffer& buffer) const {
    check(
        nccl_->register_window(comm(), buffer.block.base, buffer.block.bytes, &buffer.handle, NCCL_WIN_COLL_SYMMETRIC),
        "ncclCommWindowRegister");
    if (buffer.handle == nullptr) throw std::runtime_error("NCCL registers no windows of device memory here");
  }

  [[nodiscard]] NcclLaunch nccl_launch(const device::Launch& message) const {
    const auto& window = windows_[windows_[0].block.holds(message.recv) ? 0 : 1];
    return {.message = message,
            .comm = device_communicator_,
            .lines = lines_,
            .window = window.handle,
            .in_window = static_cast<std::size_t>(message.recv - window.block.base)};
  }

  void exchange_long(void (*kernel)(NcclLaunch), const NcclLaunch& launch) {
    launch_long(kernel, launch, launch.message.bytes);
    await_end(launch.message);
  }

  // NCCL's functions for kernels wait without a limit of their own, but end when the communicator is aborted. So the
  // host limits what all exchanges of a launch take: besides the wait for the other rank, not more than `exchange_ns`
  // each and the time of their bytes.
  void await_end(const device::Launch& message) {
    constexpr double exchange_ns = 10'000;
    const auto exchanges = static_cast<double>(message.count);
    const auto bytes = 2 * static_cast<double>(message.bytes) * message.window_messages;
    communicator_.wait_for(stream(), timeout_s() + 1e-9 * exchanges * (exchange_ns + ns_per_byte * bytes));
  }

  // In this order, because the communicator must be destroyed before the library's functions.
  std::shared_ptr<const NcclWithDevice> nccl_;
  nccl::NcclCommunicator communicator_;
  std::array<RegisteredBuffer, 2> windows_;  // send, recv
  ncclDevComm device_communicator_{};
  ncclLLA2AHandle lines_{};
  bool has_device_communicator_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_nccl_device() { return std::make_unique<NcclDeviceTransport>(); }

}  // namespace volley
