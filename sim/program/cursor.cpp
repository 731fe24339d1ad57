#include "sim/program/cursor.hpp"

namespace program {

// begin, the passes of the schedule, end. Inference classes have empty backward routines, which
// settle() steps over.
void Cursor::next_routine() {
  at_ = 0;
  if (ended_) {
    routine_ = nullptr;
  } else if (passes_.done()) {
    ended_ = true;
    micro_batch_ = class_->schedule.micro_batches - 1;
    routine_ = &class_->end;
  } else {
    micro_batch_ = passes_.pass().micro_batch;
    routine_ = &class_->routine(passes_.pass());
    passes_.advance();
  }
}

}  // namespace program
