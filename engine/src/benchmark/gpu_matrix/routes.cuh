// The common part of all links between GPUs of one process: the GPUs with their buffers and streams, and the routes of
// the messages.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/gpu_matrix/gpu_set.hpp"
#include "benchmark/gpu_matrix/stream_blocker.cuh"
#include "gpu/gpu.hpp"

namespace volley::gpu_matrix {

// No link that carries peer access is slower than 1 GB/s (PCIe 1.0 x4).
constexpr double timeout_s_per_byte = 1e-9;

// A device, with a pair of buffers and a stream for each of the two directions, and a blocker for its streams.
struct GpuEndpoint {
  int device = 0;
  std::array<std::unique_ptr<Memory>, 2> memories;
  std::array<Buffers, 2> buffers;
  std::array<gpu::Stream, 2> streams;
  std::unique_ptr<StreamBlocker> blocker;
};

// The place of a message, and the verifier of its memory.
struct Location {
  Verifier* verifier = nullptr;
  std::byte* at = nullptr;
  int device = -1;  // CUDA's number; -1: host memory
};

// One direction of a link.
struct Route {
  Location from;
  Location to;
  const GpuEndpoint* driver = nullptr;  // its copy engine or kernel moves the data
  std::size_t number = 0;               // 0: there, 1: back
  std::optional<Location> over_link;    // `to`, but verified by a kernel of the other device

  [[nodiscard]] const gpu::Stream& cuda_stream() const { return driver->streams[number]; }
  // The place from which message or window number `turn` of `count` is sent; see View.
  [[nodiscard]] const std::byte* source(const View& view, std::uint64_t turn, std::uint64_t count) const {
    return from.at + (turn < count ? 0 : view.last_offset);
  }
};

// Makes the device of `place` the current one, if it is on a device.
inline void select(const Location& place) {
  if (place.device >= 0) gpu::select(place.device);
}

// Waits until the stream has finished. Throws HungError after `timeout`; the stream must then not be used any more.
void await(const gpu::Stream& cuda_stream, Seconds timeout);

struct LinkSetup {
  const Section& section;
  std::vector<Route> routes;
  bool peers;                // see GpuLink::peers()
  Seconds timeout;           // of what the link starts
  std::uint64_t room_bytes;  // of each buffer
};

// A link whose messages are verified route by route: where they arrive and, if peer access is enabled, also by a kernel
// of the other device.
class RoutedLink : public GpuLink {
 public:
  explicit RoutedLink(LinkSetup setup) : setup_(std::move(setup)) {}

  void fill(std::byte* message, std::size_t bytes, const Contents& contents) final;
  void poison(std::byte* message, std::size_t bytes, const Contents& expected) final;
  [[nodiscard]] std::optional<Mismatch> check(const std::byte* message, std::size_t bytes,
                                              const Contents& expected) final;
  [[nodiscard]] std::string complaint() const final { return complaint_; }
  [[nodiscard]] bool peers() const final { return setup_.peers; }
  [[nodiscard]] Buffers buffers() const final {
    return {routes().front().from.at, routes().front().to.at, setup_.room_bytes};
  }

 protected:
  [[nodiscard]] const Section& section() const { return setup_.section; }
  [[nodiscard]] const std::vector<Route>& routes() const { return setup_.routes; }
  [[nodiscard]] Seconds timeout() const { return setup_.timeout; }

 private:
  LinkSetup setup_;
  std::string complaint_;
};

// Make the links of a section; each is defined in the file of its name, make_host_copies() in copies.cu.
[[nodiscard]] std::unique_ptr<GpuLink> make_copies(LinkSetup setup, bool broken);
[[nodiscard]] std::unique_ptr<GpuLink> make_gated_copies(LinkSetup setup);
[[nodiscard]] std::unique_ptr<GpuLink> make_remote_loads(LinkSetup setup);
[[nodiscard]] std::unique_ptr<GpuLink> make_remote_stores(LinkSetup setup);
// Between a GPU and host memory near it.
[[nodiscard]] std::unique_ptr<GpuLink> make_host_copies(const Section& section, const GpuEndpoint& gpu,
                                                        std::uint64_t room_bytes, Seconds timeout);

}  // namespace volley::gpu_matrix
