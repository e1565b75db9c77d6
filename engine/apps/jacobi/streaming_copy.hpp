// Copies to memory that nobody reads soon. CMake chooses the file that implements them.
#pragma once

#include <cstddef>

namespace volley::jacobi {

// Copies `bytes` bytes. Where the processor can, whole cache lines are stored without being read from memory before,
// and stay in no cache.
void streaming_copy(const void* from, void* to, std::size_t bytes);

// Orders the stores of streaming_copy() before later stores: without this, another thread may read old values.
void order_streaming_stores();

}  // namespace volley::jacobi
