#include "exec/run/trace.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "sim/program/replay.hpp"
#include "sim/program/trace_text.hpp"

namespace exec {
namespace {

using program::ActionKind;
using program::TraceText;

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

class Writer {
 public:
  Writer(const program::Program& p, const std::vector<StepLog>& logs, TraceDetail detail)
      : program_(p), logs_(logs), detail_(detail) {
    zero_ = std::numeric_limits<double>::infinity();
    for (const StepLog& log : logs) {
      for (const auto& stream : log.streams)
        if (!stream.empty()) zero_ = std::min(zero_, stream.front().start);
      if (!log.memory.empty()) zero_ = std::min(zero_, log.memory.front().time);
    }
  }

  std::string run() {
    for (std::size_t r = 0; r < logs_.size(); ++r) write_rank(static_cast<int>(r));
    return text_.finish();
  }

 private:
  std::int64_t picoseconds(double time) const {
    return static_cast<std::int64_t>((time - zero_) * kPicoseconds);
  }

  void write_rank(int rank) {
    class_ = &program_.classes[static_cast<std::size_t>(program_.class_of(rank))];
    const StepLog& log = logs_[static_cast<std::size_t>(rank)];
    text_.begin_rank(rank, *class_);
    write_passes(log.streams[0], log.which);
    for (std::size_t s = 0; s < log.streams.size(); ++s)
      write_stream(TraceText::thread_of(static_cast<program::Stream>(s)), log.streams[s]);
    if (log.kernels) write_kernels(log);
    write_memory(log);
  }

  void slice(int tid, std::string_view name, std::string_view category, double start,
             double finish, std::string_view args) {
    text_.slice(tid, name, category, picoseconds(start), picoseconds(finish), args);
  }

  void write_passes(const std::vector<LoggedAction>& compute, program::StepOf which) {
    auto at = compute.begin();
    for (const PassCalls& pass : passes_of(*class_, which)) {
      const auto first = at;
      while (at != compute.end() && at->number < pass.last) ++at;
      if (first == at) continue;
      slice(TraceText::kPassThread, pass.name, "pass", first->start, std::prev(at)->finish,
            fmt::format(R"("micro_batch":{},"chunk":{})", pass.micro_batch, pass.chunk));
    }
  }

  void write_stream(int tid, const std::vector<LoggedAction>& stream) {
    for (auto at = stream.begin(); at != stream.end();) {
      auto last = at + 1;
      while (last != stream.end() && together(*at, *last)) ++last;
      const std::string name = name_of(*at);
      slice(tid, name, category(*at), at->start, std::prev(last)->finish,
            fmt::format(R"("layer":{},"micro_batch":{})", at->call.layer, at->call.micro_batch));
      at = last;
    }
  }

  // A slice for each; where one begins before the last of its stream is over, from then on.
  void write_kernels(const StepLog& log) {
    std::array<double, program::kStreams> over{};
    for (const LoggedKernel& k : *log.kernels) {
      const int tid = TraceText::thread_of(k.stream) + program::kStreams;
      const auto s = static_cast<std::size_t>(k.stream);
      if (over[s] == 0) text_.thread(tid, fmt::format("{} kernels", program::name(k.stream)));
      const LoggedAction& giver = log.streams[s][k.entry];
      slice(tid, k.name, "kernel", std::max({k.start, over[s], zero_}), k.finish,
            fmt::format(R"("action":"{}","layer":{},"micro_batch":{})",
                        program::action_name(*class_, action_of(giver)), giver.call.layer,
                        giver.call.micro_batch));
      over[s] = std::max(over[s], k.finish);
    }
  }

  const program::Action& action_of(const LoggedAction& a) const {
    return class_->actions[a.action];
  }
  static bool transfers(ActionKind kind) { return kind >= ActionKind::collective; }
  bool together(const LoggedAction& a, const LoggedAction& b) const {
    return detail_ == TraceDetail::block && a.number == b.number &&
           !transfers(action_of(a).kind) && !transfers(action_of(b).kind) &&
           category(a) == category(b);
  }

  std::string_view category(const LoggedAction& logged) const {
    const program::Action& a = action_of(logged);
    if (transfers(a.kind)) return program::name(class_->transfers[a.op].what);
    if (a.kind == ActionKind::optimizer) return "optimizer";
    const bool kernel = a.kind == ActionKind::forward || a.kind == ActionKind::input_gradient ||
                        a.kind == ActionKind::weight_gradient;
    return kernel || detail_ == TraceDetail::block ? "compute" : "other";
  }

  std::string name_of(const LoggedAction& logged) const {
    const program::Action& a = action_of(logged);
    if (detail_ == TraceDetail::block && !transfers(a.kind))
      return class_->blocks[logged.call.block].name;
    return program::action_name(*class_, a);
  }

  void write_memory(const StepLog& log) {
    const std::vector<LoggedMemory>& changes = log.memory;
    program::TermBytes level = log.live;
    const auto tell = [&](double time) { text_.memory(picoseconds(time), level); };
    tell(zero_);
    for (std::size_t i = 0; i < changes.size(); ++i) {
      level[static_cast<std::size_t>(changes[i].term)] += changes[i].change;
      // A run of one sign is one point: a peak in between is kept.
      const auto grows = [&](std::size_t j) { return changes[j].change.value() > 0; };
      if (i + 1 == changes.size() || grows(i) != grows(i + 1)) tell(changes[i].time);
    }
  }

  const program::Program& program_;
  const std::vector<StepLog>& logs_;
  const TraceDetail detail_;
  double zero_ = 0;
  const program::RankClass* class_ = nullptr;
  TraceText text_;
};

}  // namespace

std::string trace_json(const program::Program& program, const std::vector<StepLog>& logs,
                       TraceDetail detail) {
  return Writer(program, logs, detail).run();
}

}  // namespace exec
