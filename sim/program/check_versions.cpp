// Versions of weights in a pipeline without flush: which updates each instance holds, span by span,
// in issue order (order over streams is check_class's).
#include <algorithm>

#include "sim/program/access.hpp"
#include "sim/program/checker_parts.hpp"

namespace program::checker {
namespace {

class Versions {
 public:
  Versions(const RankClass& k, Problems& problems)
      : k_(k), problems_(problems),
        held_(static_cast<std::size_t>(k.buffers[k.weights_buffer].slots),
              std::vector<std::int64_t>(k.spans.size(), 0)),
        made_(k.spans.size(), 0) {}

  void issue(const Place& at, const Action& a) {
    const std::uint32_t writes = a.arg_count == 0 ? 0 : written_args(k_, a);
    if (a.kind == ActionKind::alloc || a.kind == ActionKind::free) return;
    for (std::uint32_t i = 0; i < a.arg_count; ++i)
      if (const View& v = view(a, i); is_weights(v) && ((writes >> i) & 1) == 0 &&
                                      a.kind != ActionKind::cast &&
                                      a.kind != ActionKind::collective)
        read(at, v);
    if (a.kind == ActionKind::optimizer) return update(at, a);
    if (a.arg_count == 0 || ((writes >> (a.arg_count - 1u)) & 1) == 0) return;
    const View &from = view(a, 0), &to = view(a, a.arg_count - 1u);
    if (is_weights(to) && is_weights(from))
      for (const std::size_t s : spans(at, to)) held(at, to, s) = held(at, from, s);
    else if (is_weights(from))
      read(at, from);                  // a copy that kernels read
  }

 private:
  const View& view(const Action& a, std::uint32_t i) const { return k_.views[a.first_arg + i]; }
  bool is_weights(const View& v) const { return v.buffer == k_.weights_buffer; }
  std::int64_t& held(const Place& at, const View& v, std::size_t span) {
    const int slot = instance_of(k_.buffers[v.buffer], v, at.call);
    return held_[static_cast<std::size_t>(slot)][span];
  }

  // That a view of the flat space touches.
  std::vector<std::size_t> spans(const Place& at, const View& v) const {
    const ResolvedRange r = resolve(k_, v, at.call, 0);
    std::vector<std::size_t> found;
    for (std::size_t s = 0; s < k_.spans.size(); ++s) {
      const Span& span = k_.spans[s];
      if (span.offset < r.offset + r.elements && r.offset < span.offset + span.elements)
        found.push_back(s);
    }
    return found;
  }

  void read(const Place& at, const View& v) {
    const std::int64_t step = at.call.micro_batch / k_.schedule.micro_batches;
    const std::int64_t wanted = std::max<std::int64_t>(step - k_.schedule.delay, 0);
    for (const std::size_t s : spans(at, v)) {
      const std::int64_t found = held(at, v, s);
      if (found != wanted)
        report(at, "weights after " + std::to_string(wanted) + " updates, in every pass of step " +
                       std::to_string(step),
               "after " + std::to_string(found),
               "keep that version until its last reader, and name its instance");
    }
  }

  // In place, or (with a master copy) from that.
  void update(const Place& at, const Action& a) {
    const View& to = view(a, 0);
    if (!is_weights(to)) return;
    const bool in_place = k_.master_buffer == kNone;
    for (const std::size_t s : spans(at, to)) {
      if (in_place && held(at, to, s) != made_[s])
        report(at, "an update of the weights after " + std::to_string(made_[s]) + " updates",
               "of those after " + std::to_string(held(at, to, s)),
               "first copy the newest version to where it is updated");
      held(at, to, s) = ++made_[s];
    }
  }

  void report(const Place& at, std::string expected, std::string found, std::string fix) {
    problems_.add(Rule::versions, k_.name, k_, at, std::move(expected), std::move(found),
                  std::move(fix));
  }

  const RankClass& k_;
  Problems& problems_;
  std::vector<std::vector<std::int64_t>> held_;  // updates, by instance and span
  std::vector<std::int64_t> made_;     // updates of a span so far
};

}  // namespace

void check_versions(const RankClass& k, Problems& problems) {
  if (k.schedule.flushes || k.weights_buffer == kNone) return;
  Versions versions(k, problems);
  for_each_action(k, k.schedule.micro_batches,
                  [&](const Place& at, const Action& a) { versions.issue(at, a); });
}

}  // namespace program::checker
