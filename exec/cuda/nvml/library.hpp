#pragma once
// NvmlLibrary: NVIDIA's management library, opened at run time. Without it, or without a driver
// that answers, every symbol is null and problem() says why. Not thread-safe.

#include <string>

namespace exec::cuda {

class NvmlLibrary {
 public:
  explicit NvmlLibrary(const std::string& file = "libnvidia-ml.so.1");
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const std::string& problem() const { return problem_; }
  // Null: an older driver does not have it.
  template <class Signature>
  Signature* symbol(const char* name) const {
    return reinterpret_cast<Signature*>(find(name));
  }
  // Calls it with these arguments; false where it is not there or does not succeed.
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    const auto function = symbol<int(Arguments...)>(name);
    return function != nullptr && function(arguments...) == 0;
  }

 private:
  void* find(const char* name) const;

  void* library_ = nullptr;
  std::string problem_;
};

}  // namespace exec::cuda
