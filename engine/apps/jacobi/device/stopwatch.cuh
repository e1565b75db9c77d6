// Times parts of an iteration on the device with a pair of events around each. Only some of the iterations are timed,
// because the time stamps take the device a few microseconds (on an H200 an interior of 68 µs was measured as 71).
#pragma once

#include <cstddef>
#include <vector>

#include "gpu/streams.cuh"

namespace volley::jacobi {

class Stopwatch {
 public:
  void begin(const gpu::Stream& cuda_stream) {
    if (used_ == laps_.size()) laps_.push_back({gpu::Event::timed(), gpu::Event::timed()});
    laps_[used_].begun.record(cuda_stream);
  }
  void end(const gpu::Stream& cuda_stream) { laps_[used_++].ended.record(cuda_stream); }

  // Seconds of all laps since the last call. The device must have finished them.
  [[nodiscard]] double read_s() {
    double sum_s = 0;
    for (std::size_t i = 0; i < used_; ++i) sum_s += laps_[i].ended.seconds_since(laps_[i].begun);
    used_ = 0;
    return sum_s;
  }

 private:
  struct Lap {
    gpu::Event begun;
    gpu::Event ended;
  };
  std::vector<Lap> laps_;
  std::size_t used_ = 0;
};

}  // namespace volley::jacobi
