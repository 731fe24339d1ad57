// What a twin reads of itself: nothing, or what a fake of NVML says.
#include <cstdlib>

#include "exec/cuda/nvml/library.hpp"
#include "exec/cuda/nvml/nvml.hpp"
#include "exec/cuda/twin/twin.hpp"

namespace exec::cuda {

static std::string nvml_file() {
  const char* const given = std::getenv("PLANNER_TWIN_NVML");
  return given != nullptr ? given : "";
}

Readings Twin::readings() {
  const std::string file = nvml_file();
  return file.empty() ? Readings{} : readings_of(Nvml("none", file));
}

Topology Twin::topology() {
  const std::string file = nvml_file();
  if (!file.empty()) return read_topology(NvmlLibrary(file));
  Topology none;
  none.problem = "this GPU is played on the host";
  return none;
}

}  // namespace exec::cuda
