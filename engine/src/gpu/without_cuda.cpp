// A build without CUDA has no device; this is the reason that it reports.
#include <filesystem>

#include "base/errors.hpp"
#include "gpu/gpu.hpp"

namespace volley::gpu {
namespace {

constexpr const char* why = "this engine was built without CUDA; build it again with VOLLEY_CUDA=ON";

// The device files of the driver, on Linux and under WSL: without them another build would find no GPU either.
bool has_driver() {
  std::error_code ignored;
  return std::filesystem::exists("/dev/nvidiactl", ignored) || std::filesystem::exists("/dev/dxg", ignored);
}

}  // namespace

Presence presence() { return {0, has_driver() ? why : "no NVIDIA GPU here"}; }

Device describe(int) { throw UnsupportedError(why); }

void select(int) { throw UnsupportedError(why); }

std::unique_ptr<Memory> make_memory(Allocate) { throw UnsupportedError(why); }

}  // namespace volley::gpu
