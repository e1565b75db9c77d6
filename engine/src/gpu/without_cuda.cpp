// A build without CUDA has no device; this is the reason that it reports.
#include "base/errors.hpp"
#include "gpu/gpu.hpp"
#include "host/memory.hpp"

namespace volley::gpu {
namespace {

constexpr const char* why = "this engine has no CUDA; build it with VOLLEY_CUDA=ON";

}  // namespace

Presence presence() { return {0, why}; }

Device describe(int) { throw UnsupportedError(why); }

void select(int) { throw UnsupportedError(why); }

std::unique_ptr<Memory> make_memory(Allocate) { throw UnsupportedError(why); }

}  // namespace volley::gpu
