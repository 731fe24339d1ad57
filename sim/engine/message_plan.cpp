#include "sim/engine/message_plan.hpp"

#include <algorithm>
#include <map>

#include "core/check.hpp"

namespace engine {
namespace {

using program::Algorithm;
using program::Collective;

class Writer {
 public:
  MessagePlan plan;

  std::uint32_t add(int from, int to, double bytes) {
    plan.messages.push_back({from, to, bytes});
    return static_cast<std::uint32_t>(plan.messages.size() - 1);
  }
  void follow(std::uint32_t first, std::uint32_t second) {
    plan.messages[first].then.push_back(second);
    ++plan.messages[second].after;
  }

  // Each member passes on what it got in the round before.
  void ring(int group, std::int64_t rounds, double chunk) {
    for (int r = 0; r < group; ++r) add(r, (r + 1) % group, chunk);
    plan.rounds = rounds;
    plan.ring = true;
  }

  // Member i's children are 2i + 1 and 2i + 2. Message i - 1 goes up from i, K - 2 + i down to it.
  void tree(int group, double bytes) {
    for (int i = 1; i < group; ++i) add(i, (i - 1) / 2, bytes);
    for (int i = 1; i < group; ++i) add((i - 1) / 2, i, bytes);
    const auto up = [](int i) { return static_cast<std::uint32_t>(i - 1); };
    const auto down = [group](int i) { return static_cast<std::uint32_t>(group - 2 + i); };
    for (int i = 1; i < group; ++i) {
      const int parent = (i - 1) / 2;
      if (parent > 0) follow(up(i), up(parent)), follow(down(parent), down(i));
    }
    for (int child = 1; child <= 2 && child < group; ++child)
      for (int other = 1; other <= 2 && other < group; ++other) follow(up(other), down(child));
  }
};

}  // namespace

MessagePlan message_plan(Collective collective, Algorithm algorithm, int group,
                         std::int64_t elements, core::DType type) {
  PLANNER_CHECK(algorithm != Algorithm::parameter_server && group >= 2);
  Writer w;
  const auto whole = static_cast<double>(core::bytes_of(elements, type).value());
  if (algorithm == Algorithm::ring && collective == Collective::send) {
    w.ring(group, 1, whole);
  } else if (algorithm == Algorithm::ring) {
    const std::int64_t part = program::padded(elements, group) / group;
    const int passes = collective == Collective::all_reduce ? 2 : 1;
    w.ring(group, passes * (group - 1),
           static_cast<double>(core::bytes_of(part, type).value()));
  } else if (algorithm == Algorithm::tree) {
    w.tree(group, whole);
  } else if (algorithm == Algorithm::pairwise) {
    const std::int64_t part = program::padded(elements, group) / group;
    for (int from = 0; from < group; ++from)
      for (int step = 1; step < group; ++step)
        w.add(from, (from + step) % group,
              static_cast<double>(core::bytes_of(part, type).value()));
  } else if (collective == Collective::send) {
    w.add(0, 1, whole);
  } else {
    for (int from = 0; from < group; ++from)
      for (int to = 0; to < group; ++to)
        if (from != to && (algorithm == Algorithm::naive_all_reduce || from == 0))
          w.add(from, to, whole);
  }
  return std::move(w.plan);
}

std::vector<int> levels(const MessagePlan& plan) {
  std::vector<int> level(plan.messages.size(), 0), awaits;
  std::vector<std::uint32_t> ready;
  for (const Message& m : plan.messages) awaits.push_back(m.after);
  for (std::uint32_t m = 0; m < level.size(); ++m)
    if (awaits[m] == 0) ready.push_back(m);
  for (std::size_t i = 0; i < ready.size(); ++i)
    for (const std::uint32_t next : plan.messages[ready[i]].then) {
      level[next] = std::max(level[next], level[ready[i]] + 1);
      if (--awaits[next] == 0) ready.push_back(next);
    }
  return level;
}

namespace {

// By kind, each once and again in the same order; the first period stands for all.
MessagePlan fold_ring(const MessagePlan& plan, std::span<const int> member_kind, int kinds) {
  MessagePlan folded;
  folded.rounds = plan.rounds;
  folded.ring = true;
  for (std::size_t i = 0; i < member_kind.size(); ++i)
    PLANNER_CHECK(member_kind[i] == static_cast<int>(i) % kinds, "a ring of no period");
  for (int r = 0; r < kinds; ++r)
    folded.messages.push_back(
        {r, (r + 1) % kinds, plan.messages[static_cast<std::size_t>(r)].bytes});
  return folded;
}

// What each of the first messages is followed by, in the numbers of their kinds.
void follow_folded(const MessagePlan& plan, std::span<const std::uint32_t> stands_in,
                   std::span<const std::uint32_t> firsts, MessagePlan& folded) {
  for (std::uint32_t m = 0; m < plan.messages.size(); ++m)
    for (const std::uint32_t next : plan.messages[m].then) {
      const std::uint32_t by = stands_in[next];
      if (firsts[by] != next) continue;
      std::vector<std::uint32_t>& then = folded.messages[stands_in[m]].then;
      if (std::ranges::find(then, by) != then.end()) continue;
      then.push_back(by);
      ++folded.messages[by].after;
    }
}

}  // namespace

MessagePlan fold_plan(const MessagePlan& plan, std::span<const int> member_kind,
                      std::span<const std::int64_t> message_kind,
                      std::vector<std::uint32_t>* first) {
  const int kinds = 1 + *std::ranges::max_element(member_kind);
  std::vector<std::uint32_t> firsts;
  MessagePlan folded;
  if (plan.ring) {
    folded = fold_ring(plan, member_kind, kinds);
    for (std::uint32_t r = 0; r < folded.messages.size(); ++r) firsts.push_back(r);
  } else {
    std::map<std::int64_t, std::uint32_t> known;
    std::vector<std::uint32_t> stands_in;
    std::vector<int> count;
    const auto kind_of = [&](int member) { return member_kind[static_cast<std::size_t>(member)]; };
    for (std::uint32_t m = 0; m < plan.messages.size(); ++m) {
      const auto fresh = static_cast<std::uint32_t>(folded.messages.size());
      const std::uint32_t at = known.try_emplace(message_kind[m], fresh).first->second;
      stands_in.push_back(at);
      if (at == fresh) {
        const Message& of = plan.messages[m];
        folded.messages.push_back({kind_of(of.from), kind_of(of.to), of.bytes});
        firsts.push_back(m);
        count.push_back(0);
      }
      ++count[at];
    }
    follow_folded(plan, stands_in, firsts, folded);
    for (std::size_t m = 0; m < count.size(); ++m) {
      Message& message = folded.messages[m];
      const auto senders = static_cast<int>(std::ranges::count(member_kind, message.from));
      const auto receivers = static_cast<int>(std::ranges::count(member_kind, message.to));
      PLANNER_CHECK(count[m] % senders == 0 && count[m] % receivers == 0,
                    "alike members exchange different messages");
      message.copies = count[m] / senders;
      message.arrivals = count[m] / receivers;
    }
  }
  if (first != nullptr) *first = std::move(firsts);
  return folded;
}

}  // namespace engine
