#include "exec/run/trace.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "core/file.hpp"
#include "sim/program/access.hpp"
#include "sim/program/replay.hpp"

namespace exec {
namespace {

using program::ActionKind;

constexpr double kPicoseconds = 1e12;

// The calls [first, last) of a step that make one pass.
struct PassCalls {
  std::uint32_t first, last;
  std::string name;
  std::int64_t micro_batch;
  int chunk;
};

std::string_view pass_name(program::PassKind kind) {
  switch (kind) {
    case program::PassKind::forward: return "forward";
    case program::PassKind::weight_gradient: return "weight_gradient";
    case program::PassKind::input_gradient: return "input_gradient";
    default: return "backward";
  }
}

// As the cursor yields them.
std::vector<PassCalls> passes_of(const program::RankClass& k, program::StepOf which) {
  std::vector<PassCalls> all;
  std::uint32_t next = 0;
  const auto add = [&](const program::Routine& r, std::string_view name, std::int64_t micro_batch,
                       int chunk) {
    const auto calls = static_cast<std::uint32_t>(r.size());
    all.push_back(
        {next, next + calls, fmt::format("{} {}", name, micro_batch), micro_batch, chunk});
    next += calls;
  };
  const std::int64_t first = k.schedule.first_of(which.step);
  add(k.begin, "begin", first, 0);
  for (program::Passes passes(k.schedule, which); !passes.done(); passes.advance()) {
    const program::Pass pass = passes.pass();
    add(k.routine(pass), pass_name(pass.kind), pass.micro_batch, pass.chunk);
  }
  add(k.end, "end", first + k.schedule.micro_batches - 1, 0);
  return all;
}

// Every rank is measured, and so like no other.
program::TraceSubject subject_of(const program::Program& p) {
  program::TraceSubject subject;
  subject.ranks = p.mesh.ranks();
  subject.unlike.resize(static_cast<std::size_t>(subject.ranks));
  std::iota(subject.unlike.begin(), subject.unlike.end(), 0);
  for (const program::RankClass& k : p.classes)
    subject.micro_batches = std::max(subject.micro_batches, k.schedule.micro_batches);
  return subject;
}

class Writer {
 public:
  Writer(const program::Program& p, const std::vector<StepLog>& logs, const TraceOptions& options)
      : program_(p), logs_(logs), options_(options) {
    zero_ = std::numeric_limits<double>::infinity();
    for (const StepLog& log : logs) {
      for (const auto& stream : log.streams)
        if (!stream.empty()) zero_ = std::min(zero_, stream.front().start);
      if (!log.memory.empty()) zero_ = std::min(zero_, log.memory.front().time);
    }
  }

  core::Result<program::Trace> run() {
    return program::write_trace(options_.choice, subject_of(program_),
                                [&](program::TraceFile& file, const program::TraceScope& scope) {
                                  file_ = &file;
                                  scope_ = &scope;
                                  for (const int rank : scope.ranks) write_rank(rank);
                                });
  }

 private:
  std::int64_t picoseconds(double time) const {
    return static_cast<std::int64_t>((time - zero_) * kPicoseconds);
  }

  void write_rank(int rank) {
    if (file_->full()) return;
    class_ = &program_.classes[static_cast<std::size_t>(program_.class_of(rank))];
    const StepLog& log = logs_[static_cast<std::size_t>(rank)];
    file_->begin_rank(rank, *class_);
    passes_ = passes_of(*class_, log.which);
    first_ = class_->schedule.first_of(log.which.step);
    write_passes(log.streams[0]);
    for (std::size_t s = 0; s < log.streams.size(); ++s)
      write_stream(program::stream_thread(static_cast<program::Stream>(s)), log.streams[s]);
    if (log.kernels) write_kernels(log);
    write_memory(log);
  }

  void slice(int thread, std::string_view name, std::string_view category, double start,
             double finish, const program::TraceArgs& args) {
    file_->slice({thread, name, category, picoseconds(start), picoseconds(finish), args});
  }

  // What begins and ends a step, its first and its last pass here, is no micro-batch's.
  bool shows(const PassCalls& pass) const {
    return scope_->all_micro_batches || &pass == &passes_.front() || &pass == &passes_.back() ||
           scope_->shows(pass.micro_batch - first_);
  }
  bool shows(const LoggedAction& a) const {
    if (scope_->all_micro_batches) return true;
    const auto pass = std::ranges::upper_bound(passes_, a.number, {}, &PassCalls::last);
    return pass == passes_.end() || shows(*pass);
  }

  void write_passes(const std::vector<LoggedAction>& compute) {
    auto at = compute.begin();
    for (const PassCalls& pass : passes_) {
      const auto first = at;
      while (at != compute.end() && at->number < pass.last) ++at;
      if (first == at || !shows(pass)) continue;
      slice(program::kPassThread, pass.name, "pass", first->start, std::prev(at)->finish,
            {{{"micro_batch", pass.micro_batch}, {"chunk", std::int64_t{pass.chunk}}}});
    }
  }

