#pragma once
// Random sound Programs: pipelines of data-parallel stages whose passes are random kernels on
// random streams, with events between them, collectives and messages. And a second opinion on
// their times that shares nothing with sim/engine but the cost of an action.

#include <map>
#include <set>
#include <tuple>

#include "core/random.hpp"
#include "sim/cost/action.hpp"
#include "sim/program/cursor.hpp"
#include "tests/unit/program/program_builder.hpp"

namespace engine_test {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed, 0x64696365) {}
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(random_.below(drawn_++, static_cast<std::uint64_t>(count)));
  }
  bool one_in(std::int64_t count) { return below(count) == 0; }

 private:
  core::Random random_;
  std::uint64_t drawn_ = 0;
};

// One stage. Its shape is drawn from a seed of its own, so that equal seeds make equal classes.
class RandomRank : public program_test::Builder {
 public:
  RandomRank(std::uint64_t seed, int stage, int stages, const program::RankSchedule& schedule)
      : Builder("stage " + std::to_string(stage), stage), dice_(seed) {
    k.schedule = schedule;
    const std::int64_t bytes = 1 + dice_.below(4000);
    in_ = buffer("in", program::Term::communication, {bytes}, 1, 1, true);
    out_ = buffer("out", program::Term::communication, {bytes}, 1, 1, true);
    k.forward = pass(stage > 0, stage + 1 < stages, false);
    k.backward = pass(stage + 1 < stages, stage > 0, true);
    k.last_backward = k.backward;
    add_work(k.begin);
    add_work(k.last_backward);
    add_reductions();
    add_work(k.end);
  }

 private:
  static constexpr program::Stream kWork[] = {program::Stream::compute, program::Stream::compute,
                                              program::Stream::gradient,
                                              program::Stream::parameter};

  // Blocks of kernels; a kernel may signal, and wait for what this stage has signalled before.
  void add_work(program::Routine& routine) {
    const std::int64_t blocks = 1 + dice_.below(3);
    for (std::int64_t b = 0; b < blocks; ++b) {
      const auto id = block("work");
      const std::int64_t kernels = 1 + dice_.below(4);
      for (std::int64_t i = 0; i < kernels; ++i) add_kernel(kWork[dice_.below(4)]);
      routine.push_back(call(id));
    }
  }
  void add_kernel(program::Stream stream) {
    const auto into = buffer("k", program::Term::activations, {dice_.below(9000)}, 1, 1, true);
    const bool fence = dice_.one_in(5);
    if (fence)
      act(program::ActionKind::fence, {}, stream);
    else
      act(program::ActionKind::zero, {program_test::whole(into)}, stream);
    for (std::int64_t w = dice_.below(5); w > 0 && !signalled_.empty(); --w) {
      const auto e = signalled_[static_cast<std::size_t>(
          dice_.below(static_cast<std::int64_t>(signalled_.size())))];
      wait(program_test::at(e, dice_.one_in(3) ? -1 : 0), true);
    }
    if (dice_.one_in(3)) {
      const auto e = event("e", 1, 1 + static_cast<int>(dice_.below(3)));
      signal(program_test::at(e));
      signalled_.push_back(e);
    }
    if (dice_.one_in(8)) k.actions.back().flags = program::kSkipFirstMicroBatch;
  }

  program::Routine pass(bool receives, bool sends, bool gradient) {
    program::Routine routine;
    if (receives) {
      const auto may = event("may"), received = event("received");
      routine.push_back(call(block("receive")));
      act(program::ActionKind::fence, {}).signal(program_test::at(may));
      act(program::ActionKind::receive, {program_test::whole(in_)}, program::Stream::receive,
          message(gradient ? program::Group::next : program::Group::previous, gradient));
      if (dice_.one_in(2)) wait(program_test::at(may));
      signal(program_test::at(received));
      act(program::ActionKind::fence, {}).wait(program_test::at(received));
    }
    add_work(routine);
    if (sends) {
      const auto may = event("may");
      routine.push_back(call(block("send")));
      act(program::ActionKind::fence, {}).signal(program_test::at(may));
      act(program::ActionKind::send, {program_test::whole(out_)}, program::Stream::send,
          message(gradient ? program::Group::previous : program::Group::next, gradient));
      wait(program_test::at(may));
    }
    return routine;
  }

  // As many on every rank of a stage; on two streams.
  void add_reductions() {
    for (std::int64_t i = 1 + dice_.below(3); i > 0; --i) {
      const auto ready = event("ready"), reduced = event("reduced");
      const auto what = buffer("g", program::Term::gradients, {8 * (1 + dice_.below(500))}, 1, 1,
                               true);
      const auto id = block("reduce");
      act(program::ActionKind::fence, {}).signal(program_test::at(ready));
      const auto t = transfer({program::Collective::all_reduce, program::Algorithm::ring,
                               program::Traffic::gradients, program::Group::data,
                               program::ReduceOp::sum, core::DType::u8, 0});
      const auto stream = i % 2 == 0 ? program::Stream::gradient : program::Stream::parameter;
      act(program::ActionKind::collective, {program_test::whole(what)}, stream, t);
      wait(program_test::at(ready)).signal(program_test::at(reduced));
      k.last_backward.push_back(call(id));
      const auto after = block("reduced");
      act(program::ActionKind::fence, {}).wait(program_test::at(reduced));
      k.end.push_back(call(after));
    }
  }

