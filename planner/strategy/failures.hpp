#pragma once
// Internal: the rules of a strategy that do not hold, as problems, or by their keys alone where the
// search asks which key is at fault. Their text is made only where it is read (Phrase).

#include "core/result.hpp"
#include "planner/question/phrase.hpp"

// For classes with a Failures `failures_`. Most rules hold, and the search asks them all for each
// structure: what a message is made of is not even evaluated then.
#define NEED(holds, ...) ((holds) ? void() : failures_.add(__VA_ARGS__))

namespace planner {

class Failures {
 public:
  // REQUIRES: `problems` outlives it.
  Failures(core::Problems& problems, bool keys_alone)
      : problems_(&problems), keys_alone_(keys_alone) {}
  bool keys_alone() const { return keys_alone_; }
  void add(const char* key, const Phrase& expected, const Phrase& found, const Phrase& fix = "") {
    if (keys_alone_) return void(problems_->push_back({key, "", "", ""}));
    problems_->push_back({key, expected.text(), found.text(), fix.text()});
  }

 private:
  core::Problems* problems_;
  bool keys_alone_;
};

}  // namespace planner