  void write_stream(int tid, const std::vector<LoggedAction>& stream) {
    for (auto at = stream.begin(); at != stream.end();) {
      auto last = at + 1;
      while (last != stream.end() && together(*at, *last)) ++last;
      if (shows(*at))
        slice(tid, name_of(*at), category(*at), at->start, std::prev(last)->finish,
              {{{"layer", std::int64_t{at->call.layer}}, {"micro_batch", at->call.micro_batch}}});
      at = last;
    }
  }

  // A slice for each; where one begins before the last of its stream is over, from then on.
  void write_kernels(const StepLog& log) {
    std::array<double, program::kStreams> over{};
    for (const LoggedKernel& k : *log.kernels) {
      const int tid = program::kernel_thread(k.stream);
      const auto s = static_cast<std::size_t>(k.stream);
      if (over[s] == 0) file_->thread(tid, fmt::format("{} kernels", program::name(k.stream)));
      const LoggedAction& giver = log.streams[s][k.entry];
      const std::string action = program::action_name(*class_, action_of(giver));
      if (shows(giver))
        slice(tid, k.name, "kernel", std::max({k.start, over[s], zero_}), k.finish,
              {{{"action", std::string_view(action)},
                {"layer", std::int64_t{giver.call.layer}},
                {"micro_batch", giver.call.micro_batch}}});
      over[s] = std::max(over[s], k.finish);
    }
  }

  const program::Action& action_of(const LoggedAction& a) const {
    return class_->actions[a.action];
  }
  static bool transfers(ActionKind kind) { return kind >= ActionKind::collective; }
  bool together(const LoggedAction& a, const LoggedAction& b) const {
    return options_.detail == TraceDetail::block && a.number == b.number &&
           !transfers(action_of(a).kind) && !transfers(action_of(b).kind) &&
           category(a) == category(b);
  }

  std::string_view category(const LoggedAction& logged) const {
    const program::Action& a = action_of(logged);
    if (transfers(a.kind)) return program::name(class_->transfers[a.op].what);
    if (program::updates(a.kind)) return "optimizer";
    const bool kernel = a.kind == ActionKind::forward || a.kind == ActionKind::input_gradient ||
                        a.kind == ActionKind::weight_gradient;
    return kernel || options_.detail == TraceDetail::block ? "compute" : "other";
  }

  std::string name_of(const LoggedAction& logged) const {
    const program::Action& a = action_of(logged);
    if (options_.detail == TraceDetail::block && !transfers(a.kind))
      return class_->blocks[logged.call.block].name;
    return program::action_name(*class_, a);
  }

  void write_memory(const StepLog& log) {
    const std::vector<LoggedMemory>& changes = log.memory;
    program::TermBytes level = log.live;
    const auto tell = [&](double time) { file_->memory(picoseconds(time), level); };
    tell(zero_);
    auto computes = log.streams[0].begin();  // what the compute stream is at, or was at last
    const auto shown_at = [&](double time) {
      if (computes == log.streams[0].end()) return true;
      while (computes + 1 != log.streams[0].end() && (computes + 1)->start <= time) ++computes;
      return shows(*computes);
    };
    for (std::size_t i = 0; i < changes.size(); ++i) {
      level[static_cast<std::size_t>(changes[i].term)] += changes[i].change;
      // A run of one sign is one point: a peak in between is kept.
      const auto grows = [&](std::size_t j) { return changes[j].change.value() > 0; };
      const bool last = i + 1 == changes.size();
      if (last || (grows(i) != grows(i + 1) && shown_at(changes[i].time))) tell(changes[i].time);
    }
  }

  const program::Program& program_;
  const std::vector<StepLog>& logs_;
  const TraceOptions& options_;
  double zero_ = 0;
  // Of the rank being written, and into what.
  const program::RankClass* class_ = nullptr;
  std::vector<PassCalls> passes_;
  std::int64_t first_ = 0;             // micro-batch of the step
  program::TraceFile* file_ = nullptr;
  const program::TraceScope* scope_ = nullptr;
};

}  // namespace

core::Problems trace_problems(const program::Program& program,
                              const std::optional<TraceTarget>& target) {
  if (!target) return {};
  return program::problems_of(target->options.choice, subject_of(program));
}

core::Result<program::Trace> write_trace(const program::Program& program,
                                         const std::vector<StepLog>& logs,
                                         const TraceOptions& options) {
  return Writer(program, logs, options).run();
}

core::Status write_trace_file(const program::Program& program, const std::vector<StepLog>& logs,
                              const TraceTarget& target) {
  const core::Result<program::Trace> trace = write_trace(program, logs, target.options);
  if (!trace.ok()) return trace.problems();
  core::Status written = core::write_atomically(target.file, trace->bytes);
  if (written.ok() && target.told && trace->scope.chosen)
    target.told(target.file + ' ' + program::to_text(trace->scope));
  return written;
}

}  // namespace exec
