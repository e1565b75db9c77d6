// `corrupt-device`: breaks on purpose, to show that verification on the device notices. Used only when asked for by
// name.
#include "gpu/pinned_buffer.cuh"
#include "transport/faults.hpp"
#include "transport/makers.hpp"
#include "transport/staged/copies.cuh"
#include "transport/staged/halo.cuh"
#include "transport/staged/whole.cuh"

namespace volley {

namespace {

using StagedPinned = Whole<gpu::PinnedBuffer, AsyncCopies>;

// Moves everything and then flips one bit of the last message of each batch on the device: another place each time.
class CorruptDevice final : public StagedPinned {
 public:
  void round_trips(const View& view, std::uint64_t exchanges) override {
    StagedPinned::round_trips(view, exchanges);
    if (exchanges > 0) flip(view);
  }
  void windows(const View& view, std::uint64_t count, const Window& window) override {
    StagedPinned::windows(view, count, window);
    if (count > 0) flip(view);
  }

 private:
  void flip(const View& view) {
    const Bit bit(batches_++, view.bytes);
    std::byte* place = view.recv + bit.byte();
    std::byte byte{};
    VOLLEY_CUDA_CHECK(cudaMemcpy(&byte, place, 1, cudaMemcpyDeviceToHost));
    byte ^= bit.mask();
    VOLLEY_CUDA_CHECK(cudaMemcpy(place, &byte, 1, cudaMemcpyHostToDevice));
  }
  std::uint64_t batches_ = 0;
};

// Halos: the first of each of the two places arrives as it was sent, of every later one a bit is wrong.
class CorruptDeviceHalo final : public StagedHalo {
 public:
  void start(const View& view) override {
    bytes_ = view.bytes;
    StagedHalo::start(view);
  }
  void progress() override {}
  void finish() override {
    StagedHalo::finish();
    const Bit bit(halos_++, bytes_);
    if (halos_ > 2) bit.flip(arrived());
  }

 private:
  std::size_t bytes_ = 0;
  std::uint64_t halos_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_corrupt_device() { return std::make_unique<CorruptDevice>(); }
std::unique_ptr<HaloLink> make_corrupt_device_halo() { return std::make_unique<CorruptDeviceHalo>(); }

}  // namespace volley
