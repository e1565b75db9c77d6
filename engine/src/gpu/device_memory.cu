// Device memory. Kernels fill, poison and check it.
#include <array>

#include "gpu/gpu.hpp"
#include "gpu/kernel_launch.cuh"
#include "gpu/kernels/pattern.cuh"
#include "gpu/runtime.hpp"
#include "host/memory.hpp"

namespace volley::gpu {

namespace {

using kernels::Fill;
using kernels::WrongBytes;

// The large page of device memory. A message begins on a page, and an allocation is a whole number of pages. Other
// allocations appear to be mapped by smaller pages: the copy engine of an H200 then moves about 315 GB/s over NVLink
// instead of 394 (1 GiB).
constexpr std::size_t page_bytes = std::size_t{2} << 20;
static_assert(2 * page_bytes <= overhead_bytes_per_buffer);

// A page with the guard, a message of `capacity` bytes, and room for a guard or a fill behind it.
constexpr std::size_t block_bytes(std::size_t capacity) {
  return page_bytes + round_up(capacity + fill_room_bytes, page_bytes);
}

// A message, or a guard before or behind it.
struct CheckedRange {
  const std::byte* at;
  std::size_t bytes;
  Fill fill;
};

class DeviceMemory final : public Memory {
 public:
  explicit DeviceMemory(Allocate allocate) : allocate_(std::move(allocate)), found_(sizeof(AllWrongBytes)) {}

  Buffers reserve(std::size_t capacity) override {
    release();
    const std::size_t block = block_bytes(capacity);
    send_ = allocate_(block);
    recv_ = allocate_(block);
    return {send_.get() + page_bytes, recv_.get() + page_bytes, capacity};
  }

  void release() override {
    send_ = {};
    recv_ = {};
  }

  std::uint64_t available() const override { return free_memory_bytes(); }

  void fill(std::byte* message, std::size_t bytes, const Contents& contents) override {
    write(message, bytes, contents, Fill::pattern);
    synchronize_default_stream();
  }

  void poison(std::byte* message, std::size_t bytes, const Contents& expected) override {
    write(message - guard_bytes, guard_bytes, expected, Fill::guard);
    write(message, bytes, expected, Fill::poison);
    write(message + bytes, guard_bytes, expected, Fill::guard);
    synchronize_default_stream();
  }

  std::optional<Mismatch> check(const std::byte* message, std::size_t bytes, const Contents& expected) override {
    const std::array ranges{CheckedRange{message - guard_bytes, guard_bytes, Fill::guard},
                            CheckedRange{message, bytes, Fill::pattern},
                            CheckedRange{message + bytes, guard_bytes, Fill::guard}};
    const AllWrongBytes all = compare(ranges, expected);
    std::optional<Mismatch> sum;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      if (all[i].count == 0) continue;
      if (sum) sum->wrong_bytes += all[i].count;
      else sum = mismatch(ranges[i], all[i], ranges[i].at - message, expected);
    }
    return sum;
  }

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override { gpu::copy(to, from, bytes); }

  void synchronize() override { gpu::synchronize(); }

 private:
  using AllWrongBytes = std::array<WrongBytes, 3>;

  void write(std::byte* at, std::size_t bytes, const Contents& contents, Fill fill) {
    kernels::write_contents<<<kernels::pattern_blocks(bytes), kernels::pattern_threads>>>(
        reinterpret_cast<std::uint8_t*>(at), bytes, contents, fill);
    check_launch();
  }

  AllWrongBytes compare(const std::array<CheckedRange, 3>& ranges, const Contents& expected) {
    AllWrongBytes all;
    all.fill({~0ULL, 0});
    copy_to_device(found_.data(), all.data(), sizeof all);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const auto& [at, bytes, fill] = ranges[i];
      kernels::check_contents<<<kernels::pattern_blocks(bytes), kernels::pattern_threads>>>(
          reinterpret_cast<const std::uint8_t*>(at), bytes, expected, fill,
          reinterpret_cast<WrongBytes*>(found_.data()) + i);
      check_launch();
    }
    copy_to_host(all.data(), found_.data(), sizeof all);
    return all;
  }

  // The first wrong byte of a range that begins `origin` bytes behind the message's start.
  static Mismatch mismatch(const CheckedRange& range, const WrongBytes& wrong, std::int64_t origin,
                           const Contents& contents) {
    std::uint8_t actual = 0;
    copy_to_host(&actual, range.at + wrong.first, 1);
    const std::uint64_t word = kernels::word_of(range.fill, contents, wrong.first / kernels::word_bytes);
    return Mismatch{0, static_cast<std::int64_t>(wrong.first) + origin, kernels::byte_of(word, wrong.first), actual,
                    wrong.count};
  }

  Allocate allocate_;
  std::shared_ptr<std::byte> send_;
  std::shared_ptr<std::byte> recv_;
  DeviceBuffer found_;  // AllWrongBytes
};

std::shared_ptr<std::byte> allocated(std::size_t bytes) {
  const auto buffer = std::make_shared<DeviceBuffer>(bytes);
  return {buffer, buffer->data()};
}

}  // namespace

std::unique_ptr<Memory> make_memory(Allocate allocate) {
  return std::make_unique<DeviceMemory>(allocate ? std::move(allocate) : allocated);
}

}  // namespace volley::gpu
