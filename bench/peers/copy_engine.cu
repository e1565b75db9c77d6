// What `peer` is held against at 8 B: one cudaMemcpyPeerAsync between two GPUs with the cudaStreamSynchronize that waits for
// it, and the time that one cache line takes to tell another core.
//
//   nvcc -O2 -o DIR/copy_engine bench/peers/copy_engine.cu
//   copy_engine [CORE CORE]
//
// One process, so that nothing is measured but the copy and the line. Prints one JSON object; all numbers are seconds.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int batches = 101;
constexpr int copies = 200;  // a batch: about a millisecond
constexpr int signals = 2000;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void good(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "copy_engine: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

void bind(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  if (pthread_setaffinity_np(pthread_self(), sizeof cores, &cores) == 0) return;
  std::fprintf(stderr, "copy_engine: core %d is not to be had\n", core);
  std::exit(1);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void* buffer_on(int device, int other, std::size_t bytes) {
  good(cudaSetDevice(device));
  good(cudaDeviceEnablePeerAccess(other, 0));
  void* memory = nullptr;
  good(cudaMalloc(&memory, bytes));
  good(cudaMemset(memory, 1, bytes));
  good(cudaDeviceSynchronize());
  return memory;
}

// One copy and the wait for it; the median over batches.
double copy_and_synchronize_s(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  std::vector<double> each;
  for (int batch = 0; batch < batches; ++batch) {
    const double begin = now_s();
    for (int copy = 0; copy < copies; ++copy) {
      good(cudaMemcpyPeerAsync(to, 1, from, 0, bytes, stream));
      good(cudaStreamSynchronize(stream));
    }
    each.push_back((now_s() - begin) / copies);
  }
  return median(each);
}

// Half of what a line takes to another core and back; the median over batches.
double cache_line_s(int core, int other) {
  struct Line {
    alignas(128) std::atomic<int> count{0};
  };
  Line there, back;
  constexpr int total = batches * signals;
  std::thread echo([&] {
    bind(other);
    for (int count = 1; count <= total; ++count) {
      while (there.count.load(std::memory_order_acquire) != count) {}
      back.count.store(count, std::memory_order_release);
    }
  });
  bind(core);
  std::vector<double> each;
  for (int batch = 0, count = 0; batch < batches; ++batch) {
    const double begin = now_s();
    for (int signal = 0; signal < signals; ++signal) {
      there.count.store(++count, std::memory_order_release);
      while (back.count.load(std::memory_order_acquire) != count) {}
    }
    each.push_back((now_s() - begin) / signals / 2);
  }
  echo.join();
  return median(each);
}

}  // namespace

int main(int argc, char** argv) {
  const int core = argc == 3 ? std::atoi(argv[1]) : 0;
  const int other = argc == 3 ? std::atoi(argv[2]) : 1;
  const double line_s = cache_line_s(core, other);
  constexpr std::size_t bytes = 8;
  void* to = buffer_on(1, 0, bytes);
  void* from = buffer_on(0, 1, bytes);
  cudaStream_t stream;
  good(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  copy_and_synchronize_s(to, from, bytes, stream);
  std::printf("{\"copy 8\": %.4g, \"line\": %.4g}\n", copy_and_synchronize_s(to, from, bytes, stream), line_s);
  return 0;
}
