// Records go out whole; descriptor 1 is nobody's; a full disk and a reader that has gone are told.
#include "base/command_line.hpp"
#include "base/errors.hpp"
#include "expect.hpp"
#include "record/records.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

using namespace volley;

namespace {

TEST(prints_do_not_reach_the_records) {
  const auto path = std::filesystem::temp_directory_path() / ("volley-output-" + std::to_string(getpid()));
  {
    Output output = Output::claim(path);
    output.line("{\"a\":1}");
    EXPECT(write(STDOUT_FILENO, "noise\n", 6) == 6);  // as a library would
    output.line("{\"a\":2}");
  }
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT(text == "{\"a\":1}\n{\"a\":2}\n");
  std::filesystem::remove(path);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(what_a_file_held_is_there_until_the_first_record) {
  const auto path = std::filesystem::temp_directory_path() / ("volley-output-" + std::to_string(getpid()));
  std::ofstream(path) << "{\"of\":\"another run\"}\n";
  {
    Output output = Output::claim(path);
    EXPECT(text_of(path) == "{\"of\":\"another run\"}\n");
    output.line("{}");
    EXPECT(text_of(path) == "{}\n");
  }
  std::filesystem::remove(path);
}

TEST(a_file_takes_no_standard_stream_s_place) {
  const auto path = std::filesystem::temp_directory_path() / ("volley-output-" + std::to_string(getpid()));
  for (const int number : {STDIN_FILENO, STDOUT_FILENO}) {
    const int before = dup(number);
    close(number);
    {
      Output output = Output::claim(path);
      output.line("{}");
      EXPECT(write(number, "noise\n", 6) == 6);
    }
    dup2(before, number);
    close(before);
    EXPECT(text_of(path) == "{}\n");
    std::filesystem::remove(path);
  }
}

TEST(prints_do_not_reach_a_pipe_of_records) {
  const int out = dup(STDOUT_FILENO);
  std::array<int, 2> ends{};
  EXPECT(pipe(ends.data()) == 0);
  dup2(ends[1], STDOUT_FILENO);
  Output output = Output::claim("-");
  EXPECT(write(STDOUT_FILENO, "noise\n", 6) == 6);
  output.line("{}");
  std::array<char, 64> text{};
  EXPECT(read(ends[0], text.data(), text.size()) == 3 && std::string(text.data()) == "{}\n");
  for (const int end : ends) close(end);
  dup2(out, STDOUT_FILENO);
  close(out);
}

TEST(a_full_disk_is_told) {
  Output full = Output::claim("/dev/full");
  EXPECT(test::throws<std::runtime_error>([&] { full.line("{}"); }));
  Records records(&full);
  records.end_with_error("the disk is full");  // must not throw
}

TEST(a_reader_that_has_gone_is_told) {
  const int out = dup(STDOUT_FILENO);
  std::array<int, 2> ends{};
  EXPECT(pipe(ends.data()) == 0);
  dup2(ends[1], STDOUT_FILENO);
  for (const int end : ends) close(end);
  Output gone = Output::claim("-");
  EXPECT(test::throws<std::runtime_error>([&] { gone.line("{}"); }));
  dup2(out, STDOUT_FILENO);
  close(out);
}

TEST(an_unwritable_path_is_the_machine_s_fault) {
  Output nowhere = Output::claim("/nowhere/at/all");  // another rank's path: it is never opened there
  EXPECT(test::throws<UnsupportedError>([&] { nowhere.line("{}"); }));
}

Options parsed(std::initializer_list<const char*> words) {
  std::vector<std::string> texts{"volley-engine"};
  texts.insert(texts.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (auto& text : texts) arguments.push_back(text.data());
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST(arguments_are_checked) {
  const Options options = parsed({"--plan", "-", "--bind", "--gpus", "0,3"});
  EXPECT(options.plan == "-" && options.bind && (options.gpus == std::vector<int>{0, 3}));
  EXPECT(test::throws<UsageError>([] { parsed({"--plan"}); }));
  EXPECT(test::throws<UsageError>([] { parsed({"--plam", "x"}); }));
  EXPECT(test::throws<UsageError>([] { parsed({"--gpus", "0,x"}); }));
  EXPECT(test::throws<UsageError>([] { parsed({"--gpus", "-1"}); }));
}

}  // namespace

int main() { return test::run_all(); }
