// Checks for the engine's small test programs: each failure is printed with its place, `finish()` is the exit code.
#pragma once

#include <cstdio>
#include <exception>
#include <source_location>
#include <vector>

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

// The tests of a program that needs no MPI, in the order of its file.
inline std::vector<void (*)()>& tests() {
  static std::vector<void (*)()> all;
  return all;
}

struct AddTest {
  explicit AddTest(void (*test)()) { tests().push_back(test); }
};

inline int run_all() {
  for (const auto test : tests()) test();
  return finish();
}

}  // namespace volley::test

#define EXPECT(condition) ::volley::test::expect((condition), #condition)
// A test that run_all() runs.
#define TEST(name)                                \
  void name();                                    \
  const ::volley::test::AddTest add_##name(name); \
  void name()
