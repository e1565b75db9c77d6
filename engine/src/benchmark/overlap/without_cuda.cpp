// A build without CUDA.
#include "base/errors.hpp"
#include "benchmark/overlap/overlap_driver.hpp"

namespace volley::overlap {

std::unique_ptr<Computations> make_device_computations() {
  throw UnsupportedError("this engine was built without CUDA");
}

}  // namespace volley::overlap
