// Memory that two processes of one node map: a POSIX shared memory object that unmaps and removes itself.
#pragma once

#include <cstddef>
#include <string>

namespace volley {

class SharedSegment {
 public:
  SharedSegment() = default;

  // Creates a segment with a unique name, filled with zeros and with all its memory reserved: if /dev/shm is too small,
  // this throws std::runtime_error, instead of a bus error at the first access.
  [[nodiscard]] static SharedSegment create(std::size_t bytes);

  // The segment that another process created under that name.
  [[nodiscard]] static SharedSegment open(const std::string& name, std::size_t bytes);

  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  // Takes the name away, which whoever created the segment does once everybody has mapped it: what is left then goes
  // with the last process, however that ends.
  void unlink() noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  void map(int descriptor, std::size_t bytes);

  std::string name_;  // empty once it is gone, and where another process created it
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace volley
