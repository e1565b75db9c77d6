// A stand-in for libcuda.so.1 and libgdrapi.so.2: two GPUs, of which only the first reaches the second.
// FAKE_CUINIT is what cuInit returns; FAKE_GDR makes mappings fail ("map") or lie ("lie"). "Device memory" is malloc's.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

static int number(const char* name) { const char* text = getenv(name); return text ? atoi(text) : 0; }
static int is(const char* value) { const char* text = getenv("FAKE_GDR"); return text && strcmp(text, value) == 0; }

int cuInit(unsigned flags) { return flags ? 1 : number("FAKE_CUINIT"); }
int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
int cuDeviceGetCount(int* count) { *count = 2; return 0; }
int cuDeviceGet(int* device, int ordinal) { *device = 70 + ordinal; return ordinal < 2 ? 0 : 101; }
int cuDeviceGetName(char* name, int length, int device) { snprintf(name, length, "Fake %d", device - 70); return 0; }
int cuDeviceGetUuid(unsigned char* id, int device) { memset(id, device, 16); return 0; }
int cuDeviceTotalMem_v2(size_t* bytes, int device) { *bytes = device == 70 ? 6ull << 30 : 1; return 0; }
int cuDeviceGetPCIBusId(char* text, int length, int device) {
  snprintf(text, length, "0000:3B:0%d.0", device - 70);
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? 9 : attribute;
  return device >= 70 && attribute != 116 ? 0 : 1;  // this driver does not know GPU_DIRECT_RDMA_SUPPORTED
}
int cuDeviceCanAccessPeer(int* yes, int device, int peer) { *yes = device < peer; return 0; }
int cuGetErrorName(int status, const char** name) {
  *name = status == 100 ? "CUDA_ERROR_NO_DEVICE" : NULL;
  return *name ? 0 : 1;
}
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = (void*)(intptr_t)device; return 0; }
int cuCtxSetCurrent(void* context) { return context ? 0 : 1; }
int cuMemAlloc_v2(uint64_t* address, size_t bytes) { *address = (uint64_t)calloc(1, bytes); return 0; }
int cuMemAllocHost_v2(void** address, size_t bytes) { *address = calloc(1, bytes); return 0; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  memcpy((void*)to, from, bytes);
  return stream ? 1 : 0;
}
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) { memcpy(to, (void*)from, bytes); return 0; }
int cuStreamSynchronize(void* stream) { return stream ? 1 : 0; }
int cuMemFreeHost(void* address) { free(address); return 0; }
int cuMemFree_v2(uint64_t address) { free((void*)address); return 0; }

typedef struct { unsigned long h; } handle_t;
void* gdr_open(void) { return malloc(1); }
int gdr_runtime_get_version(int* major, int* minor) { *major = 2; *minor = 4; return 0; }
int gdr_pin_buffer(void* g, unsigned long address, size_t size, uint64_t token, uint32_t space, handle_t* handle) {
  handle->h = address;
  return g && size && !token && !space ? 0 : 22;
}
int gdr_map(void* g, handle_t handle, void** at, size_t size) {
  *at = (void*)handle.h;
  return g && size && !is("map") ? 0 : 22;
}
int gdr_copy_to_mapping(handle_t handle, void* at, const void* from, size_t size) {
  if (!is("lie")) memcpy(at, from, size);
  return handle.h ? 0 : 22;
}
int gdr_unmap(void* g, handle_t handle, void* at, size_t size) { return g && handle.h && at && size ? 0 : 22; }
int gdr_unpin_buffer(void* g, handle_t handle) { return g && handle.h ? 0 : 22; }
