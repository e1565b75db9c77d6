// Device memory. Kernels fill, poison and check it.
#include <algorithm>

#include "gpu/kernel_launch.cuh"

namespace volley::gpu {
namespace {

constexpr unsigned pattern_threads = 256;
constexpr unsigned max_pattern_blocks = 1024;
constexpr std::size_t word_bytes = sizeof(std::uint64_t);

inline unsigned pattern_blocks(std::size_t bytes) {
  const std::size_t threads = bytes / word_bytes + 1;
  return static_cast<unsigned>(
      std::clamp<std::size_t>((threads + pattern_threads - 1) / pattern_threads, 1, max_pattern_blocks));
}

// Calls `word(i)` for each whole word, if the start is aligned, and `byte(i)` for each other byte, with all threads.
template <class Word, class Byte>
__device__ void each_word(const std::uint8_t* at, std::uint64_t bytes, const Word& word, const Byte& byte) {
  const std::uint64_t thread = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  const std::uint64_t threads = gridDim.x * std::uint64_t{blockDim.x};
  const bool aligned = reinterpret_cast<std::uintptr_t>(at) % word_bytes == 0;
  const std::uint64_t words = aligned ? bytes / word_bytes : 0;
  for (std::uint64_t i = thread; i < words; i += threads) word(i);
  for (std::uint64_t i = words * word_bytes + thread; i < bytes; i += threads) byte(i);
}

template <class Generator>
__global__ void write_kernel(std::uint8_t* at, std::uint64_t bytes, Generator generator) {
  each_word(
      at, bytes, [&](std::uint64_t i) { reinterpret_cast<std::uint64_t*>(at)[i] = generator.word(i); },
      [&](std::uint64_t i) { at[i] = byte_of(generator.word(i / word_bytes), i); });
}

__device__ inline void add(WrongBytes& found, std::uint64_t offset, unsigned wrong) {
  atomicMin(&found.first, static_cast<unsigned long long>(offset));
  atomicAdd(&found.count, static_cast<unsigned long long>(wrong));
}

template <class Generator>
__global__ void compare_kernel(const std::uint8_t* at, std::uint64_t bytes, Generator generator, WrongBytes* found) {
  const auto word = [&](std::uint64_t i) {
    const std::uint64_t difference = reinterpret_cast<const std::uint64_t*>(at)[i] ^ generator.word(i);
    if (difference == 0) return;
    unsigned wrong = 0;
    for (unsigned byte = 0; byte < word_bytes; ++byte) wrong += byte_of(difference, byte) != 0;
    add(*found, i * word_bytes + (__ffsll(static_cast<long long>(difference)) - 1) / 8, wrong);
  };
  each_word(at, bytes, word, [&](std::uint64_t i) {
    if (at[i] != byte_of(generator.word(i / word_bytes), i)) add(*found, i, 1);
  });
}

// The large page of device memory. A message begins on a page, and an allocation is a whole number of pages. Other
// allocations appear to be mapped by smaller pages: the copy engine of an H200 then moves about 315 GB/s over NVLink
// instead of 394 (1 GiB).
constexpr std::size_t page_bytes = std::size_t{2} << 20;
static_assert(2 * page_bytes <= overhead_bytes_per_buffer);

// A page with the guard, a message of `capacity` bytes, and room for a guard or a fill after it.
constexpr std::size_t block_bytes(std::size_t capacity) {
  return page_bytes + round_up(capacity + fill_room_bytes, page_bytes);
}

class DeviceMemory final : public Memory {
 public:
  explicit DeviceMemory(Allocate allocate) : allocate_(std::move(allocate)), found_(3) {}

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

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    gpu::copy<anywhere>(to, from, bytes);
    synchronize_default_stream();
  }

  void synchronize() override { gpu::synchronize(); }

 private:
  void write_parts(std::span<const Part> parts) override {
    for (const Part& part : parts) {
      const auto launch = [&](const auto& generator) {
        write_kernel<<<pattern_blocks(part.bytes), pattern_threads>>>(reinterpret_cast<std::uint8_t*>(part.at),
                                                                      part.bytes, generator);
      };
      std::visit(launch, part.words);
      check_launch();
    }
    synchronize_default_stream();
  }

  std::vector<WrongBytes> compare_parts(std::span<const Part> parts) override {
    std::vector<WrongBytes> all(parts.size());
    gpu::copy<to_device>(found_.data(), all.data(), all.size() * sizeof all[0]);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      auto* const found = found_.data() + i;
      const auto launch = [&](const auto& generator) {
        compare_kernel<<<pattern_blocks(part.bytes), pattern_threads>>>(reinterpret_cast<const std::uint8_t*>(part.at),
                                                                        part.bytes, generator, found);
      };
      std::visit(launch, part.words);
      check_launch();
    }
    gpu::copy<to_host>(all.data(), found_.data(), all.size() * sizeof all[0]);
    return all;
  }

  Allocate allocate_;
  std::shared_ptr<std::byte> send_;
  std::shared_ptr<std::byte> recv_;
  DeviceValues<WrongBytes> found_;  // of a message and its two guards
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
