#include "record/plan.hpp"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/errors.hpp"

namespace volley {
namespace {

// Reads up to the brace that closes the document, and does not wait for the end of the input: Open MPI 5's mpirun does
// not always pass that on.
std::string read_one_document(std::istream& input) {
  std::string text;
  int depth = 0;
  bool quoted = false;
  bool escaped = false;
  for (char c = 0; input.get(c);) {
    text += c;
    if (quoted) {
      quoted = escaped || c != '"';
      escaped = !escaped && c == '\\';
      continue;
    }
    quoted = c == '"';
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    const bool closed = depth == 0 && (c == '}' || c == ']' || c == '\n');
    if (closed && text.find_first_not_of(" \t\r\n") != std::string::npos) break;
  }
  return text;
}

}  // namespace

std::string read_plan_text(const std::string& path) {
  if (path.empty()) throw UsageError("no plan: give --plan FILE, or --plan - to read it from standard input");
  if (path == "-") return read_one_document(std::cin);
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) throw UsageError("the plan " + path + " cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace volley
