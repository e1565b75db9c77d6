// A build without CUDA: there is no device, and this is why.
#include "gpu.hpp"

#include "../check.hpp"
#include "../memory.hpp"

namespace volley::gpu {

Presence presence() { return {0, "this engine was built without CUDA"}; }

Device describe(int) { throw Inability("this engine was built without CUDA"); }

void select(int) { throw Inability("this engine was built without CUDA"); }

std::unique_ptr<Memory> make_memory() { throw Inability("this engine was built without CUDA"); }

}  // namespace volley::gpu
