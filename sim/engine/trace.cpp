#include "sim/engine/trace.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "core/call.hpp"
#include "core/check.hpp"
#include "sim/program/replay.hpp"

namespace engine {
namespace {

using program::ActionKind;

bool changes_memory(ActionKind kind) {
  return kind == ActionKind::alloc || kind == ActionKind::free;
}

// What a part allocates (positive) or frees.
std::int64_t memory_change(const program::RankClass& k, const program::Action& a,
                           const program::Call& call) {
  if (!changes_memory(a.kind)) return 0;
  const program::View& view = k.views[a.first_arg];
  const std::int64_t bytes =
      k.buffers[view.buffer].instance_bytes(program::layer_index(view, call)).value();
  return a.kind == ActionKind::alloc ? bytes : -bytes;
}

// Offsets inside an operation, stretched to what it took.
std::int64_t instant(const Played& played, const Operation& op, std::int64_t offset) {
  const std::int64_t took = played.finish - played.start;
  if (took == op.duration || op.duration == 0) return played.start + offset;
  __extension__ using Wide = __int128;
  return played.start +
         static_cast<std::int64_t>(static_cast<Wide>(offset) * took / op.duration);
}

using OwnRecord = std::vector<const Played*>;  // of one actor, in the order of time

// visit(played, part, time, bytes) for each alloc and free, in issue order: they are compute's.
template <class Visit>
void each_change(const Timetable& table, const OwnRecord& record, const Visit& visit) {
  const program::RankClass& k = table.rank_class();
  for (const Played* played : record) {
    const Operation& op = table.operation(played->operation);
    if (op.stream != program::Stream::compute) continue;
    for (std::uint32_t i = op.first_part; i < op.last_part; ++i) {
      const Part& part = table.part(i);
      const std::int64_t change = memory_change(k, k.actions[part.action], part.call);
      if (change != 0) visit(*played, part, instant(*played, op, part.offset), change);
    }
  }
}

class TraceWriter {
 public:
  TraceWriter(const Scene& scene, const std::vector<Played>& record, const TraceOptions& options)
      : scene_(scene), options_(options), by_actor_(scene.actors().size()) {
    for (const Played& played : record) {
      by_actor_[played.actor].push_back(&played);
      micro_batches_ = std::max(micro_batches_, played.micro_batch + 1);
    }
  }

  core::Result<program::Trace> run() {
    program::TraceSubject subject;
    subject.ranks = scene_.program().mesh.ranks();
    for (const Actor& a : scene_.actors()) subject.unlike.push_back(a.rank);
    std::ranges::sort(subject.unlike);
    subject.micro_batches = micro_batches_;
    return program::write_trace(options_.choice, subject,
                                [&](program::TraceFile& file, const program::TraceScope& scope) {
                                  file_ = &file;
                                  scope_ = &scope;
                                  for (const int rank : scope.ranks) write_rank(rank);
                                });
  }

 private:
  std::uint32_t actor_of(int rank) const {
    return static_cast<std::uint32_t>(scene_.fold().of[static_cast<std::size_t>(rank)]);
  }

  void write_rank(int rank) {
    if (file_->full()) return;
    rank_ = rank;
    table_ = &scene_.timetable(scene_.actors()[actor_of(rank)]);
    class_ = &table_->rank_class();
    messages_.clear();
    file_->begin_rank(rank, *class_);
    const OwnRecord& all = by_actor_[actor_of(rank)];
    write_passes(all);
    for (const Played* played : all) {
      core::stop_point();
      write_operation(*played);
    }
    write_memory(all);
  }

  // What begins and ends a step is no micro-batch's.
  bool shows(const Played& played) const {
    if (scope_->all_micro_batches || scope_->shows(played.micro_batch)) return true;
    const std::string_view routine = table_->routine_of(played.operation).name;
    return routine == "begin" || routine == "end" || routine == "finish";
  }

  // What a pass takes on the compute stream, from its first operation to its last.
  void write_passes(const OwnRecord& all) {
    const RoutineRange* routine = nullptr;
    std::int64_t micro_batch = 0, start = 0, finish = 0;
    const auto close = [&] {
      if (routine == nullptr) return;
      const std::string name = fmt::format("{} {}", routine->name, micro_batch);
      file_->slice({program::kPassThread, name, "pass", start, finish,
                    {{{"micro_batch", micro_batch}, {"chunk", std::int64_t{routine->chunk}}}}});
    };
    for (const Played* played : all) {
      if (table_->operation(played->operation).stream != program::Stream::compute) continue;
      if (!shows(*played)) continue;
      const RoutineRange& now = table_->routine_of(played->operation);
      if (&now != routine || played->micro_batch != micro_batch) {
        close();
        routine = &now;
        micro_batch = played->micro_batch;
        start = played->start;
      }
      finish = played->finish;
    }
    close();
  }

