// `corrupt-device`: breaks on purpose, to show that verification on the device notices. Used only when asked for by
// name.
#include "../handles/pinned_buffer.cuh"
#include "faults.hpp"
#include "makers.hpp"
#include "staged_copies.cuh"
#include "staged_halo.cuh"
#include "staged_whole.cuh"

namespace volley {

namespace {

using StagedPinned = Whole<gpu::PinnedBuffer, AsyncCopies>;

// Moves everything and then flips one bit of the last message of each batch on the device: another place each time.
class CorruptDevice final : public StagedPinned {
 public:
  void pingpong(const View& view, std::uint64_t exchanges) override {
    StagedPinned::pingpong(view, exchanges);
    if (exchanges > 0) flip(view);
  }
  void stream(const View& view, std::uint64_t windows, const Stream& stream) override {
    StagedPinned::stream(view, windows, stream);
    if (windows > 0) flip(view);
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
