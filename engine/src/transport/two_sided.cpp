// `host`: MPI on host memory, the tutorial's CPU version. `aware`: the same calls on device pointers, its CUDA-aware
// version. The front end has tried in a job of its own whether the MPI can: one that cannot ends the process.
// `null`: moves nothing. Its time is the overhead of the engine, which every other transport has too.
#include "transport/host_driven.hpp"

namespace volley {
namespace {

struct NullChannel {
  void open(const RankGroup&, const Buffers&) {}
  void prepare(const View&) {}
  void close() {}
  // The empty asm statements keep the optimiser from removing the loop.
  void send(const View&) { asm volatile("" ::: "memory"); }
  void recv(const View&) { asm volatile("" ::: "memory"); }
  void start_send(const View&) { asm volatile("" ::: "memory"); }
  void start_recv(const View&) { asm volatile("" ::: "memory"); }
  void finish() {}
  void acknowledge() {}
  void await_acknowledgement() {}
};

// Also beside a computation, whose halos then take no time.
class Null final : public HostDriven<NullChannel>, public HaloExchange {
  [[nodiscard]] HaloExchange* halo() override { return this; }
  [[nodiscard]] std::string refuses(std::size_t) const override { return {}; }
};

}  // namespace

std::unique_ptr<Transport> make_mpi() { return std::make_unique<MpiTransport>(); }
std::unique_ptr<Transport> make_null() { return std::make_unique<Null>(); }

}  // namespace volley