  void write_operation(const Played& played) {
    const Operation& op = table_->operation(played.operation);
    if (op.work == Work::transfer) return write_transfer(played, op);
    if (played.finish == played.start || !shows(played)) return;
    std::uint32_t first = op.first_part;
    while (first < op.last_part) {
      std::uint32_t last = first + 1;
      while (last < op.last_part && together(table_->part(first), table_->part(last))) ++last;
      const Part& begin = table_->part(first);
      const Part& end = table_->part(last - 1);
      const std::int64_t start = instant(played, op, begin.offset);
      const std::int64_t finish = instant(played, op, end.offset + end.duration);
      const std::string name = name_of(begin);
      file_->slice({program::stream_thread(op.stream), name, category(op), start, finish,
                    {{{"layer", std::int64_t{begin.call.layer}},
                      {"micro_batch", played.micro_batch}}}});
      first = last;
    }
  }
  bool together(const Part& a, const Part& b) const {
    return options_.detail == TraceDetail::block && a.call.block == b.call.block &&
           a.call.layer == b.call.layer;
  }
  static std::string_view category(const Operation& op) {
    if (op.work == Work::compute) return "compute";
    return op.work == Work::optimizer ? "optimizer" : "other";
  }
  std::string name_of(const Part& part) const {
    if (options_.detail == TraceDetail::block) return class_->blocks[part.call.block].name;
    const program::Action& a = class_->actions[part.action];
    std::string name(program::name(a.kind));
    if (cost::ActionCost::is_operator(a.kind)) name += ' ' + class_->operators[a.op].name;
    return name;
  }

  void write_transfer(const Played& played, const Operation& op) {
    const program::Action* a = nullptr;
    for (std::uint32_t i = op.first_part; i < op.last_part; ++i) {
      const program::Action& one = class_->actions[table_->part(i).action];
      if (cost::ActionCost::is_transfer(one.kind)) a = &one;
    }
    PLANNER_CHECK(a != nullptr, "a transfer without its action");
    if (played.finish == played.start) return;
    const program::Transfer& t = class_->transfers[a->op];
    const auto message = message_of(*a, t);
    if (!shows(played)) return;
    const std::string name = program::transfer_name(*a, t);
    file_->slice({program::stream_thread(op.stream), name, program::name(t.what), played.start,
                  played.finish,
                  {{{"micro_batch", played.micro_batch},
                    {"algorithm", program::name(t.algorithm)}}},
                  message});
  }

  // Both ends number their messages alike, shown or not, and so meet. Empty: no message, or one
  // whose other end is not shown.
  std::optional<program::TraceMessage> message_of(const program::Action& a,
                                                  const program::Transfer& t) {
    if (a.kind != ActionKind::send && a.kind != ActionKind::receive) return std::nullopt;
    const bool sends = a.kind == ActionKind::send;
    const int peer = scene_.program().mesh.members(t.group, rank_).back();
    const int from = sends ? rank_ : peer, to = sends ? peer : rank_;
    const int number = messages_[{from, to, t.tag}]++;
    if (!scope_->shows_rank(peer)) return std::nullopt;
    return program::TraceMessage{from, to, t.tag, number, sends};
  }

  void write_memory(const OwnRecord& all) {
    program::TermBytes level = program::persistent_terms(*class_);
    std::int64_t at = 0, sign = 0;
    bool shown = true;
    const auto tell = [&] { file_->memory(at, level); };
    each_change(*table_, all, [&](const Played& played, const Part& part, std::int64_t time,
                                  std::int64_t change) {
      // A run of one sign at one time is one point; a peak in between is kept.
      const std::int64_t own = change > 0 ? 1 : -1;
      const bool shows_it = shows(played);
      if ((time != at || own != sign) && (shown || shows_it)) tell();
      at = time;
      sign = own;
      shown = shows_it;
      const program::View& view = class_->views[class_->actions[part.action].first_arg];
      level[static_cast<std::size_t>(class_->buffers[view.buffer].term)] += core::Bytes(change);
    });
    tell();
  }

  const Scene& scene_;
  const TraceOptions& options_;
  std::vector<OwnRecord> by_actor_;
  std::int64_t micro_batches_ = 0;
  int rank_ = 0;
  const Timetable* table_ = nullptr;   // of the rank being written
  const program::RankClass* class_ = nullptr;
  std::map<std::tuple<int, int, int>, int> messages_;
  program::TraceFile* file_ = nullptr;  // what is being written, and what of the step
  const program::TraceScope* scope_ = nullptr;
};

}  // namespace

core::Result<program::Trace> write_trace(const Scene& scene, const std::vector<Played>& record,
                                         const TraceOptions& options) {
  return TraceWriter(scene, record, options).run();
}

MemoryPeak memory_peak(const Scene& scene, std::uint32_t actor,
                       const std::vector<Played>& record) {
  const Timetable& table = scene.timetable(scene.actors()[actor]);
  OwnRecord own;
  for (const Played& played : record)
    if (played.actor == actor) own.push_back(&played);
  core::Bytes live = program::sum(program::persistent_terms(table.rank_class()));
  MemoryPeak peak{live, 0, {program::kNone, 0, 0}};
  each_change(table, own, [&](const Played&, const Part& part, std::int64_t time,
                              std::int64_t change) {
    live += core::Bytes(change);
    if (live > peak.live) peak = {live, time, part.call};
  });
  return peak;
}

}  // namespace engine