  std::uint16_t message(program::Group group, bool gradient) {
    return transfer({program::Collective::send, program::Algorithm::direct,
                     program::Traffic::pipeline, group, program::ReduceOp::sum, core::DType::u8,
                     static_cast<std::uint16_t>(gradient ? 1 : 0)});
  }

  Dice dice_;
  std::uint16_t in_ = 0, out_ = 0;
  std::vector<std::uint16_t> signalled_;
};

// Messages of neighbouring stages must have one length: the first stage's.
inline program::Program random_program(std::uint64_t seed) {
  Dice dice(seed);
  program::Program p;
  const int stages = 1 + static_cast<int>(dice.below(4));
  p.mesh.pipeline = stages;
  p.mesh.data = 1 + static_cast<int>(dice.below(4));
  const std::int64_t m = 1 + dice.below(6);
  const bool gpipe = dice.one_in(2);
  for (int s = 0; s < stages; ++s) {
    program::RankSchedule schedule;
    schedule.micro_batches = m;
    schedule.warm_up = gpipe ? m : std::min<std::int64_t>(m, stages - s - 1);
    schedule.ranks = stages;
    schedule.rank = s;
    p.classes.push_back(RandomRank(seed * 131 + static_cast<std::uint64_t>(s), s, stages,
                                   schedule).k);
    for (const std::size_t b : {0, 1})
      p.classes.back().buffers[b].elements = p.classes.front().buffers[b].elements;
  }
  return p;
}

// When each rank has done a step: every action of every rank, relaxed until nothing moves.
class SecondOpinion {
 public:
  SecondOpinion(const program::Program& p, const cost::Machine& machine) : p_(p) {
    for (int r = 0; r < p.mesh.ranks(); ++r) expand(r, machine);
    while (relax()) {
    }
  }
  std::int64_t finish(int rank) const {
    std::int64_t last = 0;
    for (const Node& n : nodes_)
      if (n.rank == rank) last = std::max(last, n.finish);
    return last;
  }
  std::int64_t busiest_stream() const {
    std::map<std::pair<int, program::Stream>, std::int64_t> busy;
    std::int64_t most = 0;
    for (const Node& n : nodes_) most = std::max(most, busy[{n.rank, n.stream}] += n.duration);
    return most;
  }

 private:
  using Key = std::tuple<int, int, int, int, int, int>;
  struct Node {
    int rank = 0;
    program::Stream stream{};
    std::int64_t duration = 0, ready = 0, start = 0, finish = 0;
    std::vector<std::size_t> after{};
    std::vector<std::size_t>* meeting = nullptr;
  };

  void expand(int rank, const cost::Machine& machine) {
    const program::RankClass& k = p_.classes[static_cast<std::size_t>(p_.class_of(rank))];
    const cost::ActionCost cost(p_, k, machine, 0, rank);
    std::map<program::Stream, std::size_t> tail;
    std::map<std::pair<int, int>, std::size_t> signalled;
    std::map<Key, int> turns;
    program::for_each_call(k, [&](const program::Call& call) {
      const program::Block& block = k.blocks[call.block];
      for (std::uint32_t i = block.first; i < block.last; ++i) {
        const program::Action& a = k.actions[i];
        if ((a.flags & program::kSkipFirstMicroBatch) != 0 && call.micro_batch == 0) continue;
        Node n{rank, a.stream, cost(a, call).value()};
        if (tail.contains(a.stream)) n.after.push_back(tail[a.stream]);
        for (std::uint32_t w = 0; w < a.wait_count; ++w) {
          const program::EventRef& on = k.waits[a.first_wait + w].on;
          const auto at = signalled.find({on.event, instance_of(k.events[on.event], on, call)});
          if (at != signalled.end()) n.after.push_back(at->second);
        }
        if (a.kind == program::ActionKind::collective || a.kind == program::ActionKind::send ||
            a.kind == program::ActionKind::receive) {
          const program::Transfer& t = k.transfers[a.op];
          const std::vector<int> members = p_.mesh.members(t.group, rank);
          const bool collective = a.kind == program::ActionKind::collective;
          const bool sends = a.kind == program::ActionKind::send;
          const int from = sends ? rank : members.back(), to = sends ? members.back() : rank;
          Key key = collective ? Key{0, static_cast<int>(t.group), static_cast<int>(a.stream),
                                     members.front(), 0, 0}
                               : Key{1, from, to, t.tag, 0, 0};
          std::get<5>(key) = turns[key]++;
          n.meeting = &meetings_[key];
          n.meeting->push_back(nodes_.size());
        }
        if (a.signal != program::kNone) {
          const program::EventRef& on = k.signals[a.signal];
          signalled[{on.event, instance_of(k.events[on.event], on, call)}] = nodes_.size();
        }
        tail[a.stream] = nodes_.size();
        nodes_.push_back(std::move(n));
      }
    });
  }

  bool relax() {
    bool moved = false;
    for (Node& n : nodes_) {
      for (const std::size_t before : n.after)
        n.ready = std::max(n.ready, nodes_[before].finish);
      std::int64_t start = n.ready;
      if (n.meeting != nullptr)
        for (const std::size_t party : *n.meeting) start = std::max(start, nodes_[party].ready);
      moved |= start + n.duration != n.finish || start != n.start;
      n.start = start;
      n.finish = start + n.duration;
    }
    return moved;
  }

  const program::Program& p_;
  std::vector<Node> nodes_;
  std::map<Key, std::vector<std::size_t>> meetings_;
};

}  // namespace engine_test
