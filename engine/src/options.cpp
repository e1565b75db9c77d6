#include "options.hpp"

#include <charconv>
#include <string_view>

#include "check.hpp"

namespace volley {

namespace {

std::vector<int> parse_gpus(std::string_view text) {
  std::vector<int> gpus;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto item = text.substr(0, comma);
    int value = -1;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
    if (error != std::errc{} || end != item.data() + item.size() || value < 0) {
      throw Refusal("--gpus takes device numbers, as in --gpus 0,1; not `" + std::string(item) + "`");
    }
    gpus.push_back(value);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return gpus;
}

}  // namespace

const char* usage() {
  return "volley-engine: measures what a plan asks for and writes records (JSON Lines)\n"
         "\n"
         "  volley-engine --plan FILE|- [--records FILE|-] [--bind|--bind-share] [--gpus 0,1]\n"
         "                [--alone [--wake]] [--follower]\n"
         "  volley-engine --check --plan FILE|-     validate a plan: one line for each error\n"
         "  volley-engine --about                   what this engine was built from, as JSON\n"
         "\n"
         "Start it with the mpirun of the MPI it was built with; every rank gets the same arguments,\n"
         "the first rank reads the plan. With --alone one process is the whole job, and MPI is not\n"
         "started: for the matrices of a node; with --wake its GPUs are made ready before the plan is\n"
         "read. Exit codes: 0 good, 1 a point failed, 2 the plan or the job makes no sense, 3 the machine\n"
         "cannot, 4 no progress.\n";
}

Options parse_options(int argc, char** argv) {
  Options options;
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto name = arguments[i];
    const auto value = [&]() -> std::string {
      if (++i == arguments.size()) throw Refusal(std::string(name) + " needs a value; see volley-engine --help");
      return std::string(arguments[i]);
    };
    if (name == "--plan") options.plan = value();
    else if (name == "--records") options.records = value();
    else if (name == "--gpus") options.gpus = parse_gpus(value());
    else if (name == "--bind") options.bind = true;
    else if (name == "--bind-share") options.bind = options.share = true;
    else if (name == "--alone") options.alone = true;
    else if (name == "--wake") options.wake = true;
    else if (name == "--follower") options.follower = true;
    else if (name == "--about") options.task = Options::Task::about;
    else if (name == "--check") options.task = Options::Task::check;
    else if (name == "--help" || name == "-h") options.task = Options::Task::help;
    else throw Refusal("unknown argument `" + std::string(name) + "`; see volley-engine --help");
  }
  return options;
}

}  // namespace volley
