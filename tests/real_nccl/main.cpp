// The real libnccl.so.2, where it is installed: that it has every function that is called, a
// version that will do, and looks for the version of plugins that this project's plugin exports.
// Needs no GPU. usage: real_nccl PLUGIN [LIBRARY]. Exit 77, with the reason: there is none.

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "exec/cuda/nccl/library.hpp"
#include "exec/cuda/nccl/plugin/abi.hpp"

namespace {

using namespace exec::cuda;

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what.c_str());
  ++failures;
}

std::string find_library(int count, char** arguments) {
  if (count > 2) return arguments[2];
  for (const char* place :
       {"/usr/local/cuda/lib/libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2",
        "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "/usr/lib/aarch64-linux-gnu/libnccl.so.2"})
    if (std::filesystem::exists(place)) return place;
  return "libnccl.so.2";               // where the loader finds it
}

// Whether the file holds the name of a symbol, as it is given to dlsym.
bool looks_for(const std::string& file, const std::string& symbol) {
  std::ifstream stream(file, std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(stream), {});
  return all.find(symbol + '\0') != std::string::npos;
}

void check_library(const CollectiveLibrary& library) {
  expect(library.version >= nccl::kLeastVersion, "a version that will do");
  constexpr int kFirstWithMemory = nccl::version_code(2, 19, 1);
  expect(library.registers() == (library.version >= kFirstWithMemory),
         "memory of its own from 2.19 on");
  const char* const words = library.get_error_string(nccl::kInvalidUsage);
  expect(std::strstr(words, "invalid usage") != nullptr, "the number of invalid usage");
  expect(std::strstr(library.get_error_string(nccl::kRemoteError), "remote") != nullptr,
         "the number of a remote error");
  expect(library.get_last_error(nullptr) != nullptr, "words of the last error");
  // A group without calls needs no device; an end without a start is refused.
  expect(library.group_start() == nccl::kSuccess && library.group_end() == nccl::kSuccess,
         "an empty group");
  expect(library.group_end() == nccl::kInvalidUsage, "an end of a group that did not begin");
}

// Both plugins are in one file. NCCL finds them there by these names.
void check_plugin(const char* path, const std::string& library) {
  void* const plugin = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  expect(plugin != nullptr, std::string("a plugin at ") + path);
  if (plugin == nullptr) return;
  const auto* const tuner =
      static_cast<const nccl::Tuner*>(::dlsym(plugin, nccl::kTunerSymbol));
  const auto* const profiler =
      static_cast<const nccl::Profiler*>(::dlsym(plugin, nccl::kProfilerSymbol));
  expect(tuner != nullptr && std::strcmp(tuner->name, "planner") == 0 && tuner->init != nullptr &&
             tuner->choose != nullptr && tuner->destroy != nullptr,
         std::string("a tuner as ") + nccl::kTunerSymbol);
  expect(profiler != nullptr && std::strcmp(profiler->name, "planner") == 0 &&
             profiler->init != nullptr && profiler->start != nullptr &&
             profiler->stop != nullptr && profiler->record != nullptr &&
             profiler->finalize != nullptr,
         std::string("a profiler as ") + nccl::kProfilerSymbol);
  expect(::dlsym(plugin, nccl::kTakeSymbol) != nullptr, nccl::kTakeSymbol);
  for (const char* symbol : {nccl::kTunerSymbol, nccl::kProfilerSymbol})
    expect(looks_for(library, symbol), library + " looks for " + symbol);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::printf("usage: real_nccl PLUGIN [LIBRARY]\n");
    return 2;
  }
  const OpenedCollectives opened = open_collectives(find_library(count, arguments));
  if (!opened.library) {
    std::printf("skipped: expected %s, found %s\n", opened.expected.c_str(), opened.found.c_str());
    return 77;
  }
  check_library(*opened.library);
  check_plugin(arguments[1], opened.library->path);
  if (failures > 0) return 1;
  std::printf("NCCL %s in %s has what is called, and looks for this project's plugin\n",
              nccl_version_text(opened.library->version).c_str(), opened.library->path.c_str());
  return 0;
}
