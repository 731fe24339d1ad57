#pragma once
// Result<T>: a value, or every problem found in the input at once. A Problem says what was
// expected, what was found, where, and how to fix it; exit code 2 prints them (design: errors,
// four kinds and four ways). Thread-compatible.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/check.hpp"

namespace core {

// bad_input: found before work started, exit code 2. failed_running: while working (a device, a
// write), exit code 3.
enum class ProblemKind : std::uint8_t { bad_input, failed_running };

struct Problem {
  std::string where;     // "plan.json:12:5 /chosen/strategy/data", "--pin data=7"
  std::string expected;  // "an integer >= 1"
  std::string found;     // "\"seven\""
  std::string fix;       // "write data=1, 2, 4 or 8"; may be empty
  ProblemKind kind = ProblemKind::bad_input;
  std::string statement = {};  // whole sentences that say all of it, in place of the words above
};

using Problems = std::vector<Problem>;

// 3 if any problem arose while running, else 2.
int exit_code(const Problems& problems);

// One line per problem: "where: expected ..., found ...; fix", or its statement. Paths, names and
// values of files may hold anything: hidden characters are made visible (core/untrusted.hpp).
std::string to_text(const Problem& problem);
std::string to_text(const Problems& problems);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}                // NOLINT: conversion intended
  Result(Problems problems) : state_(std::move(problems)) {    // NOLINT
    PLANNER_CHECK(!std::get<Problems>(state_).empty());
  }
  Result(Problem problem) : state_(Problems{std::move(problem)}) {}  // NOLINT

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  // REQUIRES: ok().
  T& value() & { return std::get<T>(checked()); }
  const T& value() const& {
    PLANNER_CHECK(ok(), "value() of a failed Result");
    return std::get<T>(state_);
  }
  T&& value() && { return std::get<T>(std::move(checked())); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  // REQUIRES: !ok().
  const Problems& problems() const { return std::get<Problems>(state_); }

 private:
  std::variant<T, Problems>& checked() {
    PLANNER_CHECK(ok(), "value() of a failed Result");
    return state_;
  }

  std::variant<T, Problems> state_;
};

struct Done {};                  // the value of an operation that returns nothing
using Status = Result<Done>;

// What went wrong, if anything did, behind what did before.
template <class T>
void append(Problems& problems, const Result<T>& done) {
  if (!done.ok())
    problems.insert(problems.end(), done.problems().begin(), done.problems().end());
}

// The candidate that `text` was meant for: one that is an edit away, one whose words are in it
// ("--seq" for "--seq-len"), or the closest in edit distance; "" when none is near.
std::string_view nearest(std::string_view text, const std::vector<std::string_view>& candidates);

}  // namespace core
