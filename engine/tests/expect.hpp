// Checks for the engine's small test programs: each failure is printed with its place, `finish()` is the exit code.
#pragma once

#include <cstdio>
#include <exception>
#include <source_location>

namespace volley::test {

inline int& failures() {
  static int count = 0;
  return count;
}

inline void expect(bool good, const char* what, std::source_location where = std::source_location::current()) {
  if (good) return;
  std::fprintf(stderr, "%s:%u: expected %s\n", where.file_name(), static_cast<unsigned>(where.line()), what);
  ++failures();
}

// True when `action` throws a `Trouble`.
template <class Trouble, class Action>
[[nodiscard]] bool throws(Action action) {
  try {
    action();
  } catch (const Trouble&) {
    return true;
  }
  return false;
}

inline int finish() { return failures() == 0 ? 0 : 1; }

}  // namespace volley::test

#define EXPECT(condition) ::volley::test::expect((condition), #condition)
