// Writes records line by line, each flushed, to a descriptor that nothing else in the process writes to.
#pragma once

#include <string>
#include <utility>

namespace volley {

class Output {
 public:
  // Keeps the original standard output for records if `path` is "-", and points descriptor 1 at standard error, so that
  // text from MPI, UCX or NCCL cannot get among the records. Call before MPI_Init.
  static Output claim(const std::string& path);

  Output(Output&& other) noexcept;
  Output& operator=(Output&&) = delete;
  ~Output();

  // Writes one line and a newline. Throws when they cannot be written (disk full, pipe closed). The first line opens
  // the file and replaces its contents: only the rank that writes touches it, and a rejected plan does not delete the
  // records of another run.
  void line(const std::string& text);

 private:
  explicit Output(std::string path) : path_(std::move(path)) {}
  void keep(int descriptor);  // throws if the call that returned it failed

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace volley
