#include "base/command_line.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace volley {
namespace {

std::vector<int> parse_gpus(std::string_view text) {
  std::vector<int> gpus;
  for (const auto item : split(text, ',')) {
    const auto number = parse_number(item);
    if (!number) throw UsageError("--gpus takes device numbers, as in --gpus 0,1; not `" + std::string(item) + "`");
    gpus.push_back(*number);
  }
  return gpus;
}

}  // namespace

const char* usage() {
  return "volley-engine: runs the plan of a benchmark and writes records (JSON Lines)\n"
         "\n"
         "  volley-engine --mpi-library FILE --plan FILE|- [--records FILE|-] [--bind|--bind-share] [--gpus 0,1]\n"
         "                [--gpu-after-init] [--threads] [--follower]\n"
         "  volley-engine --plan FILE|- [--records FILE|-]     all GPUs of this machine in one process, without MPI\n"
         "  volley-engine --check --plan FILE|-     validate a plan: one line for each error\n"
         "  volley-engine --about [--mpi-library FILE]   what this engine and an MPI library are, as JSON\n"
         "\n"
         "Start it with the mpirun that belongs to the library; every rank gets the same arguments,\n"
         "the first rank reads the plan.\n"
         "Exit codes: 0 good, 1 a point failed, 2 usage error, 3 the machine cannot, 4 no progress.\n";
}

Options parse_options(int argc, char** argv) {
  const std::string help = "; see volley-engine --help";
  Options options;
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto name = arguments[i];
    const auto value = [&]() -> std::string {
      if (++i == arguments.size()) throw UsageError(std::string(name) + " needs a value" + help);
      return std::string(arguments[i]);
    };
    if (name == "--plan") options.plan = value();
    else if (name == "--records") options.records = value();
    else if (name == "--check") options.task = Options::Task::check;
    else if (name == "--help" || name == "-h") options.task = Options::Task::help;
    else if (name == "--about") options.task = Options::Task::about;
    else if (name == "--mpi-library") options.mpi_library = value();
    else if (name == "--gpus") options.gpus = parse_gpus(value());
    else if (name == "--gpu-after-init") options.gpu_after_init = true;
    else if (name == "--bind") options.bind = true;
    else if (name == "--bind-share") options.bind = options.share = true;
    else if (name == "--threads") options.threads = true;
    else if (name == "--follower") options.follower = true;
    else throw UsageError("unknown argument `" + std::string(name) + "`" + help);
  }
  return options;
}

}  // namespace volley
