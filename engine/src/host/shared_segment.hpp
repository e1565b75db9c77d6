// Memory that two processes of one node map: a POSIX shared memory object that unmaps and removes itself.
#pragma once

#include <cstddef>
#include <string>

namespace volley {

class SharedSegment {
 public:
  SharedSegment() = default;

  // Creates a segment with a unique name, filled with zeros. Reserves all its memory, and throws std::runtime_error if
  // /dev/shm is too small: without that the first access would be a bus error.
  [[nodiscard]] static SharedSegment create(std::size_t bytes);

  // Opens the segment that another process created with that name.
  [[nodiscard]] static SharedSegment open(const std::string& name, std::size_t bytes);

  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  // Removes the name. The creator does this when all processes have mapped the segment: the system then frees the
  // memory when the last of them ends, even if it crashes.
  void unlink() noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  void map(int descriptor, std::size_t bytes);

  std::string name_;  // empty when it is removed, and if another process created the segment
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace volley
