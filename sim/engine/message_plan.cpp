#include "sim/engine/message_plan.hpp"

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

  // Each member passes on what it got in the step before.
  void ring(int group, int steps, double chunk) {
    for (int s = 0; s < steps; ++s) {
      for (int r = 0; r < group; ++r) {
        const std::uint32_t now = add(r, (r + 1) % group, chunk);
        if (s == 0) continue;
        const auto before = static_cast<std::uint32_t>((s - 1) * group);
        follow(before + static_cast<std::uint32_t>((r + group - 1) % group), now);
        follow(before + static_cast<std::uint32_t>(r), now);
      }
    }
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

}  // namespace engine
