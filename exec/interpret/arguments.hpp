#pragma once
// An action's arguments by the names of its operator's schema. With `Forward<ops::layer_norm>
// a(op, args)`, a["gamma"] is the view of gamma. A name that the schema lacks does not compile. The
// places of arguments are constants, unless some of the list are optional: then they follow from
// the operator and from how many arguments there are. For kernels of every backend; thread-safe.

#include <span>

#include "core/check.hpp"
#include "exec/interpret/kernels.hpp"
#include "sim/program/arguments.hpp"

namespace exec {

namespace ops = models::ops;

// Declared and not defined: to call it while compiling is the error message.
void the_schema_has_no_such_argument();

template <const ops::Schema& kSchema, ops::Kernel kKernel>
class Arguments {
  static constexpr const ops::Signature& kSignature = ops::kSignature<kSchema, kKernel>;

 public:
  struct Name {
    std::size_t index;
    consteval Name(const char* text) : index(kSignature.find(text)) {
      if (index == kSignature.count) the_schema_has_no_such_argument();
    }
  };

  Arguments(const models::Operator& op, std::span<const Operand> args) : args_(args) {
    const auto runs = program::find_arguments(kSignature, op, args.size());
    PLANNER_CHECK(runs.has_value(), "other arguments than the schema of " + op.name + " has");
    if constexpr (!kSignature.fixed()) runs_ = *runs;
  }

  bool has(Name name) const { return kSignature.fixed() || runs_[name.index].count > 0; }
  // REQUIRES: has(name).
  const Operand& operand(Name name) const {
    return args_[kSignature.fixed() ? name.index : runs_[name.index].first];
  }
  // Of a name that stands for any number of arguments.
  std::span<const Operand> all(Name name) const {
    return args_.subspan(runs_[name.index].first, runs_[name.index].count);
  }
  // Without data where the argument is not there.
  host::View operator[](Name name) const { return has(name) ? view(operand(name)) : host::View{}; }

 private:
  std::span<const Operand> args_;
  program::ArgumentRuns runs_{};       // of a list that is not fixed
};

template <const ops::Schema& kSchema>
using Forward = Arguments<kSchema, ops::Kernel::forward>;
template <const ops::Schema& kSchema>
using InputGradient = Arguments<kSchema, ops::Kernel::input_gradient>;
template <const ops::Schema& kSchema>
using WeightGradient = Arguments<kSchema, ops::Kernel::weight_gradient>;

}  // namespace exec
