// `corrupt-device`: breaks on purpose, to show that verification on the device notices. Used only if a user names it.
#include "transport/flipped_bit.hpp"
#include "transport/staged/pinned.cuh"

namespace volley {

namespace {

// Flips one bit of the last message of each batch on the device, each time at another offset. The first halo at each of
// the two places arrives as it was sent; every later halo has a wrong bit.
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
  void start(const View& view) override {
    halo_bytes_ = view.bytes;
    StagedPinned::start(view);
  }
  void progress() override {}
  void finish() override {
    StagedPinned::finish();
    const FlippedBit bit(halos_++, halo_bytes_);
    if (halos_ > 2) bit.flip(arrived_halo());
  }

 private:
  void flip(const View& view) {
    const FlippedBit bit(batches_++, view.bytes);
    gpu::flip(view.recv + bit.byte(), bit.mask());
  }
  std::uint64_t batches_ = 0;
  std::size_t halo_bytes_ = 0;
  std::uint64_t halos_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_corrupt_device() { return std::make_unique<CorruptDevice>(); }

}  // namespace volley
