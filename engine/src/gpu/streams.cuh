// A stream and an event that destroy themselves; both are empty at first.
#pragma once

#include "gpu/check.cuh"
#include "gpu/gpu.hpp"

namespace volley::gpu {

// The result of a query.
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

}  // namespace volley::gpu
