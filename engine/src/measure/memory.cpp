#include "measure/memory.hpp"

#include "gpu/gpu.hpp"

namespace volley {

std::unique_ptr<Memory> make_memory(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::host: return make_host_memory();
    case MemoryKind::device: return gpu::make_memory();
    case MemoryKind::none: break;
  }
  return nullptr;
}

}  // namespace volley
