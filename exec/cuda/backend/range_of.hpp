#pragma once
// RangeOf: while it lives, profilers show the thread's work under an action's kind and, of an
// operator's kernels, under its name within. Work that was held back is shown as its own.

#include "exec/cuda/api/api.hpp"
#include "sim/program/program.hpp"

namespace exec::cuda {

class RangeOf {
 public:
  RangeOf(Api& api, program::ActionKind kind, const char* op = nullptr)
      : api_(api), named_(op != nullptr) {
    api_.push_range(program::name(kind).data());
    if (named_) api_.push_range(op);
  }
  ~RangeOf() {
    if (named_) api_.pop_range();
    api_.pop_range();
  }
  RangeOf(const RangeOf&) = delete;
  RangeOf& operator=(const RangeOf&) = delete;

 private:
  Api& api_;
  bool named_;
};

}  // namespace exec::cuda
