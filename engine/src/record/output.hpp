// Where records go: line by line, each flushed, on a descriptor that nothing else in the process writes to.
#pragma once

#include <string>

namespace volley {

class Output {
 public:
  // Keeps the original standard output for records (or opens `path`) and points descriptor 1 at standard error,
  // so that whatever MPI, UCX or NCCL print cannot end up among the records. Call before MPI_Init.
  static Output claim(const std::string& path);

  Output(Output&& other) noexcept;
  Output& operator=(Output&&) = delete;
  ~Output();

  // Writes one line and its newline whole. Throws when the line cannot be written (disk full, pipe closed).
  void line(const std::string& text);

 private:
  Output(int descriptor, bool replaces) : descriptor_(descriptor), replaces_(replaces) {}
  int descriptor_;
  bool replaces_;  // the first record takes the place of what the file held
};

}  // namespace volley
