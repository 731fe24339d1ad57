// planner-probe: parses the command line and hands over to the conductor; started with `worker` or
// `nccl-rank` as first word it is one of the conductor's own processes.

#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "tools/probe/child.hpp"
#include "tools/probe/conductor.hpp"
#include "tools/probe/files.hpp"
#include "tools/probe/options.hpp"
#include "tools/probe/worker.hpp"

namespace {

constexpr int kBadInput = 2;
constexpr int kFailed = 3;

using Section = void (*)(probe::Worker&);

Section section_named(const std::string& name) {
  if (name == "environment") return probe::run_environment;
  if (name == "context") return probe::run_context;
  if (name == "pool") return probe::run_pool;
  if (name == "launch") return probe::run_launch;
  if (name == "copy") return probe::run_copy;
  if (name == "gemm") return probe::run_gemm;
  if (name == "clock") return probe::run_clock;
  if (name == "nccl") return probe::run_nccl;
  throw std::runtime_error("no section " + name);
}

int work(const std::vector<std::string>& arguments) {
  probe::die_with_parent();
  const probe::WorkerOptions options = probe::worker_options(arguments);
  try {
    probe::Worker worker(options);
    section_named(options.section)(worker);
    worker.finish();
    return 0;
  } catch (const std::exception& error) {
    probe::write_whole(options.folder + "/" + options.section + ".error", error.what());
    return kFailed;
  }
}

int conduct(const std::vector<std::string>& arguments) {
  const probe::ParsedOptions parsed = probe::parse_options(arguments);
  if (const auto* problems = std::get_if<std::vector<probe::OptionProblem>>(&parsed)) {
    for (const auto& problem : *problems) {
      std::fprintf(stderr, "%s\n", probe::to_text(problem).c_str());
    }
    return kBadInput;
  }
  const auto& options = std::get<probe::Options>(parsed);
  if (options.help) {
    std::printf("%s", std::string(probe::help_text()).c_str());
    return 0;
  }
  try {
    probe::check_writable(options.out);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "planner-probe: --out: expected a file that can be written, found %s; "
                 "name one in a folder that exists\n", error.what());
    return kBadInput;
  }
  return probe::run_sections(options, arguments);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  try {
    if (!arguments.empty() && arguments.front() == "worker") return work(arguments);
    if (!arguments.empty() && arguments.front() == "nccl-rank") {
      probe::die_with_parent();
      return probe::run_nccl_rank(arguments);
    }
    return conduct(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "planner-probe: %s\n", error.what());
    return kFailed;
  }
}
