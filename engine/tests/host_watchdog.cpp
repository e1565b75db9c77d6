// The watchdog ends a process that stands still or whose launcher has ended, and leaves alone one that was expected to
// be away for long; its thread does not disturb what is measured. Each case is a process of its own.
#include "base/errors.hpp"
#include "expect.hpp"
#include "machine/placement.hpp"
#include "measure/watchdog.hpp"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
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

TEST(standing_still_ends_the_process) {
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

TEST(what_was_expected_to_take_long_may) {
  const Ending ending = of_process([] {
    Watchdog watchdog("rank 0 of 2", 0.1);
    watchdog.progress(3600);
    std::this_thread::sleep_for(std::chrono::seconds(1));  // three looks of the watchdog
  });
  EXPECT(ending.code == 0);
  EXPECT(ending.said.empty());
}

TEST(the_allowance_holds_until_the_next_progress) {
  const Ending ending = of_process([] {
    Watchdog watchdog("rank 0 of 2", 0.1);
    watchdog.progress(3600);
    watchdog.progress();
    pause();
  });
  EXPECT(ending.code == static_cast<int>(Exit::watchdog));
}

TEST(a_signal_says_where_and_goes_on_to_the_handler_before) {
  for (const int number : {SIGSEGV, SIGABRT}) {
    const Ending ending = of_process([number] {
      signal(number, [](int) { _exit(7); });
      auto* watchdog = new Watchdog("rank 1 of 2", 60);
      watchdog->speak_of_signals();
      watchdog->enter("transport host");
      raise(number);
    });
    EXPECT(ending.code == 7);
    const std::string name = number == SIGABRT ? "SIGABRT" : "SIGSEGV";
    EXPECT(ending.said == "volley-engine: rank 1 of 2 was ended by " + name + " in transport host\n");
  }
}

// As MPI_Abort may, before the plan says for how long anything may stand still.
TEST(the_last_call_has_a_limit_of_its_own) {
  const Ending ending = of_process([] {
    Watchdog watchdog("rank 0 of 2", std::numeric_limits<double>::infinity());
    watchdog.enter_last("MPI_Abort, after this error", 0.2);
    pause();
  });
  EXPECT(ending.code == static_cast<int>(Exit::watchdog));
  EXPECT(ending.said.ends_with(" s in MPI_Abort, after this error\n"));
}

// The launcher ends before the watchdog begins, or after that: the process is gone before its alarm rings.
TEST(the_end_of_the_launcher_is_the_end_of_its_process) {
  for (const bool before : {true, false}) {
    const Ending ending = of_process([before] {
      const pid_t launcher = getpid();
      if (fork() != 0) {
        if (!before) usleep(200'000);
        _exit(0);
      }
      signal(SIGALRM, [](int) {
        static_cast<void>(!write(STDERR_FILENO, "still here", 10));
        _exit(0);
      });
      alarm(20);
      while (before && getppid() == launcher) usleep(1000);
      Watchdog watchdog("rank 0 of 2", std::numeric_limits<double>::infinity(), launcher);
      while (true) pause();
    });
    EXPECT(ending.said.empty());
  }
}

std::string status_of(int thread, const std::string& name) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return line.substr(line.find('\t') + 1);
  }
  return {};
}

int other_thread() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    const int thread = std::stoi(entry.path().filename());
    if (thread != getpid()) return thread;
  }
  return 0;
}

TEST(it_leaves_the_core_of_the_measurement) {
  const auto cpus = allowed_cpus();
  if (cpus.size() < 2) return;
  const Ending ending = of_process([&] {
    bind_to_cpus({cpus[0]});
    Watchdog watchdog("rank 0 of 2", 3600);
    EXPECT(status_of(other_thread(), "Cpus_allowed_list") == std::to_string(cpus[0]));
    watchdog.move_to({});
    EXPECT(status_of(other_thread(), "Cpus_allowed_list") == std::to_string(cpus[0]));
    watchdog.move_to({cpus[1]});
    EXPECT(status_of(other_thread(), "Cpus_allowed_list") == std::to_string(cpus[1]));
    EXPECT(allowed_cpus() == std::vector{cpus[0]});
    _exit(test::failures());
  });
  EXPECT(ending.code == 0);
}

TEST(it_sleeps_until_something_is_due) {
  const int launcher = static_cast<int>(syscall(434, getppid(), 0));  // pidfd_open(2)
  for (const bool launched : {false, true}) {
    if (launched && launcher < 0) continue;  // this Linux cannot wait for it
    const Ending ending = of_process([launched] {
      Watchdog watchdog("rank 0 of 2", 3600, launched ? getppid() : 0);
      const int thread = other_thread();
      const auto sleeps = [&] { return std::stol(status_of(thread, "voluntary_ctxt_switches")); };
      while (sleeps() == 0) usleep(1000);
      const long before = sleeps();
      for (int i = 0; i < 10; ++i) {
        watchdog.progress();
        usleep(100'000);
      }
      EXPECT(sleeps() <= before + 1);
      _exit(test::failures());
    });
    EXPECT(ending.code == 0);
  }
}

}  // namespace

int main() { return test::run_all(); }
