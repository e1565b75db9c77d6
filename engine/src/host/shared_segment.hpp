// Memory that two processes of one node map: a POSIX shared memory object that unmaps and removes itself.
#pragma once

#include "host/memory.hpp"

namespace volley {

class SharedSegment {
 public:
  SharedSegment() = default;

  // Creates a segment with a unique name, filled with zeros. Reserves all its memory, and throws std::runtime_error if
  // /dev/shm is too small: without that the first access would be a bus error.
  [[nodiscard]] static SharedSegment create(std::size_t bytes);

  [[nodiscard]] static SharedSegment open(const std::string& name, std::size_t bytes);

  // Removes the name. The creator does this when all processes have mapped the segment: the system then frees the
  // memory when the last of them ends, even if it crashes.
  void unlink() noexcept { name_.reset(); }

  [[nodiscard]] std::byte* data() const noexcept { return mapping_.data(); }
  // Empty when it is removed, and if another process created the segment.
  [[nodiscard]] std::string name() const { return name_ ? *name_ : ""; }

 private:
  struct Unlink {
    void operator()(const std::string* name) const noexcept;
  };
  std::unique_ptr<const std::string, Unlink> name_;
  Mapping mapping_;
};

}  // namespace volley
