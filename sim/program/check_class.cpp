// Waits, lifetimes, order over streams and accumulation of one class. Actions are taken in issue
// order, in one pass: an instance's state and the events' clocks are what was issued before.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "sim/program/access.hpp"
#include "sim/program/checker_parts.hpp"

namespace program::checker {
namespace {

// Of each stream, how many actions are known to be complete.
using Clock = std::array<std::int64_t, kStreams>;

void join(Clock& into, const Clock& from) {
  for (std::size_t s = 0; s < kStreams; ++s) into[s] = std::max(into[s], from[s]);
}

constexpr auto kCompute = static_cast<std::size_t>(Stream::compute);

// The last uses of one range of an instance. Position 0: none.
struct Cell {
  std::int64_t end = 0;
  std::size_t writer = kCompute;       // an alloc counts as a write of the compute stream
  std::int64_t written = 0;
  Clock read{};                        // latest read by each stream
  // Latest micro-batch that was added; by operator where a rank has both arms of a V.
  std::vector<std::pair<std::uint16_t, std::int64_t>> added{};
};

struct Instance {
  bool alive = false, ever = false;
  std::map<std::int64_t, Cell> cells;  // by begin; they tile the instance

  void reset(std::int64_t elements, std::int64_t position) {
    cells.clear();
    if (elements > 0) cells[0] = Cell{elements, kCompute, position, {}, {}};
  }
  void split(std::int64_t at) {
    auto next = cells.upper_bound(at);
    if (next == cells.begin()) return;
    const auto cell = std::prev(next);
    if (cell->first == at || cell->second.end <= at) return;
    Cell upper = cell->second;
    cell->second.end = at;
    cells.emplace(at, upper);
  }
};

class ClassCheck {
 public:
  ClassCheck(const RankClass& k, int part, Problems& problems)
      : k_(k), part_(part), problems_(problems), instances_(k.buffers.size()) {
    for (std::size_t b = 0; b < k.buffers.size(); ++b) {
      const Buffer& buffer = k.buffers[b];
      instances_[b].resize(static_cast<std::size_t>(buffer.extent) *
                           static_cast<std::size_t>(buffer.slots));
      if (!buffer.persistent) continue;
      for (std::size_t i = 0; i < instances_[b].size(); ++i) {
        instances_[b][i].alive = true;
        const auto layer = static_cast<int>(i) / buffer.slots;
        instances_[b][i].reset(buffer.instance_elements(layer), 0);
      }
    }
    events_.resize(k.events.size());
    for (std::size_t e = 0; e < k.events.size(); ++e)
      events_[e].resize(static_cast<std::size_t>(k.events[e].extent) *
                        static_cast<std::size_t>(k.events[e].slots));
  }

  void issue(const Place& at, const Action& a) {
    at_ = at;
    if (a.kind == ActionKind::alloc) return allocate(k_.views[a.first_arg]);
    if (a.kind == ActionKind::free) return release(k_.views[a.first_arg]);
    const auto stream = static_cast<std::size_t>(a.stream);
    wait(a, clocks_[stream]);
    ++clocks_[stream][stream];
    const std::uint32_t writes = written_args(k_, a);
    for (std::uint32_t i = 0; i < a.arg_count; ++i)
      use(a, k_.views[a.first_arg + i], ((writes >> i) & 1) != 0);
    if (a.signal == kNone) return;
    if (auto* event = event_of(k_.signals[a.signal])) *event = clocks_[stream];
  }

  void finish() {
    for (std::size_t b = 0; b < instances_.size(); ++b) {
      const bool left = std::ranges::any_of(instances_[b], &Instance::alive);
      if (left && !k_.buffers[b].persistent) {
        at_ = allocated_at_[b];
        report(Rule::lifetime, "a free of " + k_.buffers[b].name + " before the step ends", "none",
               "free what is allocated");
      }
    }
  }

 private:
  void report(Rule rule, std::string expected, std::string found, std::string fix) {
    problems_.add(rule, k_.name, k_, at_, std::move(expected), std::move(found), std::move(fix));
  }

