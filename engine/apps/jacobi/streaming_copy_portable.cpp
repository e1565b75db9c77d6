// For every other processor: plain copies.
#include <cstring>

#include "jacobi/sweep.hpp"

namespace volley::jacobi {

void streaming_copy(const void* from, void* to, std::size_t bytes) { std::memcpy(to, from, bytes); }

void order_streaming_stores() {}

}  // namespace volley::jacobi
