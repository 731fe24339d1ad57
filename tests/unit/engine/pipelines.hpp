#pragma once
// Synthetic pipelines: equal stages whose passes take stated picoseconds, and messages of stated
// bytes. On unit_machine() a kernel over n bytes takes n picoseconds.

#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"
#include "sim/cost/machine.hpp"
#include "tests/unit/program/program_builder.hpp"

namespace engine_test {

inline cost::Machine unit_machine() {
  cost::Machine m;
  m.memory = core::BytesPerSecond{1e12};
  m.link = m.internode = core::BytesPerSecond{1e12};
  m.gpus_per_node = 1024;
  return m;
}

struct PassBytes {
  std::int64_t forward = 0, input_gradient = 0, weight_gradient = 0, update = 0, message = 0;
};

// One rank: `chunks` pieces of the model, places r, r + p, ... of the chain.
class PipelineRank : public program_test::Builder {
 public:
  PipelineRank(const planner::Strategy& s, int rank, const PassBytes& bytes)
      : Builder("stage " + std::to_string(rank), rank), ranks_(static_cast<int>(s.pipeline)),
        chunks_(static_cast<int>(s.virtual_stages)), bytes_(bytes) {
    k.schedule = planner::schedule_of(s, rank, s.grad_accum);
    k.later_chunks.resize(static_cast<std::size_t>(chunks_ - 1));
    message_ = buffer("message", program::Term::communication, {bytes.message}, 1, 1, true);
    const std::int64_t backward =
        bytes.input_gradient + (k.schedule.split ? 0 : bytes.weight_gradient);
    for (int c = 0; c < chunks_; ++c) {
      program::PassRoutines& own =
          c == 0 ? k : k.later_chunks[static_cast<std::size_t>(c - 1)];
      const int place = c * ranks_ + rank;
      own.forward = pass("forward", bytes.forward, place, false);
      own.backward = own.last_backward = pass("backward", backward, place, true);
      if (!k.schedule.split) continue;
      own.weight_gradient = own.last_weight_gradient = {
          call(kernel("weights", bytes.weight_gradient))};
    }
    k.end = {call(kernel("update", bytes.update))};
  }

 private:
  std::uint16_t kernel(const std::string& name, std::int64_t bytes) {
    const auto b = buffer(name, program::Term::activations, {bytes}, 1, 1, true);
    const auto id = block(name);
    act(program::ActionKind::zero, {program_test::whole(b)});
    return id;
  }

  // Waits for its input where it has one, works, and sends its result where somebody follows.
  program::Routine pass(const std::string& name, std::int64_t bytes, int place, bool gradient) {
    program::Routine routine;
    const int last = ranks_ * chunks_ - 1;
    const bool from = gradient ? place < last : place > 0;
    const bool to = gradient ? place > 0 : place < last;
    const auto ahead = gradient ? program::Group::next : program::Group::previous;
    const auto onwards = gradient ? program::Group::previous : program::Group::next;
    if (from) {
      const auto received = event("received");
      routine.push_back(call(block("receive")));
      act(program::ActionKind::receive, {program_test::whole(message_)}, program::Stream::receive,
          message(ahead, gradient ? place + 1 : place, gradient));
      signal(program_test::at(received));
      act(program::ActionKind::fence, {}).wait(program_test::at(received));
    }
    routine.push_back(call(kernel(name, bytes)));
    if (to) {
      const auto may = event("may_send");
      routine.push_back(call(block("send")));
      act(program::ActionKind::fence, {}).signal(program_test::at(may));
      act(program::ActionKind::send, {program_test::whole(message_)}, program::Stream::send,
          message(onwards, gradient ? place : place + 1, gradient));
      wait(program_test::at(may));
    }
    return routine;
  }

  // later: the place whose forward pass takes what is sent, or gave it.
  std::uint16_t message(program::Group group, int later, bool gradient) {
    return transfer({program::Collective::send, program::Algorithm::direct,
                     program::Traffic::pipeline, group, program::ReduceOp::sum, core::DType::u8,
                     static_cast<std::uint16_t>(2 * (later / ranks_) + (gradient ? 1 : 0))});
  }

  int ranks_, chunks_;
  PassBytes bytes_;
  std::uint16_t message_ = 0;
};

inline program::Program pipeline(planner::Schedule schedule, int ranks, std::int64_t micro_batches,
                                 int chunks, const PassBytes& bytes) {
  planner::Strategy s;
  s.schedule = schedule;
  s.pipeline = ranks;
  s.virtual_stages = chunks;
  s.grad_accum = micro_batches;
  program::Program p;
  p.mesh.pipeline = ranks;
  for (int r = 0; r < ranks; ++r) p.classes.push_back(PipelineRank(s, r, bytes).k);
  return p;
}

}  // namespace engine_test