  // nullptr where the reference lies outside the extent (reported).
  std::optional<Clock>* event_of(const EventRef& ref) {
    const Event& event = k_.events[ref.event];
    const int layer = layer_index(ref, at_.call);
    if (layer < 0 || layer >= event.extent) {
      report(Rule::wait, "an instance of event " + event.name, "index " + std::to_string(layer),
             "declare the event with this extent");
      return nullptr;
    }
    return &events_[ref.event][static_cast<std::size_t>(instance_of(event, ref, at_.call))];
  }

  Instance* instance(const View& view) {
    const Buffer& buffer = k_.buffers[view.buffer];
    const int layer = layer_index(view, at_.call);
    if (layer < 0 || layer >= buffer.extent) {
      report(Rule::lifetime, "an instance of " + buffer.name, "index " + std::to_string(layer),
             "declare the buffer with this extent");
      return nullptr;
    }
    return &instances_[view.buffer][static_cast<std::size_t>(instance_of(buffer, view, at_.call))];
  }

  void wait(const Action& a, Clock& clock) {
    for (std::uint32_t i = 0; i < a.wait_count; ++i) {
      const Wait& w = k_.waits[a.first_wait + i];
      const auto* event = event_of(w.on);
      if (event == nullptr) continue;
      if (*event) {
        join(clock, **event);
      } else if (!w.may_precede) {
        report(Rule::wait, "a signal of " + k_.events[w.on.event].name + " issued before this wait",
               "none", "signal it earlier, or mark the wait may_precede");
      }
    }
  }

  void allocate(const View& view) {
    Instance* it = instance(view);
    if (it == nullptr) return;
    const Buffer& buffer = k_.buffers[view.buffer];
    if (it->alive)
      report(Rule::lifetime, "a free of " + text(k_, view, at_.call) + " before its next alloc",
             buffer.persistent ? "a persistent buffer" : "it is still allocated",
             "free it first, or give the buffer more slots");
    it->alive = it->ever = true;
    it->reset(buffer.instance_elements(layer_index(view, at_.call)), clocks_[kCompute][kCompute]);
    allocated_at_[view.buffer] = at_;
  }

  void release(const View& view) {
    Instance* it = instance(view);
    if (it == nullptr) return;
    if (!it->alive || k_.buffers[view.buffer].persistent) {
      report(Rule::lifetime, "an allocated " + text(k_, view, at_.call),
             k_.buffers[view.buffer].persistent ? "a persistent buffer"
             : it->ever                         ? "freed already"
                                                : "never allocated",
             "free each allocation once");
      return;
    }
    for (const auto& [begin, cell] : it->cells) free_after(view, cell);
    it->alive = false;
  }

  void free_after(const View& view, const Cell& cell) {
    const Clock& known = clocks_[kCompute];
    for (std::size_t s = 0; s < kStreams; ++s) {
      const std::int64_t last = std::max(cell.read[s], cell.writer == s ? cell.written : 0);
      if (s == kCompute || last <= known[s]) continue;
      report(Rule::order,
             "the compute stream to wait for the last use of " + text(k_, view, at_.call),
             "a use on stream " + std::string(name(static_cast<Stream>(s))) + " not waited for",
             "wait for its event before the free");
    }
  }

