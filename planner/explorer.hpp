#pragma once
// Internal: evaluates the structures of a space for several machines at once. A program does not
// depend on the machine, so each is lowered once, bounded, and timed wherever it fits. Not
// thread-safe.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/closed_form/evaluator.hpp"
#include "planner/evaluate.hpp"
#include "planner/plan.hpp"
#include "planner/space.hpp"
#include "sim/program/program.hpp"

namespace planner {

// A strategy that fits by the closed-form bound.
struct Entry {
  Strategy strategy;                   // resolved
  core::Bytes device{};                // bound
  core::Seconds step{};
};

class Explorer {
 public:
  // questions: the machines; the first is the one asked about, and its counts and rejections are
  // kept. All have the same model and job.
  explicit Explorer(std::vector<Question> questions) : questions_(std::move(questions)),
                                                       entries_(questions_.size()) {}

  void explore(const std::vector<Structure>& structures);

  const std::vector<Entry>& entries(std::size_t machine) const { return entries_[machine]; }
  const SearchCounts& counts() const { return counts_; }
  const std::vector<Rejection>& rejections() const { return rejections_; }
  const std::map<std::string, std::int64_t>& per_limit() const { return per_limit_; }

  // Everything about one strategy on the first machine; replayed. REQUIRES: it can be lowered.
  Candidate candidate(const Strategy& strategy, std::size_t question = 0);
  // The bound and step of one strategy on the first machine, or nothing where it cannot be lowered.
  std::optional<Entry> measure(const Strategy& strategy);

 private:
  const models::ModelGraph& graph(const Strategy& strategy);
  void explore(const Structure& structure);
  // bounds: by machine, 0 where the program does not fit.
  void time_it(const program::Program& program, const Strategy& resolved,
               const std::vector<core::Bytes>& bounds);
  // larger: micro-batches beyond this one, which overflow too.
  void overflow(const Strategy& resolved, core::Bytes bound, std::int64_t larger);
  void reject(const Strategy& strategy, const core::Problems& problems);
  // live: by class of the program.
  core::Bytes device_bound(const Question& question, const program::Program& program,
                           const std::vector<core::Bytes>& live) const;

  std::vector<Question> questions_;
  std::vector<std::vector<Entry>> entries_;
  std::map<std::int64_t, models::ModelGraph> graphs_;  // by tensor degree
  SearchCounts counts_;
  std::vector<Rejection> rejections_;
  std::map<std::string, std::int64_t> per_limit_;
};

// Whether a bound is certain not to fit: bounds are at most 1.02 of the replay.
bool cannot_fit(core::Bytes bound, core::Bytes usable);

}  // namespace planner
