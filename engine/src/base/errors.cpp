#include "base/errors.hpp"

#include <cerrno>
#include <cstring>

#include "base/text.hpp"

namespace volley {

std::string in_sources(const std::source_location& where) {
  const std::string_view path = where.file_name();
  const auto slash = path.rfind('/');
  return std::string(path.substr(slash == std::string_view::npos ? 0 : slash + 1)) + ":" + std::to_string(where.line());
}

UsageError::UsageError(const std::vector<std::string>& sentences)
    : std::runtime_error(joined(sentences, "\nvolley-engine: ")) {}

Exit exit_code_of(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return Exit::usage;
  if (dynamic_cast<const UnsupportedError*>(&error) != nullptr) return Exit::unsupported;
  return Exit::failed;
}

void check_system(bool good, const char* call, std::source_location where) {
  if (good) return;
  throw std::runtime_error(std::string(call) + " failed: " + std::strerror(errno) + " (" + in_sources(where) + ")");
}

}  // namespace volley
