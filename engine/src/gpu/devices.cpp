// The devices, and what they can do.
#include <cudaTypedefs.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

#include "gpu/runtime.hpp"

namespace volley::gpu {
namespace {

std::string formatted_uuid(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits.data();
  }
  return text;
}

// "13.0" from 13000.
std::string formatted_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Resets an error that a call has returned already, so that the next check does not find it again.
void clear_error() { static_cast<void>(cudaGetLastError()); }

// The driver's function of that name, with the signature that it has `since_cuda`: 1000 * major + 10 * minor.
template <class Function>
Function driver_function(const char* name, unsigned since_cuda) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  VOLLEY_CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &function, since_cuda, cudaEnableDefault, &found));
#else  // the signature is the one of the toolkit, which is the same for these functions
  static_cast<void>(since_cuda);
  VOLLEY_CUDA_CHECK(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found));
#endif
  if (found != cudaDriverEntryPointSuccess) throw std::runtime_error(std::string("the NVIDIA driver has no ") + name);
  return reinterpret_cast<Function>(function);
}

void check_driver(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  throw std::runtime_error(std::string(call) + " failed with error " + std::to_string(static_cast<int>(status)));
}

}  // namespace

Presence presence() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return {devices, {}};
  clear_error();
  if (status == cudaSuccess || status == cudaErrorNoDevice) return {0, "CUDA sees no device"};
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0) return {0, "no NVIDIA driver"};
    return {0, "the NVIDIA driver is too old: it supports CUDA " + formatted_version(driver) + ", this engine needs " +
                   formatted_version(CUDART_VERSION)};
  }
  return {0, std::string("cudaGetDeviceCount failed: ") + cudaGetErrorString(status)};
}

Device describe(int index) {
  cudaDeviceProp properties{};
  VOLLEY_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  std::array<char, 32> pci{};
  VOLLEY_CUDA_CHECK(cudaDeviceGetPCIBusId(pci.data(), pci.size(), index));
  std::string address = pci.data();
  std::transform(address.begin(), address.end(), address.begin(), [](unsigned char c) { return std::tolower(c); });
  return {index,
          properties.name,
          formatted_uuid(properties.uuid),
          address,
          std::to_string(properties.major) + "." + std::to_string(properties.minor),
          properties.totalGlobalMem};
}

void select(int index) { VOLLEY_CUDA_CHECK(cudaSetDevice(index)); }

std::uint64_t free_memory_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  VOLLEY_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return free_bytes;
}

unsigned multiprocessors(int index) {
  int value = 0;
  VOLLEY_CUDA_CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, index));
  return static_cast<unsigned>(value);
}

bool can_access_peer(int from, int to) {
  int can = 0;
  VOLLEY_CUDA_CHECK(cudaDeviceCanAccessPeer(&can, from, to));
  return can != 0;
}

bool enable_peer_access(int to) {
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  clear_error();
  return status == cudaSuccess || status == cudaErrorPeerAccessAlreadyEnabled;
}

std::string device_error(int index) {
  clear_error();
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  cudaError_t status = cudaSetDevice(index);
  if (status == cudaSuccess) status = cudaMemGetInfo(&free_bytes, &total_bytes);
  return status == cudaSuccess ? "" : cudaGetErrorString(status);
}

Block block_of(const std::byte* place) {
  // The 64-bit signature came with CUDA 3.2.
  static const auto address_range = driver_function<PFN_cuMemGetAddressRange_v3020>("cuMemGetAddressRange", 3020);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  check_driver(address_range(&base, &bytes, reinterpret_cast<CUdeviceptr>(place)), "cuMemGetAddressRange");
  return {reinterpret_cast<std::byte*>(base), bytes};
}

ModuleHandle module_containing(const void* kernel) {
  static const auto module_of_function = driver_function<PFN_cuFuncGetModule_v11000>("cuFuncGetModule", 11000);
  cudaFunction_t function = nullptr;
  VOLLEY_CUDA_CHECK(cudaGetFuncBySymbol(&function, kernel));
  CUmodule found = nullptr;
  check_driver(module_of_function(&found, function), "cuFuncGetModule");
  return found;
}

}  // namespace volley::gpu
