#include "exec/run/environment.hpp"

#include <cblas.h>
#include <sys/utsname.h>

#include <fstream>
#include <sstream>
#include <thread>

namespace exec {

// The rest of the first line of `path` that starts with `key`, without the colon and spaces.
static std::string line_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto at = line.find_first_not_of(": \t", key.size());
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

std::string host_name() {
  utsname system{};
  return uname(&system) == 0 ? system.nodename : "";
}

std::string device_text(int ranks, RanksAre what) {
  const std::string cpu = line_of("/proc/cpuinfo", "model name");
  const std::string one = what == RanksAre::threads ? "thread" : "process";
  const std::string many = what == RanksAre::threads ? "threads" : "processes";
  return std::to_string(ranks) + ' ' + (ranks == 1 ? one : many) + " on " +
         std::to_string(std::thread::hardware_concurrency()) + " cores of " +
         (cpu.empty() ? "an unnamed processor" : cpu);
}

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> e;
  e["blas"] = openblas_get_config();
  e["compiler"] = __VERSION__;
  utsname system{};
  if (uname(&system) == 0) e["kernel"] = std::string(system.sysname) + " " + system.release;
  e["load_average"] = line_of("/proc/loadavg", "");
  return e;
}

}  // namespace exec
