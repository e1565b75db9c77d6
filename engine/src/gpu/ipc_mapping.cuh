// Device memory of another process of this node, mapped into this one through CUDA IPC.
#pragma once

#include <cstddef>

#include "gpu/check.cuh"

namespace volley::gpu {

// Names an allocation for other processes; it can be sent as bytes.
using IpcHandle = cudaIpcMemHandle_t;

// The handle of the allocation at `base`.
[[nodiscard]] inline IpcHandle ipc_handle(std::byte* base) {
  IpcHandle handle{};
  VOLLEY_CUDA_CHECK(cudaIpcGetMemHandle(&handle, base));
  return handle;
}

// A mapping must be closed before the process that allocated the memory frees it: the other order is undefined (CUDA
// Runtime API, cudaIpcOpenMemHandle). One allocation may be mapped several times; the driver counts. The device of the
// memory need not be visible to this process.
class IpcMapping {
 public:
  IpcMapping() = default;
  explicit IpcMapping(const IpcHandle& handle) {
    void* data = nullptr;
    VOLLEY_CUDA_CHECK(cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess));
    handle_.reset(static_cast<std::byte*>(data));
  }
  [[nodiscard]] std::byte* data() const noexcept { return handle_.get(); }

 private:
  Owned<std::byte, cudaIpcCloseMemHandle> handle_;
};

}  // namespace volley::gpu
