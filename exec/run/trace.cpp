#include "exec/run/trace.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "sim/program/replay.hpp"

namespace exec {
namespace {

using program::ActionKind;

constexpr int kPassThread = 0;         // streams follow: 1 + stream
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
std::vector<PassCalls> passes_of(const program::RankClass& k) {
  std::vector<PassCalls> all;
  std::uint32_t next = 0;
  const auto add = [&](const program::Routine& r, std::string_view name, std::int64_t micro_batch,
                       int chunk) {
    const auto calls = static_cast<std::uint32_t>(r.size());
    all.push_back(
        {next, next + calls, fmt::format("{} {}", name, micro_batch), micro_batch, chunk});
    next += calls;
  };
  add(k.begin, "begin", 0, 0);
  for (program::Passes passes(k.schedule); !passes.done(); passes.advance()) {
    const program::Pass pass = passes.pass();
    add(k.routine(pass), pass_name(pass.kind), pass.micro_batch, pass.chunk);
  }
  add(k.end, "end", k.schedule.micro_batches - 1, 0);
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
    text_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
    for (std::size_t r = 0; r < logs_.size(); ++r) write_rank(static_cast<int>(r));
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  void event(std::string_view body) {
    if (written_++ > 0) text_ += ",\n";
    text_ += fmt::format("{{{}}}", body);
  }

  std::int64_t picoseconds(double time) const {
    return static_cast<std::int64_t>((time - zero_) * kPicoseconds);
  }
  static std::string microseconds(std::int64_t picoseconds) {
    return fmt::format("{}.{:06}", picoseconds / 1'000'000, picoseconds % 1'000'000);
  }

  void write_rank(int rank) {
    rank_ = rank;
    class_ = &program_.classes[static_cast<std::size_t>(program_.class_of(rank))];
    const StepLog& log = logs_[static_cast<std::size_t>(rank)];
    name_threads();
    write_passes(log.streams[0]);
    for (std::size_t s = 0; s < log.streams.size(); ++s)
      write_stream(1 + static_cast<int>(s), log.streams[s]);
    write_memory(log.memory);
  }

  void name_threads() {
    event(fmt::format(R"("ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}, {}"}})",
                      rank_, rank_, class_->name));
    event(fmt::format(R"("ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}})",
                      rank_, rank_));
    thread(kPassThread, "passes");
    for (int s = 0; s < program::kStreams; ++s)
      if (program::uses(*class_, static_cast<program::Stream>(s)))
        thread(1 + s, program::name(static_cast<program::Stream>(s)));
  }
  void thread(int tid, std::string_view name) {
    event(fmt::format(
        R"("ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}})", rank_, tid,
        name));
  }

  void slice(int tid, std::string_view name, std::string_view category, double start,
             double finish, std::string_view args) {
    const std::int64_t from = picoseconds(start), to = picoseconds(finish);
    if (to <= from) return;
    event(fmt::format(
        R"("ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}})", name,
        category, rank_, tid, microseconds(from), microseconds(to - from), args));
  }

  void write_passes(const std::vector<LoggedAction>& compute) {
    auto at = compute.begin();
    for (const PassCalls& pass : passes_of(*class_)) {
      const auto first = at;
      while (at != compute.end() && at->number < pass.last) ++at;
      if (first == at) continue;
      slice(kPassThread, pass.name, "pass", first->start, std::prev(at)->finish,
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
    if (transfers(a.kind)) {
      const program::Transfer& t = class_->transfers[a.op];
      const bool collective = a.kind == ActionKind::collective;
      return fmt::format("{} {}", collective ? program::name(t.collective) : program::name(a.kind),
                         program::name(t.what));
    }
    if (detail_ == TraceDetail::block) return class_->blocks[logged.call.block].name;
    std::string name(program::name(a.kind));
    if (category(logged) == "compute") name += ' ' + class_->operators[a.op].name;
    return name;
  }

  void write_memory(const std::vector<LoggedMemory>& changes) {
    program::TermBytes level = program::persistent_terms(*class_);
    const auto tell = [&](double time) {
      std::string args;
      for (std::size_t t = 0; t < program::kTerms; ++t)
        args += fmt::format(R"({}"{}":{})", t == 0 ? "" : ",",
                            program::name(static_cast<program::Term>(t)), level[t].value());
      event(fmt::format(R"("ph":"C","name":"live bytes","pid":{},"ts":{},"args":{{{}}})", rank_,
                        microseconds(picoseconds(time)), args));
    };
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
  int rank_ = 0;
  const program::RankClass* class_ = nullptr;
  std::string text_;
  std::size_t written_ = 0;
};

}  // namespace

std::string trace_json(const program::Program& program, const std::vector<StepLog>& logs,
                       TraceDetail detail) {
  return Writer(program, logs, detail).run();
}

}  // namespace exec
