#include "exec/cuda/nccl/plugin/use.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>

#include "exec/cuda/nccl/plugin/abi.hpp"

namespace exec::cuda {
namespace {

// In the folder of temporary files; returns its path.
std::string write_choices(const std::vector<nccl::Choice>& choices) {
  const char* const place = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/planner-nccl-XXXXXX", place != nullptr ? place : "/tmp");
  const int file = ::mkstemp(path.data());
  if (file < 0)
    throw std::runtime_error(fmt::format("{}: expected to write it; set TMPDIR", path));
  const std::string text = nccl::to_text(choices);
  const ssize_t written = ::write(file, text.data(), text.size());
  ::close(file);
  if (written == static_cast<ssize_t>(text.size())) return path;
  ::unlink(path.c_str());
  throw std::runtime_error(fmt::format("{}: expected to write it; free some space", path));
}

}  // namespace

PluginUse::PluginUse(const std::string& path, const std::vector<nccl::Choice>& choices) {
  library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    const char* const why = ::dlerror();
    unknown_ = fmt::format("expected {}, found none ({})", path, why != nullptr ? why : "");
    if (!choices.empty()) throw std::runtime_error(unknown_);
    return;
  }
  take_ = reinterpret_cast<nccl::TakeRan>(::dlsym(library_, nccl::kTakeSymbol));
  if (take_ == nullptr) throw std::runtime_error(path + ": expected this program's plugin");
  // Whoever set a profiler wants that one.
  if (const char* const other = std::getenv("NCCL_PROFILER_PLUGIN"))
    unknown_ = fmt::format("NCCL_PROFILER_PLUGIN is {}", other);
  else
    ::setenv("NCCL_PROFILER_PLUGIN", path.c_str(), 1);
  if (choices.empty()) return;
  if (const char* const other = std::getenv("NCCL_TUNER_PLUGIN"))
    throw std::runtime_error(fmt::format(
        "--collectives plan: expected no other tuner, found NCCL_TUNER_PLUGIN={}; unset it",
        other));
  file_ = write_choices(choices);
  ::setenv("NCCL_TUNER_PLUGIN", path.c_str(), 1);
  ::setenv("PLANNER_NCCL_CHOICES", file_.c_str(), 1);
}

PluginUse::~PluginUse() {
  if (!file_.empty()) ::unlink(file_.c_str());
}

std::vector<Ran> PluginUse::take() const {
  std::vector<Ran> all;
  if (take_ == nullptr) return all;
  take_(&all, [](void* to, const nccl::Ran* r) {
    static_cast<std::vector<Ran>*>(to)->push_back(
        {r->algorithm, r->protocol, r->channels, r->bytes});
  });
  return all;
}

std::string PluginUse::told() const {
  if (!unknown_.empty()) return "unknown: " + unknown_;
  return "told by NCCL to its profiler: `library` of each entry of communication";
}

}  // namespace exec::cuda
