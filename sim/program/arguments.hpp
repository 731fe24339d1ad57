#pragma once
// Where the arguments that an operator's schema names lie among those of one of its actions. Most
// have a fixed place. The others follow from the operator, which says how many inputs, parameters
// and outputs it has, and from how many arguments the action has. Pure; thread-safe.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/program/program.hpp"

namespace program {

// Whether the action is a kernel of an operator: forward, input_gradient or weight_gradient.
bool has_operator(ActionKind kind);
// REQUIRES: has_operator.
models::ops::Kernel kernel_of(ActionKind kind);
ActionKind kind_of(models::ops::Kernel kernel);

// The schema that the operator's actions follow: its kind's, or that of a step of a ring.
const models::ops::Schema& schema_of(const models::Operator& op);

// A run of an action's arguments. count 0: the argument is not there.
struct ArgumentRun {
  std::uint8_t first = 0, count = 0;
};
// By argument of the signature.
using ArgumentRuns = std::array<ArgumentRun, models::ops::Signature::kMost>;

// Where the arguments lie of an action of the operator that has `count` of them. Of the optional
// ones that the operator does not decide (gradients of parameters that may be frozen, keys of other
// ranks), all are there or none is; nullopt: the signature has no such list. O(arguments).
std::optional<ArgumentRuns> find_arguments(const models::ops::Signature& signature,
                                           const models::Operator& op, std::size_t count);

// Whether the operator makes the output of that name, which its schema marks as optional.
bool has_output(const models::Operator& op, std::string_view name);

// Place of the argument of that name among `count`. REQUIRES: it is there.
std::size_t argument(const models::Operator& op, models::ops::Kernel kernel, std::size_t count,
                     std::string_view name);

}  // namespace program
