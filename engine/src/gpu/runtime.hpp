// What the engine takes of CUDA's runtime: errors as exceptions, memory, streams and events that destroy themselves,
// copies, and what only the driver tells. No kernels: any C++ compiler compiles it.
#pragma once

#include <cuda_runtime.h>

#include "base/errors.hpp"
#include "gpu/gpu.hpp"

struct CUmod_st;

namespace volley::gpu {

inline void check(cudaError_t status, const char* call, std::source_location where = std::source_location::current()) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // resets the error, so that the next check of a kernel launch does not find it
  throw std::runtime_error(std::string(call) + " failed: " + cudaGetErrorString(status) + " (" +
                           cudaGetErrorName(status) + ", " + in_sources(where) + ")");
}

// Calls the function of CUDA that frees a handle.
template <auto function>
struct Destroy {
  template <class Object>
  void operator()(Object* handle) const noexcept {
    function(handle);
  }
};

template <class Object, auto function>
using Owned = std::unique_ptr<Object, Destroy<function>>;

#define VOLLEY_CUDA_CHECK(call) ::volley::gpu::check((call), #call)

// --- copies by the copy engines; inline: several are called inside timed regions ---

inline constexpr cudaMemcpyKind to_host = cudaMemcpyDeviceToHost;
inline constexpr cudaMemcpyKind to_device = cudaMemcpyHostToDevice;
inline constexpr cudaMemcpyKind on_device = cudaMemcpyDeviceToDevice;
inline constexpr cudaMemcpyKind anywhere = cudaMemcpyDefault;  // between any two places

// From pageable memory to a device this may return as soon as the driver has the bytes, before they are on the device
// (CUDA Runtime API, "API synchronization behavior"); synchronize_default_stream() waits for them.
template <cudaMemcpyKind way>
void copy(void* to, const void* from, std::size_t bytes) {
  VOLLEY_CUDA_CHECK(cudaMemcpy(to, from, bytes, way));
}

template <cudaMemcpyKind way>
void copy_async(void* to, const void* from, std::size_t bytes, StreamHandle cuda_stream) {
  VOLLEY_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, way, cuda_stream));
}

// Copies `count` elements. On the device each element is `pitch_bytes` after the one before.
inline void copy_column_to_device(void* device, std::size_t pitch_bytes, const void* host, std::size_t element_bytes,
                                  std::size_t count) {
  VOLLEY_CUDA_CHECK(
      cudaMemcpy2D(device, pitch_bytes, host, element_bytes, element_bytes, count, cudaMemcpyHostToDevice));
}

// Between two devices; through the host if there is no peer access.
inline void copy_peer_async(void* to, int receiver, const void* from, int sender, std::size_t bytes,
                            StreamHandle cuda_stream) {
  VOLLEY_CUDA_CHECK(cudaMemcpyPeerAsync(to, receiver, from, sender, bytes, cuda_stream));
}

inline void synchronize() { VOLLEY_CUDA_CHECK(cudaDeviceSynchronize()); }
inline void synchronize_default_stream() { VOLLEY_CUDA_CHECK(cudaStreamSynchronize(nullptr)); }

// Complete at the end, as is what was launched on the default stream before.
inline void zero(void* device, std::size_t bytes) {
  VOLLEY_CUDA_CHECK(cudaMemset(device, 0, bytes));
  synchronize_default_stream();
}

// Values that `free` releases. They are not initialised.
template <class Value, auto free>
class OwnedValues {
 public:
  [[nodiscard]] Value* data() const noexcept { return handle_.get(); }

 protected:
  Owned<Value, free> handle_;
};

template <class Value>
struct DeviceValues : OwnedValues<Value, cudaFree> {
  DeviceValues() = default;
  explicit DeviceValues(std::size_t count) {
    void* data = nullptr;
    VOLLEY_CUDA_CHECK(cudaMalloc(&data, count * sizeof(Value)));
    this->handle_.reset(static_cast<Value*>(data));
  }
};
using DeviceBuffer = DeviceValues<std::byte>;