  void use(const Action& a, const View& view, bool write) {
    Instance* it = instance(view);
    if (it == nullptr) return;
    if (!it->alive) {
      report(Rule::lifetime, "an allocated " + text(k_, view, at_.call),
             it->ever ? "a use after its free" : "a use before its alloc",
             "move the alloc or free");
      return;
    }
    const ResolvedRange r = resolve(k_, view, at_.call, part_);
    const Buffer& buffer = k_.buffers[view.buffer];
    const std::int64_t size = buffer.instance_elements(layer_index(view, at_.call));
    if (r.offset < 0 || r.elements < 0 || r.offset + r.elements > size) {
      report(Rule::lifetime, "a view inside the " + std::to_string(size) + " elements of " +
                                 text(k_, view, at_.call),
             std::to_string(r.elements) + " elements at " + std::to_string(r.offset),
             "correct the view or the size");
      return;
    }
    // A worker that serves does not receive its own part, unless its server has a copy of it.
    const bool has_own = k_.is_server && k_.server_weights_buffer == kNone;
    if (a.kind == ActionKind::pull && has_own && view.range == Range::span) {
      View own = view;
      own.range = Range::span_chunk;
      const ResolvedRange c = resolve(k_, own, at_.call, part_);
      touch(*it, a, view, {r.offset, c.offset - r.offset}, write);
      touch(*it, a, view, {c.offset + c.elements, r.offset + r.elements - c.offset - c.elements},
            write);
      return;
    }
    touch(*it, a, view, r, write);
  }

  void touch(Instance& it, const Action& a, const View& view, ResolvedRange r, bool write) {
    if (r.elements <= 0) return;
    const std::int64_t end = r.offset + r.elements;
    it.split(r.offset);
    it.split(end);
    for (auto c = it.cells.lower_bound(r.offset); c != it.cells.end() && c->first < end; ++c) {
      ordered(a, view, c->second, write);
      if (write && k_.buffers[view.buffer].persistent) ascending(a, view, c->second);
      const auto stream = static_cast<std::size_t>(a.stream);
      const std::int64_t now = clocks_[stream][stream];
      if (write) {
        c->second.writer = stream;
        c->second.written = now;
        c->second.read = {};
      } else {
        c->second.read[stream] = now;
      }
    }
  }

  // Everything that conflicts with this use is known to be complete.
  void ordered(const Action& a, const View& view, const Cell& cell, bool write) {
    const auto stream = static_cast<std::size_t>(a.stream);
    const Clock& known = clocks_[stream];
    const auto late = [&](std::size_t other, std::int64_t position, const char* what) {
      if (other == stream || position <= known[other]) return;
      report(Rule::order,
             std::string("a wait for the ") + what + " of " + text(k_, view, at_.call) +
                 " on stream " + std::string(name(static_cast<Stream>(other))),
             "no order between that and this use on stream " + std::string(name(a.stream)),
             "signal after the one and wait before the other");
    };
    late(cell.writer, cell.written, "last write or the allocation");
    if (!write) return;
    for (std::size_t s = 0; s < kStreams; ++s) late(s, cell.read[s], "last read");
  }

  void ascending(const Action& a, const View& view, Cell& cell) {
    if (!adds_gradients(a)) {
      cell.added.clear();
      return;
    }
    // Head and embeddings that share a matrix there add to it in passes of their own.
    const std::uint16_t by = k_.schedule.order == Order::v_shape ? a.op : kNone;
    auto at = std::ranges::find(cell.added, by, &std::pair<std::uint16_t, std::int64_t>::first);
    if (at == cell.added.end()) at = cell.added.insert(at, {by, -1});
    const View& from = k_.views[a.first_arg];
    const std::int64_t micro_batch = std::int64_t{at_.call.micro_batch} + from.micro_batch_shift;
    if (micro_batch < at->second)
      report(Rule::accumulation, "micro-batches added in ascending order to " +
                                     text(k_, view, at_.call),
             std::to_string(micro_batch) + " after " + std::to_string(at->second),
             "add each micro-batch when its turn comes");
    at->second = std::max(at->second, micro_batch);
  }

  const RankClass& k_;
  int part_;
  Problems& problems_;
  Place at_;
  std::array<Clock, kStreams> clocks_{};
  std::vector<std::vector<Instance>> instances_;
  std::vector<std::vector<std::optional<Clock>>> events_;
  std::map<std::size_t, Place> allocated_at_;
};

}  // namespace

void check_class(const RankClass& k, int part, std::int64_t micro_batches, Problems& problems) {
  ClassCheck checks(k, part, problems);
  for_each_action(k, micro_batches,
                  [&](const Place& at, const Action& a) { checks.issue(at, a); });
  checks.finish();
}

}  // namespace program::checker
