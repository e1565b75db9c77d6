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

struct NcclLaunch : device::Launch {
  ncclDevComm comm;
  ncclLLA2AHandle lines;
  ncclWindow_t window;    // that `recv` is in
  std::size_t in_window;  // the place of `recv` in it
};

// --- short messages --------------------------------------------------------------------------------------------------
//
// One block, a line for each thread, an epoch of the session for each round trip.

template <bool stamped>
__global__ void __launch_bounds__(device::max_threads, 1) nccl_short_round_trips(const NcclLaunch launch) {
  const ncclTeam team = ncclTeamLsa(launch.comm);
  const int peer = 1 - team.rank;
  const auto line = static_cast<int>(threadIdx.x);
  const auto mine = device::message_word<Word>(launch, threadIdx.x * sizeof(Word));
  ncclLLA2ASession<ncclCoopCta> session(ncclCoopCta(), launch.comm, team, launch.lines, /*block*/ 0, max_lines);
  const auto send = [&](std::uint64_t offset) {
    if (mine.bytes > 0) session.send(peer, line, device::gather(mine, offset));
  };
  std::uint64_t from = device::send_offset(launch, 1);
  for (std::uint64_t exchange = 1; exchange <= launch.count; ++exchange) {
    if (launch.leads) {
      send(from);
      device::stamp<stamped>(launch, exchange);
    }
    from = device::send_offset(launch, launch.leads ? exchange + 1 : exchange);
    const std::uint64_t to = device::recv_offset(launch, exchange);
    if (mine.bytes > 0) device::scatter(mine, to, session.recv<Word>(line));
    if (!launch.leads) {
      __syncthreads();  // the whole message is there
      send(from);
    }
    session.endEpoch(ncclCoopCta());  // waits for all threads, too
  }
}

// --- long messages: several blocks -----------------------------------------------------------------------------------

// Two ranks meet at barriers, one for each block of the grid: a block arrives at its own, and waits at all of them, a
// lane of the first warp each (lanes without a block double the last one's).
//
// Both ranks arrive and wait at each meeting. A rank that receives arrives at once, so that the other one does not
// wait.
struct Meeting {
  const NcclLaunch& launch;
  ncclLsaBarrierSession<ncclCoopThread> barrier{ncclCoopThread(), launch.comm, ncclTeamTagLsa(),
                                                min(threadIdx.x, gridDim.x - 1)};
  __device__ void operator()(cuda::memory_order arrive, cuda::memory_order wait) {
    if (threadIdx.x == blockIdx.x) barrier.arrive(ncclCoopThread(), arrive);
    barrier.wait(ncclCoopThread(), wait);
  }
};
// Of the other warps.
struct NoMeeting {
  __device__ void operator()(cuda::memory_order, cuda::memory_order) const {}
};

template <class Meet>
struct LsaWire {
  const NcclLaunch& launch;
  Meet& meet;
  std::byte* const there;
  const std::uint64_t vectors;

  __device__ void put(std::uint64_t from, std::uint64_t to) const {
    device::copy_bytes(launch.send + from, there + to, launch.bytes, vectors);
  }
  __device__ void announce(std::uint64_t) const {
    __syncthreads();
    meet(cuda::memory_order_release, cuda::memory_order_relaxed);
  }
  __device__ bool await(std::uint64_t) const {
    meet(cuda::memory_order_relaxed, cuda::memory_order_acquire);
    __syncthreads();
    return true;
  }
  // The second meeting acknowledges what the first announced.
  __device__ void end_window(bool acknowledged) const {
    __syncthreads();
    meet(cuda::memory_order_release, cuda::memory_order_acquire);
    if (acknowledged) meet(cuda::memory_order_release, cuda::memory_order_acquire);
    __syncthreads();
  }
};

struct NcclWire {
  using Launch = NcclLaunch;
  // What is computed before the branch is computed once: the body is compiled twice.
  template <class Body>
  __device__ static void with_wire(const Launch& launch, const Body& body) {
    auto* const there =
        static_cast<std::byte*>(ncclGetLsaPointer(launch.window, launch.in_window, 1 - launch.comm.lsaRank));
    const std::uint64_t vectors = device::vectors_in(launch.send, there, launch.bytes);
    if (threadIdx.x < device::warp_threads) {
      Meeting meet{launch};
      body(LsaWire<Meeting>{launch, meet, there, vectors});
    } else {
      NoMeeting none;
      body(LsaWire<NoMeeting>{launch, none, there, vectors});
    }
  }
};

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

class NcclDeviceTransport final : public device::WireDriven<NcclWire> {
 public:
  NcclDeviceTransport() : WireDriven("nccl/device") {}
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
    open_launches(pair);
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
    if (view.bytes > short_bytes) return WireDriven::round_trips(view, exchanges);
    const NcclLaunch launch = with_wire(launch_of(view, exchanges));
    const std::size_t lines = round_up(view.bytes, sizeof(Word)) / sizeof(Word);
    const auto kernel = launch.stamps ? nccl_short_round_trips<true> : nccl_short_round_trips<false>;
    kernel<<<1, device::threads_for(lines), 0, stream().get()>>>(launch);
    gpu::check_launch();
    await_end(launch);
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

  [[nodiscard]] NcclLaunch with_wire(device::Launch launch) const override {
    const auto& window = windows_[windows_[0].block.holds(launch.recv) ? 0 : 1];
    return {launch, device_communicator_, lines_, window.handle,
            static_cast<std::size_t>(launch.recv - window.block.base)};
  }

  // NCCL's functions for kernels wait without a limit of their own, but end when the communicator is aborted. So the
  // host limits what all exchanges of a launch take: besides the wait for the other rank, not more than `exchange_ns`
  // each and the time of their bytes.
  void await_end(const device::Launch& launch) override {
    constexpr double exchange_ns = 10'000;
    const auto exchanges = static_cast<double>(launch.count);
    const auto bytes = 2 * static_cast<double>(launch.bytes) * launch.window_messages;
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