// In page-locked host memory.
template <class Value>
struct PinnedValues : OwnedValues<Value, cudaFreeHost> {
  PinnedValues() = default;
  explicit PinnedValues(std::size_t count) {
    void* data = nullptr;
    VOLLEY_CUDA_CHECK(cudaHostAlloc(&data, count * sizeof(Value), cudaHostAllocDefault));
    this->handle_.reset(static_cast<Value*>(data));
  }
};
using PinnedBuffer = PinnedValues<std::byte>;

// Page-locks host memory for the current device. The memory must outlive the registration.
struct Registration : OwnedValues<std::byte, cudaHostUnregister> {
  Registration() = default;
  Registration(std::byte* memory, std::size_t bytes) {
    VOLLEY_CUDA_CHECK(cudaHostRegister(memory, bytes, cudaHostRegisterDefault));
    handle_.reset(memory);
  }
};

// Names an allocation for other processes; it can be sent as bytes.
using IpcHandle = cudaIpcMemHandle_t;

[[nodiscard]] inline IpcHandle ipc_handle(void* base) {
  IpcHandle handle{};
  VOLLEY_CUDA_CHECK(cudaIpcGetMemHandle(&handle, base));
  return handle;
}

// Device memory of another process of this node, mapped into this one through CUDA IPC.
//
// A mapping must be closed before the process that allocated the memory frees it: the other order is undefined (CUDA
// Runtime API, cudaIpcOpenMemHandle). One allocation may be mapped several times; the driver counts. The device of the
// memory need not be visible to this process.
struct IpcMapping : OwnedValues<std::byte, cudaIpcCloseMemHandle> {
  IpcMapping() = default;
  explicit IpcMapping(const IpcHandle& handle) {
    void* data = nullptr;
    VOLLEY_CUDA_CHECK(cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess));
    handle_.reset(static_cast<std::byte*>(data));
  }
};

// --- streams and events; both are empty at first ---

inline bool is_complete(cudaError_t status, const char* call) {
  if (status != cudaErrorNotReady) check(status, call);
  else cudaGetLastError();  // not an error: the next check of a kernel launch must not find it
  return status == cudaSuccess;
}

class Event;

class Stream {
 public:
  Stream() = default;

  // A stream of the current device that does not wait for the default stream.
  [[nodiscard]] static Stream make() { return with_priority(0); }

  // A stream of the highest priority: its blocks are scheduled before waiting blocks of other streams.
  [[nodiscard]] static Stream urgent() {
    int least = 0;
    int most = 0;
    VOLLEY_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &most));
    return with_priority(most);
  }

  [[nodiscard]] StreamHandle get() const noexcept { return handle_.get(); }
  void synchronize() const { VOLLEY_CUDA_CHECK(cudaStreamSynchronize(get())); }

  // Work that is enqueued from here on waits for the event's last record().
  void wait_for(const Event& event) const;

  // Whether the stream has work that is not complete.
  [[nodiscard]] bool busy() const { return !is_complete(cudaStreamQuery(get()), "cudaStreamQuery"); }

 private:
  [[nodiscard]] static Stream with_priority(int priority) {
    StreamHandle cuda_stream = nullptr;
    VOLLEY_CUDA_CHECK(cudaStreamCreateWithPriority(&cuda_stream, cudaStreamNonBlocking, priority));
    Stream made;
    made.handle_.reset(cuda_stream);
    return made;
  }

  Owned<CUstream_st, cudaStreamDestroy> handle_;
};

class Event {
 public:
  Event() = default;

  // An event of the current device without a time stamp.
  [[nodiscard]] static Event make() { return with_flags(cudaEventDisableTiming); }
  // An event with a time stamp.
  [[nodiscard]] static Event timed() { return with_flags(cudaEventDefault); }

  void record(const Stream& cuda_stream) const { VOLLEY_CUDA_CHECK(cudaEventRecord(get(), cuda_stream.get())); }

  // Whether everything before the last record() is complete; the host then sees its data.
  [[nodiscard]] bool complete() const { return is_complete(cudaEventQuery(get()), "cudaEventQuery"); }

