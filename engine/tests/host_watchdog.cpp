// The watchdog ends a process that stands still, and leaves alone one that was expected to be away for long. Each case
// is a process of its own.
#include "base/errors.hpp"
#include "expect.hpp"
#include "measure/watchdog.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

using namespace volley;

namespace {

struct Ending {
  int code = -1;
  std::string said;  // on its standard error
};

template <class Case>
Ending of_process(Case act) {
  std::array<int, 2> ends{};
  check_system(pipe(ends.data()) == 0, "pipe");
  const pid_t child = fork();
  check_system(child >= 0, "fork");
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    alarm(60);  // where the watchdog does not
    act();
    _exit(0);
  }
  close(ends[1]);
  Ending ending;
  std::array<char, 256> part{};
  for (ssize_t got = 0; (got = read(ends[0], part.data(), part.size())) > 0;) {
    ending.said.append(part.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) ending.code = WEXITSTATUS(status);
  return ending;
}

void standing_still_ends_the_process() {
  const Ending ending = of_process([] {
    Watchdog watchdog("rank 1 of 2", 1);
    watchdog.enter("pair 0-1");
    pause();
  });
  EXPECT(ending.code == static_cast<int>(Exit::watchdog));
  EXPECT(ending.said.starts_with("volley-engine: watchdog: rank 1 of 2 made no progress for "));
  EXPECT(ending.said.find("for 0 s") == std::string::npos);
  EXPECT(ending.said.ends_with(" s in pair 0-1\n"));
}

void what_was_expected_to_take_long_may() {
  const Ending ending = of_process([] {
    Watchdog watchdog("rank 0 of 2", 0.1);
    watchdog.progress(3600);
    std::this_thread::sleep_for(std::chrono::seconds(1));  // three looks of the watchdog
  });
  EXPECT(ending.code == 0);
  EXPECT(ending.said.empty());
}

void the_allowance_holds_until_the_next_progress() {
  const Ending ending = of_process([] {
    Watchdog watchdog("rank 0 of 2", 0.1);
    watchdog.progress(3600);
    watchdog.progress();
    pause();
  });
  EXPECT(ending.code == static_cast<int>(Exit::watchdog));
}

}  // namespace

int main() {
  standing_still_ends_the_process();
  what_was_expected_to_take_long_may();
  the_allowance_holds_until_the_next_progress();
  return test::finish();
}
