#include "record/plan.hpp"

#include <algorithm>
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

PlanObject::PlanObject(const Json& node, std::string path, Errors& errors)
    : node_(node), path_(std::move(path)), errors_(errors) {
  if (!node_.is_object()) complain("", "expected an object");
}

void PlanObject::names(const char* key, std::vector<std::string>& target, const char* fitting) {
  list(key, target, fitting, [](const Json& value) { return value.is_string(); });
}

void PlanObject::integers(const char* key, std::vector<int>& target, const char* fitting, int least) {
  list(key, target, fitting,
       [least](const Json& value) { return is_integer(value, least, std::numeric_limits<int>::max()); });
}

void PlanObject::sizes(const char* key, std::vector<std::uint64_t>& target) {
  list(key, target, "a whole number of bytes of at least 1",
       [](const Json& value) { return is_integer(value, std::int64_t{1}, std::numeric_limits<std::int64_t>::max()); });
}

void PlanObject::some_sizes(const char* key, std::vector<std::uint64_t>& target) {
  sizes(key, target);
  if (target.empty()) complain(key, "expected at least one size");
}

void PlanObject::texts(const char* key, std::map<std::string, std::string>& target) {
  const Json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_object()) return expected(key, "an object", *value);
  for (const auto& [name, text] : value->members()) {
    if (text.is_string()) target[name] = text.get<std::string>();
    else expected(std::string(key) + "." + name, "a text", text);
  }
}

void PlanObject::any_object(const char* key) {
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) expected(key, "an object", *value);
}

const Json* PlanObject::required(const char* key, const std::string& fitting) {
  const Json* value = find(key);
  if (value == nullptr && node_.is_object()) complain(key, "missing: expected " + fitting);
  return value;
}

void PlanObject::expected(const std::string& key, const std::string& what, const Json& found) {
  complain(key, "expected " + what + ", found " + shown(found));
}

void PlanObject::finish() {
  if (!node_.is_object()) return;
  for (const auto& [key, value] : node_.members()) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) complain(key, "unknown key");
  }
}

void PlanObject::complain(const std::string& key, const std::string& what) {
  errors_.push_back("plan: " + path_ + (key.empty() ? "" : "." + key) + ": " + what);
}

void PlanObject::complain_of_plan(const std::string& key, const std::string& what) {
  errors_.push_back("plan: $." + key + ": " + what);
}

std::string PlanObject::place(const std::string& key, std::size_t i) { return key + "[" + std::to_string(i) + "]"; }

std::string PlanObject::shown(const Json& value) {
  std::string text = line_of(value);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

const Json* PlanObject::find(const char* key) {
  known_.emplace_back(key);
  return node_.is_object() ? node_.find(key) : nullptr;
}

}  // namespace volley
