// A cuda_stream and an event that destroy themselves; both begin empty.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "gpu/check.cuh"

namespace volley::gpu {

namespace detail {

// Reads the answer of a query.
inline bool complete(cudaError_t status, const char* call) {
  if (status != cudaErrorNotReady) check(status, call);
  else cudaGetLastError();  // an answer, not an error: the next check of a kernel launch must not find it
  return status == cudaSuccess;
}

}  // namespace detail

class Stream {
 public:
  Stream() = default;

  // A cuda_stream of the current device that does not wait for the default cuda_stream.
  [[nodiscard]] static Stream make() { return with(0); }

  // One of the highest priority: its blocks go first where blocks of other streams are waiting, too.
  [[nodiscard]] static Stream urgent() {
    int least = 0;
    int most = 0;
    VOLLEY_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &most));
    return with(most);
  }

  [[nodiscard]] cudaStream_t get() const noexcept { return handle_.get(); }
  void synchronize() const { VOLLEY_CUDA_CHECK(cudaStreamSynchronize(get())); }

  // Whether something is enqueued that is not complete.
  [[nodiscard]] bool busy() const { return !detail::complete(cudaStreamQuery(get()), "cudaStreamQuery"); }

 private:
  [[nodiscard]] static Stream with(int priority) {
    cudaStream_t cuda_stream = nullptr;
    VOLLEY_CUDA_CHECK(cudaStreamCreateWithPriority(&cuda_stream, cudaStreamNonBlocking, priority));
    Stream made;
    made.handle_.reset(cuda_stream);
    return made;
  }

  struct Destroy {
    void operator()(cudaStream_t cuda_stream) const noexcept { cudaStreamDestroy(cuda_stream); }
  };
  std::unique_ptr<CUstream_st, Destroy> handle_;
};

class Event {
 public:
  Event() = default;

  // An event of the current device without a time stamp: only whether it has happened.
  [[nodiscard]] static Event make() { return with(cudaEventDisableTiming); }
  // One with a time stamp.
  [[nodiscard]] static Event timed() { return with(cudaEventDefault); }

  [[nodiscard]] cudaEvent_t get() const noexcept { return handle_.get(); }
  void record(const Stream& cuda_stream) const { VOLLEY_CUDA_CHECK(cudaEventRecord(get(), cuda_stream.get())); }
  // What is enqueued on the cuda_stream from here on comes behind the last record().
  void hold(const Stream& cuda_stream) const { VOLLEY_CUDA_CHECK(cudaStreamWaitEvent(cuda_stream.get(), get(), 0)); }

  // Whether everything before the last record() is complete, and its data is where the host sees it.
  [[nodiscard]] bool happened() const { return detail::complete(cudaEventQuery(get()), "cudaEventQuery"); }

 private:
  [[nodiscard]] static Event with(unsigned flags) {
    cudaEvent_t event = nullptr;
    VOLLEY_CUDA_CHECK(cudaEventCreateWithFlags(&event, flags));
    Event made;
    made.handle_.reset(event);
    return made;
  }

  struct Destroy {
    void operator()(cudaEvent_t event) const noexcept { cudaEventDestroy(event); }
  };
  std::unique_ptr<CUevent_st, Destroy> handle_;
};

}  // namespace volley::gpu
