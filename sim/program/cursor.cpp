#include "sim/program/cursor.hpp"

namespace program {

// begin, then routine k of the schedule: forwards run `warm_up` ahead of backwards. Inference
// classes have an empty backward routine, which settle() steps over.
void Cursor::next_routine() {
  at_ = 0;
  const Schedule& s = class_->schedule;
  if (ended_) {
    routine_ = nullptr;
    return;
  }
  const bool forward_due = forwards_ < s.micro_batches && forwards_ - backwards_ <= s.warm_up;
  if (forward_due) {
    micro_batch_ = forwards_++;
    routine_ = &class_->forward;
  } else if (backwards_ < s.micro_batches) {
    micro_batch_ = backwards_++;
    routine_ = backwards_ == s.micro_batches ? &class_->last_backward : &class_->backward;
  } else {
    ended_ = true;
    micro_batch_ = s.micro_batches - 1;
    routine_ = &class_->end;
  }
}

}  // namespace program
