// A stream and an event that destroy themselves; both begin empty.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "../gpu/check_cuda.cuh"

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

  // A stream of the current device that does not wait for the default stream.
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
    cudaStream_t stream = nullptr;
    VOLLEY_CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
    Stream made;
    made.handle_.reset(stream);
    return made;
  }

  struct Destroy {
    void operator()(cudaStream_t stream) const noexcept { cudaStreamDestroy(stream); }
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
  void record(const Stream& stream) const { VOLLEY_CUDA_CHECK(cudaEventRecord(get(), stream.get())); }
  // What is enqueued on the stream from here on comes behind the last record().
  void hold(const Stream& stream) const { VOLLEY_CUDA_CHECK(cudaStreamWaitEvent(stream.get(), get(), 0)); }

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
