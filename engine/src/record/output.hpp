// Writes records line by line, each flushed, to a descriptor that nothing else in the process writes to.
#pragma once

#include <string>

namespace volley {

class Output {
 public:
  // Keeps the original standard output for records (or opens `path`) and points descriptor 1 at standard error, so that
  // text from MPI, UCX or NCCL cannot get among the records. Call before MPI_Init.
  static Output claim(const std::string& path);

  Output(Output&& other) noexcept;
  Output& operator=(Output&&) = delete;
  ~Output();

  // Writes one line and a newline. Throws when they cannot be written (disk full, pipe closed).
  void line(const std::string& text);

 private:
  Output(int descriptor, bool replaces) : descriptor_(descriptor), replaces_(replaces) {}
  int descriptor_;
  bool replaces_;  // the first record replaces the contents of the file
};

}  // namespace volley
