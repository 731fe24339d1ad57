#include "sim/program/cursor.hpp"

namespace program {

// begin, the passes of the schedule, end; after the run's last step, finish. Inference classes have
// empty backward routines, which settle() steps over.
void Cursor::next_routine() {
  at_ = 0;
  if (ended_ && (finished_ || which_.step + 1 < which_.steps)) {
    routine_ = nullptr;
  } else if (ended_) {
    finished_ = true;
    routine_ = &class_->finish;
  } else if (passes_.done()) {
    ended_ = true;
    const RankSchedule& s = class_->schedule;
    micro_batch_ = s.first_of(which_.step) + s.micro_batches - 1;
    routine_ = &class_->end;
  } else {
    micro_batch_ = passes_.pass().micro_batch;
    routine_ = &class_->routine(passes_.pass());
    passes_.advance();
  }
}

}  // namespace program
