// Elements on the current device, written and compared by kernels there.
#include "benchmark/collective/contents.hpp"
#include "gpu/kernel_launch.cuh"
#include "gpu/kernels/pattern.cuh"
#include "gpu/runtime.hpp"

namespace volley {

namespace {

using gpu::kernels::WrongBytes;

__global__ void write_elements(std::uint32_t* at, Elements elements, std::uint32_t mask) {
  const std::uint64_t threads = gridDim.x * std::uint64_t{blockDim.x};
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < elements.count; i += threads) {
    at[i] = elements.at(i) ^ mask;
  }
}

__global__ void compare_elements(const std::uint32_t* at, Elements elements, WrongBytes* found) {
  const std::uint64_t threads = gridDim.x * std::uint64_t{blockDim.x};
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < elements.count; i += threads) {
    const unsigned wrong = bytes_apart(at[i], elements.at(i));
    if (wrong > 0) found->add(i, wrong);
  }
}

class DeviceElements final : public ElementMemory {
 public:
  DeviceElements() : found_(sizeof(WrongBytes)) {}

  void write(std::byte* at, const Elements& elements) override { put(at, elements, 0); }
  void write_opposite(std::byte* at, const Elements& elements) override { put(at, elements, ~std::uint32_t{0}); }

  WrongElements compare(const std::byte* at, const Elements& elements) override {
    WrongBytes wrong{~0ULL, 0};
    gpu::copy_to_device(found_.data(), &wrong, sizeof wrong);
    compare_elements<<<blocks(elements), gpu::kernels::pattern_threads>>>(
        reinterpret_cast<const std::uint32_t*>(at), elements, reinterpret_cast<WrongBytes*>(found_.data()));
    gpu::check_launch();
    gpu::copy_to_host(&wrong, found_.data(), sizeof wrong);
    if (wrong.count == 0) return {};
    WrongElements first{.first = wrong.first, .found = 0, .bytes = wrong.count};
    gpu::copy_to_host(&first.found, at + wrong.first * element_bytes, element_bytes);
    return first;
  }

 private:
  static unsigned blocks(const Elements& elements) {
    return gpu::kernels::pattern_blocks(elements.count * gpu::kernels::word_bytes);  // an element a thread
  }
  static void put(std::byte* at, const Elements& elements, std::uint32_t mask) {
    write_elements<<<blocks(elements), gpu::kernels::pattern_threads>>>(reinterpret_cast<std::uint32_t*>(at), elements,
                                                                        mask);
    gpu::check_launch();
    gpu::synchronize_default_stream();
  }

  gpu::DeviceBuffer found_;  // WrongBytes
};

}  // namespace

std::unique_ptr<ElementMemory> make_device_elements() { return std::make_unique<DeviceElements>(); }

}  // namespace volley
