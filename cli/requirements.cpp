#include "cli/requirements.hpp"

#include <unistd.h>

#include <string>

#include "cli/child.hpp"
#include "cli/process.hpp"
#include "exec/cuda/nccl/library.hpp"
#include "hw_profiles/detect.hpp"

namespace cli {
namespace {

core::Problem missing(std::string what, std::string expected, std::string found,
                      std::string fix) {
  return {std::move(what), std::move(expected), std::move(found), std::move(fix),
          core::ProblemKind::failed_running};
}

// A binary that is there and whose libraries are: the loader says which one is not.
void check_binary(std::string_view name, std::string_view runs, std::string_view fix,
                  core::Problems& problems) {
  const std::string path = sibling(name);
  if (::access(path.c_str(), X_OK) != 0) {
    problems.push_back(missing(path, std::string(runs), "none", std::string(fix)));
    return;
  }
  std::string said;
  const auto ending = follow_child({path, "--version"}, 4096, [&](std::string_view line) {
    if (said.empty()) said = line;
  });
  if (ending.ok() && ending->code == 0) return;
  const std::size_t shared = said.find("error while loading");
  if (shared != std::string::npos) said.erase(0, shared);
  problems.push_back(missing(path, "a binary that starts",
                             said.empty() ? "one that does not" : said,
                             "install what it was built with, or build it here: ./dev build"));
}

void check_gpu(core::Problems& problems) {
  if (hw_profiles::local_gpus().empty())
    problems.push_back(missing("PCI devices", "an NVIDIA GPU", "none",
                               "plan for a GPU here, and run on a machine that has it"));
  if (::access("/proc/driver/nvidia/version", R_OK) != 0)
    problems.push_back(missing("/proc/driver/nvidia/version", "NVIDIA's kernel driver, loaded",
                               "none", "install the driver of the distribution or of NVIDIA"));
}

}  // namespace

bool starts(std::string_view binary) {
  core::Problems problems;
  check_binary(binary, "", "", problems);
  return problems.empty();
}

core::Problems missing_for(Needs needs) {
  core::Problems problems;
  if (needs == Needs::host)
    check_binary(kHostBinary, "the binary that runs plans", "./dev build", problems);
  if (needs == Needs::mpi) {
    check_binary(kMpiBinary, "the binary that runs a rank under MPI",
                 "it is built where MPI is found: install libopenmpi-dev and openmpi-bin, then "
                 "./dev build",
                 problems);
    if (find_program("mpirun").empty())
      problems.push_back(
          missing("mpirun", "a launcher of MPI in PATH", "none", "install openmpi-bin"));
  }
  if (needs == Needs::cuda || needs == Needs::nccl) {
    check_gpu(problems);
    check_binary(kCudaBinary, "the binary that runs plans on GPUs",
                 "it is built where a CUDA toolkit is found: install one (nvcc and cuBLAS; 13.0 is "
                 "known to work), set CUDA_HOME to it, remove build/ and run ./dev build",
                 problems);
  }
  if (needs == Needs::nccl) {
    const auto opened = exec::cuda::open_collectives("");
    if (!opened.library)
      problems.push_back(missing(exec::cuda::kCollectiveLibraryName, opened.expected, opened.found,
                                 opened.fix));
  }
  return problems;
}

}  // namespace cli