  // Seconds from another timed event to this one; both are complete.
  [[nodiscard]] double seconds_since(const Event& earlier) const {
    float elapsed_ms = 0;
    VOLLEY_CUDA_CHECK(cudaEventElapsedTime(&elapsed_ms, earlier.get(), get()));
    return static_cast<double>(elapsed_ms) * 1e-3;
  }

 private:
  friend class Stream;
  [[nodiscard]] cudaEvent_t get() const noexcept { return handle_.get(); }
  [[nodiscard]] static Event with_flags(unsigned flags) {
    cudaEvent_t event = nullptr;
    VOLLEY_CUDA_CHECK(cudaEventCreateWithFlags(&event, flags));
    Event made;
    made.handle_.reset(event);
    return made;
  }

  Owned<CUevent_st, cudaEventDestroy> handle_;
};

inline void Stream::wait_for(const Event& event) const {
  VOLLEY_CUDA_CHECK(cudaStreamWaitEvent(get(), event.get(), 0));
}

// Work of a stream that is enqueued as a whole.
class Graph {
 public:
  Graph() = default;

  // What `enqueue` puts into the stream, which does not run; ready to be launched.
  template <class Enqueue>
  [[nodiscard]] static Graph captured(const Stream& cuda_stream, const Enqueue& enqueue) {
    VOLLEY_CUDA_CHECK(cudaStreamBeginCapture(cuda_stream.get(), cudaStreamCaptureModeThreadLocal));
    enqueue();
    cudaGraph_t work = nullptr;
    VOLLEY_CUDA_CHECK(cudaStreamEndCapture(cuda_stream.get(), &work));
    const Owned<CUgraph_st, cudaGraphDestroy> owned(work);
    cudaGraphExec_t ready = nullptr;
    VOLLEY_CUDA_CHECK(cudaGraphInstantiateWithFlags(&ready, work, 0));
    Graph made;
    made.handle_.reset(ready);
    VOLLEY_CUDA_CHECK(cudaGraphUpload(ready, cuda_stream.get()));
    cuda_stream.synchronize();
    return made;
  }

  [[nodiscard]] bool empty() const noexcept { return handle_ == nullptr; }
  void launch(const Stream& cuda_stream) const { VOLLEY_CUDA_CHECK(cudaGraphLaunch(handle_.get(), cuda_stream.get())); }

 private:
  Owned<CUgraphExec_st, cudaGraphExecDestroy> handle_;
};

// Times work on the device with a pair of events around each piece of it. The time stamps take the device a few
// microseconds (on an H200 a kernel of 68 µs was measured as 71).
class Stopwatch {
 public:
  // Makes the events of this many laps; begin() makes those that are missing.
  void reserve(std::size_t laps) {
    while (laps_.size() < laps) laps_.push_back({Event::timed(), Event::timed()});
  }
  void begin(const Stream& cuda_stream) {
    reserve(used_ + 1);
    laps_[used_].begun.record(cuda_stream);
  }
  void end(const Stream& cuda_stream) { laps_[used_++].ended.record(cuda_stream); }

  // Seconds of all laps since the last call. The device must have finished them.
  [[nodiscard]] double read_s() {
    double sum_s = 0;
    for (std::size_t i = 0; i < used_; ++i) sum_s += laps_[i].ended.seconds_since(laps_[i].begun);
    used_ = 0;
    return sum_s;
  }

 private:
  struct Lap {
    Event begun;
    Event ended;
  };
  std::vector<Lap> laps_;
  std::size_t used_ = 0;
};

// --- what only the driver tells ---

// The engine is not linked with libcuda, which is absent on machines without a driver. The
// runtime, which has opened libcuda, returns pointers to its functions.

// An allocation of device memory: what cudaMalloc returned, and its length.
struct Block {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  [[nodiscard]] bool holds(const std::byte* place) const { return place >= base && place < base + bytes; }
};

// The allocation that contains `place`. Handles of CUDA IPC name whole allocations.
[[nodiscard]] Block block_of(const std::byte* place);

// The driver's handle of a module: what it loads of a program, the kernels and variables of one source file.
using ModuleHandle = CUmod_st*;

[[nodiscard]] ModuleHandle module_containing(const void* kernel);

}  // namespace volley::gpu
