// Device memory: allocated whole, filled, poisoned and checked by kernels where the data is.
#include <algorithm>
#include <array>

#include "gpu/check.cuh"
#include "gpu/gpu.hpp"
#include "host/memory.hpp"

namespace volley::gpu {

namespace {

constexpr int block_threads = 256;
constexpr int most_blocks = 1024;
// The large page of device memory. A message begins on one, and an allocation is a whole number of them: one that is
// not appears to be mapped by smaller pages, and the copy engine of an H200 then moves about 315 GB/s over NVLink
// instead of 394 (1 GiB).
constexpr std::size_t page_bytes = std::size_t{2} << 20;

// A message of `capacity` bytes behind one page that holds its guard, with room for the guard behind it.
constexpr std::size_t block_bytes(std::size_t capacity) {
  return page_bytes + (capacity + guard_bytes + page_bytes - 1) / page_bytes * page_bytes;
}
constexpr std::size_t word_bytes = sizeof(std::uint64_t);

enum class Kind { pattern, poison, guard };

__host__ __device__ std::uint64_t word_of(Kind kind, const Contents& contents, std::uint64_t word) {
  switch (kind) {
    case Kind::pattern: return contents.word(word);
    case Kind::poison: return ~contents.word(word);
    case Kind::guard: return guard_word(contents.seed, word);
  }
  return 0;
}

// One byte of `word`.
__device__ std::uint8_t byte_of(std::uint64_t word, std::uint64_t byte) {
  return static_cast<std::uint8_t>(word >> (8 * (byte % word_bytes)));
}

__global__ void write_kernel(std::uint8_t* at, std::uint64_t bytes, Contents contents, Kind kind) {
  const std::uint64_t thread = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  const std::uint64_t threads = gridDim.x * std::uint64_t{blockDim.x};
  // The middle as whole aligned words where the start is aligned, every other byte by itself.
  const bool aligned = reinterpret_cast<std::uintptr_t>(at) % word_bytes == 0;
  const std::uint64_t words = aligned ? bytes / word_bytes : 0;
  for (std::uint64_t i = thread; i < words; i += threads) {
    reinterpret_cast<std::uint64_t*>(at)[i] = word_of(kind, contents, i);
  }
  for (std::uint64_t i = words * word_bytes + thread; i < bytes; i += threads) {
    at[i] = byte_of(word_of(kind, contents, i / word_bytes), i);
  }
}

// What a check found: the lowest wrong offset (all bits set: none), and how many bytes are wrong.
struct Found {
  unsigned long long first;
  unsigned long long wrong;
};

__device__ void complain(Found* found, std::uint64_t offset, unsigned wrong) {
  atomicMin(&found->first, static_cast<unsigned long long>(offset));
  atomicAdd(&found->wrong, static_cast<unsigned long long>(wrong));
}

__global__ void check_kernel(const std::uint8_t* at, std::uint64_t bytes, Contents contents, Kind kind, Found* found) {
  const std::uint64_t thread = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  const std::uint64_t threads = gridDim.x * std::uint64_t{blockDim.x};
  const bool aligned = reinterpret_cast<std::uintptr_t>(at) % word_bytes == 0;
  const std::uint64_t words = aligned ? bytes / word_bytes : 0;
  for (std::uint64_t i = thread; i < words; i += threads) {
    const std::uint64_t difference = reinterpret_cast<const std::uint64_t*>(at)[i] ^ word_of(kind, contents, i);
    if (difference == 0) continue;
    unsigned wrong = 0;
    for (unsigned byte = 0; byte < word_bytes; ++byte) wrong += byte_of(difference, byte) != 0;
    complain(found, i * word_bytes + (__ffsll(static_cast<long long>(difference)) - 1) / 8, wrong);
  }
  for (std::uint64_t i = words * word_bytes + thread; i < bytes; i += threads) {
    if (at[i] != byte_of(word_of(kind, contents, i / word_bytes), i)) complain(found, i, 1);
  }
}

int blocks_for(std::size_t bytes) {
  const std::size_t threads = bytes / word_bytes + 1;
  return static_cast<int>(std::clamp<std::size_t>((threads + block_threads - 1) / block_threads, 1, most_blocks));
}

class Allocation {
 public:
  Allocation() = default;
  explicit Allocation(std::size_t bytes) { VOLLEY_CUDA_CHECK(cudaMalloc(&data_, bytes)); }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  Allocation(Allocation&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Allocation& operator=(Allocation&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~Allocation() { cudaFree(data_); }
  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

class DeviceMemory final : public Memory {
 public:
  DeviceMemory() : found_(sizeof(RegionFindings)) {}

  Buffers reserve(std::size_t capacity) override {
    release();
    const std::size_t block = block_bytes(capacity);
    send_ = Allocation(block);
    recv_ = Allocation(block);
    return {send_.data() + page_bytes, recv_.data() + page_bytes};
  }

  void release() override {
    send_ = Allocation();
    recv_ = Allocation();
  }

  std::uint64_t available() const override {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    VOLLEY_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    return free_bytes;
  }

  void fill(std::byte* message, std::size_t bytes, const Contents& contents) override {
    write(message, bytes, contents, Kind::pattern);
    VOLLEY_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  }

  void poison(std::byte* message, std::size_t bytes, const Contents& expected) override {
    write(message - guard_bytes, guard_bytes, expected, Kind::guard);
    write(message, bytes, expected, Kind::poison);
    write(message + bytes, guard_bytes, expected, Kind::guard);
    VOLLEY_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  }

  std::optional<Mismatch> check(const std::byte* message, std::size_t bytes, const Contents& expected) override {
    const GuardedRegions regions{GuardedRegion{message - guard_bytes, guard_bytes, Kind::guard},
                                 GuardedRegion{message, bytes, Kind::pattern},
                                 GuardedRegion{message + bytes, guard_bytes, Kind::guard}};
    const RegionFindings findings = look(regions, expected);
    std::optional<Mismatch> sum;
    for (std::size_t i = 0; i < regions.size(); ++i) {
      const Found& found = findings[i];
      if (found.wrong == 0) continue;
      if (sum) sum->wrong_bytes += found.wrong;
      else sum = mismatch(regions[i], found, regions[i].at - message, expected);
    }
    return sum;
  }

  void read(std::byte* host, const std::byte* from, std::size_t bytes) override {
    VOLLEY_CUDA_CHECK(cudaMemcpy(host, from, bytes, cudaMemcpyDeviceToHost));
  }

  void settle() override { VOLLEY_CUDA_CHECK(cudaDeviceSynchronize()); }

 private:
  void write(std::byte* at, std::size_t bytes, const Contents& contents, Kind kind) {
    write_kernel<<<blocks_for(bytes), block_threads>>>(reinterpret_cast<std::uint8_t*>(at), bytes, contents, kind);
    VOLLEY_CUDA_CHECK(cudaGetLastError());
  }

  // A message with what is in front of it and behind it.
  struct GuardedRegion {
    const std::byte* at;
    std::size_t bytes;
    Kind kind;
  };
  using GuardedRegions = std::array<GuardedRegion, 3>;
  using RegionFindings = std::array<Found, 3>;

  RegionFindings look(const GuardedRegions& regions, const Contents& expected) {
    RegionFindings findings;
    findings.fill({~0ULL, 0});
    VOLLEY_CUDA_CHECK(cudaMemcpy(found_.data(), findings.data(), sizeof findings, cudaMemcpyHostToDevice));
    for (std::size_t i = 0; i < regions.size(); ++i) {
      const auto& [at, bytes, kind] = regions[i];
      check_kernel<<<blocks_for(bytes), block_threads>>>(reinterpret_cast<const std::uint8_t*>(at), bytes, expected,
                                                         kind, reinterpret_cast<Found*>(found_.data()) + i);
      VOLLEY_CUDA_CHECK(cudaGetLastError());
    }
    VOLLEY_CUDA_CHECK(cudaMemcpy(findings.data(), found_.data(), sizeof findings, cudaMemcpyDeviceToHost));
    return findings;
  }

  // The first wrong byte of a region that begins `origin` bytes behind the message's start.
  static Mismatch mismatch(const GuardedRegion& region, const Found& found, std::int64_t origin,
                           const Contents& contents) {
    std::uint8_t actual = 0;
    VOLLEY_CUDA_CHECK(cudaMemcpy(&actual, region.at + found.first, 1, cudaMemcpyDeviceToHost));
    const std::uint64_t word = word_of(region.kind, contents, found.first / word_bytes);
    const auto expected = static_cast<std::uint8_t>(word >> (8 * (found.first % word_bytes)));
    return Mismatch{0, static_cast<std::int64_t>(found.first) + origin, expected, actual, found.wrong};
  }

  Allocation send_;
  Allocation recv_;
  Allocation found_;
};

}  // namespace

std::unique_ptr<Memory> make_memory() { return std::make_unique<DeviceMemory>(); }

}  // namespace volley::gpu
