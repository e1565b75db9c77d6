// Ordinary host memory, as malloc gives it.
#pragma once

#include <cstddef>
#include <memory>

namespace volley {

class PageableBuffer {
 public:
  PageableBuffer() = default;
  // Touches every page, so that the first message does not.
  explicit PageableBuffer(std::size_t bytes) : data_(std::make_unique<std::byte[]>(bytes)) {}
  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }

 private:
  std::unique_ptr<std::byte[]> data_;
};

}  // namespace volley
