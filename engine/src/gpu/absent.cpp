// A build without CUDA: there is no device, and this is why.
#include "gpu/gpu.hpp"

#include "base/errors.hpp"
#include "host/memory.hpp"

namespace volley::gpu {

Presence presence() { return {0, "this engine was built without CUDA"}; }

Device describe(int) { throw UnsupportedError("this engine was built without CUDA"); }

void select(int) { throw UnsupportedError("this engine was built without CUDA"); }

std::unique_ptr<Memory> make_memory() { throw UnsupportedError("this engine was built without CUDA"); }

}  // namespace volley::gpu
