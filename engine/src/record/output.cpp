#include "output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "../check.hpp"

namespace volley {

Output Output::claim(const std::string& path) {
  const int kept = path == "-" ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                               : open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (kept < 0) throw Inability("records cannot be written to " + path + ": " + std::string(std::strerror(errno)));
  check_system(dup2(STDERR_FILENO, STDOUT_FILENO) >= 0, "dup2");
  return Output(kept);
}

Output::Output(Output&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Output::~Output() {
  if (descriptor_ >= 0) close(descriptor_);
}

void Output::line(const std::string& text) {
  const std::string whole = text + "\n";
  for (std::string_view rest = whole; !rest.empty();) {
    const auto written = write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    check_system(written >= 0, "writing a record");
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace volley
