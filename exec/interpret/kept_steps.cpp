// Steps that a backend keeps: the first step is given action by action, so that every place and
// size is known; the next is given once more into the backend's recording, which is then replayed
// for it and for all that follow. A step that is looked into is always given action by action.
#include "core/check.hpp"
#include "exec/interpret/interpreter.hpp"

namespace exec {

void Interpreter::give_step() {
  const bool kept = context_.keeps_steps && kept_.refused.empty() && log_ == nullptr &&
                    step_index_ > context_.first && (!host_work_.empty() || keep_step());
  if (!kept) return issue_all();
  repeat_step();
}

// Whether this step is in the backend's recording now.
bool Interpreter::keep_step() {
  PLANNER_CHECK(context_.program.mesh.ranks() == 1 && class_.schedule.flushes,
                "steps of one rank with flush are kept");
  kept_.refused = backend_->begin_recording();
  if (!kept_.refused.empty()) return false;
  keeping_ = true;
  issue_all();
  keeping_ = false;
  kept_.refused = backend_->end_recording();
  if (!kept_.refused.empty()) host_work_.clear();
  return kept_.refused.empty();
}

// The host's part of the step, then the rest of it at once.
void Interpreter::repeat_step() {
  repeating_ = true;
  for (const HostWork& w : host_work_) {
    if (w.action->kind == program::ActionKind::load)
      load(*w.action, w.call, w.args[0]);
    else
      count_copy(*w.action, w.call, 0);
  }
  repeating_ = false;
  backend_->replay(step_index_ + 1, training_.rate_at(step_index_));
  ++kept_.replayed;
}

}  // namespace exec
