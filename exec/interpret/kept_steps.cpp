// Steps that a backend keeps: the first step is given action by action, so that every place and
// size is known; the next is given once more into the backend's recording, which is then replayed
// for it and for all that follow. A step that is looked into is always given action by action.
// Where ranks talk to each other, all of them keep their steps, or none does.
#include "core/check.hpp"
#include "exec/interpret/interpreter.hpp"

namespace exec {

void Interpreter::give_step() {
  const bool kept = context_.keeps_steps && kept_.refused.empty() && log_ == nullptr &&
                    step_index_ > context_.first && (has_kept_step_ || keep_step());
  if (!kept) return issue_all();
  repeat_step();
}

// What channels have counted so far; they begin anew.
void Interpreter::settle(CommunicatorStatistics& into) {
  for (const auto& c : channels_) {
    into.merge(c->statistics());
    c->reset_statistics();
  }
}

// Whether this step is in the backend's recording now.
bool Interpreter::keep_step() {
  PLANNER_CHECK(class_.schedule.flushes, "steps with flush are kept");
  settle(settled_);
  kept_.refused = record_step();
  settle(traffic_of_kept_step_);
  has_kept_step_ = context_.world.everyone(kept_.refused.empty());
  if (has_kept_step_) return true;
  if (kept_.refused.empty()) kept_.refused = "another rank could not keep its step";
  backend_->forget_recording();
  host_work_.clear();
  return false;
}

// Why it could not be recorded; empty: it is.
std::string Interpreter::record_step() {
  if (std::string why = backend_->begin_recording(); !why.empty()) return why;
  keeping_ = true;
  issue_all();
  keeping_ = false;
  return backend_->end_recording();
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
  settled_.merge(traffic_of_kept_step_);
  ++kept_.replayed;
}

}  // namespace exec
