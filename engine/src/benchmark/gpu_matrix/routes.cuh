// What all links between local endpoints share: the GPUs with their buffers and streams, and the routes on which
// messages go.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/gpu_matrix/gpu_set.hpp"
#include "benchmark/gpu_matrix/stream_blocker.cuh"
#include "gpu/gpu.hpp"

namespace volley::gpu_matrix {

// No link that carries peer access is slower than 1 GB/s (PCIe 1.0 x4).
constexpr double timeout_s_per_byte = 1e-9;

// A device, with two pairs of buffers, one for messages there, one for messages back, and a blocker for its streams.
struct GpuEndpoint {
  int device = 0;
  std::array<std::unique_ptr<Memory>, 2> memories;
  std::array<Buffers, 2> buffers;
  std::array<gpu::Stream, 2> streams;
  std::unique_ptr<StreamBlocker> blocker;
};

// Where a message is, and who verifies it there.
struct Location {
  Verifier* verifier = nullptr;
  std::byte* at = nullptr;
  int device = -1;  // CUDA's number; -1: host memory
};

// One direction of a link.
struct Route {
  Location from;
  Location to;
  const GpuEndpoint* driver = nullptr;  // whose copy engine or kernel moves the data
  std::size_t number = 0;               // 0: there, 1: back
  std::optional<Location> over_link;    // `to` once more, as the kernels of the other device load it

  [[nodiscard]] const gpu::Stream& cuda_stream() const { return driver->streams[number]; }
  // Where message or window number `turn` of `count` leaves from; see View.
  [[nodiscard]] const std::byte* source(const View& view, std::uint64_t turn, std::uint64_t count) const {
    return from.at + (turn < count ? 0 : view.last_offset);
  }
};

// Makes `place` the current device, if it is on one.
inline void select(const Location& place) {
  if (place.device >= 0) gpu::select(place.device);
}

// Waits until the Stream has done everything. Throws HungError after `timeout`; the Stream must then be left alone.
void await(const gpu::Stream& cuda_stream, Seconds timeout);

// A link whose messages are verified route by route: written where they come from, looked at where they arrived, and,
// where peer access is on, by loads of the other device's kernel as well.
class RoutedLink : public GpuLink {
 public:
  RoutedLink(std::vector<Route> routes, bool peers) : routes_(std::move(routes)), peers_(peers) {}

  void prepare(const View&) override {}
  void round_trips(const View&, std::uint64_t) override;
  void windows(const View&, std::uint64_t, const Window&) override;

  void fill(std::byte* message, std::size_t bytes, const Contents& contents) final;
  void poison(std::byte* message, std::size_t bytes, const Contents& expected) final;
  [[nodiscard]] std::optional<Mismatch> check(const std::byte* message, std::size_t bytes,
                                              const Contents& expected) final;
  [[nodiscard]] std::string complaint() const final { return complaint_; }
  [[nodiscard]] bool peers() const final { return peers_; }

 protected:
  [[nodiscard]] const std::vector<Route>& routes() const { return routes_; }

 private:
  void complain(const Mismatch& wrong, std::size_t bytes, const char* reader);

  std::vector<Route> routes_;
  bool peers_;
  std::string complaint_;
};

// What makes the links of a section; see the files of those names, and copies.cu for copies to and from the host.
[[nodiscard]] std::unique_ptr<GpuLink> make_copies(const Section& section, std::vector<Route> routes, bool peers,
                                                   Seconds timeout, bool broken);
[[nodiscard]] std::unique_ptr<GpuLink> make_gated_copies(const Section& section, std::vector<Route> routes, bool peers,
                                                         Seconds timeout);
[[nodiscard]] std::unique_ptr<GpuLink> make_remote_loads(std::vector<Route> routes, bool peers, Seconds timeout);
[[nodiscard]] std::unique_ptr<GpuLink> make_remote_stores(std::vector<Route> routes, bool peers, Seconds timeout);
// Between a GPU and memory of the host that is near it.
[[nodiscard]] std::unique_ptr<GpuLink> make_host_copies(const Section& section, const GpuEndpoint& gpu,
                                                        std::uint64_t bytes, Seconds timeout);

}  // namespace volley::gpu_matrix
