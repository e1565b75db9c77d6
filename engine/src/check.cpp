#include "check.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace volley {

namespace {

std::string place(const std::source_location& where) {
  const std::string_view path = where.file_name();
  const auto slash = path.rfind('/');
  return std::string(path.substr(slash == std::string_view::npos ? 0 : slash + 1)) + ":" + std::to_string(where.line());
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string text;
  for (const auto& sentence : sentences) text += (text.empty() ? "" : "\n") + sentence;
  return text;
}

}  // namespace

Refusal::Refusal(std::vector<std::string> sentences)
    : std::runtime_error(joined(sentences)), sentences_(std::move(sentences)) {}

bool mpi_is_running() {
  int begun = 0;
  int over = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&over);
  return begun != 0 && over == 0;
}

void fail_mpi(int status, const char* call, std::source_location where) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw std::runtime_error(std::string(call) + " failed: " + text.data() + " (" + place(where) + ")");
}

void check_system(bool good, const char* call, std::source_location where) {
  if (good) return;
  throw std::runtime_error(std::string(call) + " failed: " + std::strerror(errno) + " (" + place(where) + ")");
}

}  // namespace volley
