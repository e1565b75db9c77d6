// On a GPU: what the kernels write is what the host would write, and every flipped byte is found where it is.
#include "expect.hpp"
#include "gpu/gpu.hpp"
#include "gpu/runtime.hpp"
#include "messages/memory.hpp"

#include <cstdio>
#include <vector>

using namespace volley;

namespace {

constexpr std::size_t lengths[] = {1, 3, 8, 9, 64, 100, 4097, 1000003};
constexpr int nothing_to_test_on = 77;

// The message and its guards, as the host sees them.
std::vector<std::byte> copied(const std::byte* message, std::size_t bytes) {
  std::vector<std::byte> host(bytes + 2 * guard_bytes);
  gpu::copy<gpu::to_host>(host.data(), message - guard_bytes, host.size());
  return host;
}

void device_and_host_write_the_same(Memory& memory, std::byte* message) {
  const auto host = make_host_memory();
  for (const auto bytes : lengths) {
    std::vector<std::byte> expected(bytes + 2 * guard_bytes);
    host->poison(expected.data() + guard_bytes, bytes, 43);
    memory.poison(message, bytes, 43);
    EXPECT(copied(message, bytes) == expected);
    EXPECT(memory.check(message, bytes, 43)->wrong_bytes == bytes);
    host->fill(expected.data() + guard_bytes, bytes, 43);
    memory.fill(message, bytes, 43);
    EXPECT(copied(message, bytes) == expected);
    EXPECT(!memory.check(message, bytes, 43));
  }
}

void every_place_is_looked_at(Memory& memory, std::byte* message) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{4097}}) {
    memory.poison(message, bytes, 8);
    memory.fill(message, bytes, 8);
    for (std::size_t i = 0; i < bytes + 2 * guard_bytes; i += bytes > 1000 ? 37 : 1) {
      std::byte* const place = message - guard_bytes + i;
      std::byte kept{};
      gpu::copy<gpu::to_host>(&kept, place, 1);
      const std::byte flipped = kept ^ std::byte{16};
      gpu::copy<gpu::to_device>(place, &flipped, 1);
      const auto found = memory.check(message, bytes, 8);
      const auto offset = static_cast<std::int64_t>(i) - static_cast<std::int64_t>(guard_bytes);
      EXPECT(found && found->offset_bytes == offset && found->wrong_bytes == 1);
      EXPECT(found && found->found == static_cast<std::uint8_t>(flipped) &&
             found->expected == static_cast<std::uint8_t>(kept));
      gpu::copy<gpu::to_device>(place, &kept, 1);
    }
  }
}

}  // namespace

int main() {
  const auto presence = gpu::presence();
  if (presence.devices == 0) {
    std::printf("%s\n", presence.reason.c_str());
    return nothing_to_test_on;
  }
  gpu::select(0);
  const auto memory = gpu::make_memory();
  const Buffers buffers = memory->reserve(1 << 20);
  EXPECT(reinterpret_cast<std::uintptr_t>(buffers.recv) % (std::size_t{2} << 20) == 0);
  device_and_host_write_the_same(*memory, buffers.recv);
  every_place_is_looked_at(*memory, buffers.send);
  return test::finish();
}
