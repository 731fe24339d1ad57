#pragma once
// What a twin is made of, for its own sources: streams of work that waits to be run, and work that
// is kept as a graph.

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "core/check.hpp"
#include "core/random.hpp"
#include "exec/cuda/twin/meeting.hpp"
#include "exec/cuda/twin/twin.hpp"

namespace exec::cuda {

struct EventOf {
  std::uint64_t recorded = 0;          // how often it was given to a stream
  std::uint64_t happened = 0;
  double seconds = 0;
  GraphOf* graph = nullptr;            // that its last moment lies in, as `moment`
  std::size_t moment = 0;
};

struct Work {
  std::function<void()> run;           // empty: an event
  EventOf* event = nullptr;
  std::uint64_t number = 0;
  bool waits = false;                  // for the event's number; else it is that moment
  std::unique_ptr<Meeting> meeting{};  // with other processes; else null
};

inline Work work_of(std::unique_ptr<Meeting> meeting) {
  Work work;
  work.run = [kept = meeting.get()] { kept->finish(); };
  work.meeting = std::move(meeting);
  return work;
}

// Kept work of one stream: something to run, a meeting, or a moment of the graph that happens or is
// awaited.
struct Kept {
  std::function<void()> run;
  std::size_t moment = 0;
  bool waits = false;
  std::optional<std::size_t> meeting{};  // of GraphOf::meetings
  bool is_moment() const { return !run && !meeting; }
};

struct GraphOf {
  std::vector<std::vector<Kept>> lanes;  // the first: of the stream that it began on
  std::vector<StreamHandle> members;     // by lane, while it is kept
  std::vector<StreamHandle> own;         // by lane but the first: what other lanes run on
  std::vector<std::unique_ptr<Meeting>> meetings;  // as they were kept
  std::size_t moments = 0;
  std::vector<EventHandle> events;       // of its launches
};

struct StreamOf {
  Twin::State* device = nullptr;
  std::deque<Work> queue;
  GraphOf* graph = nullptr;            // its work is kept there
  std::size_t lane = 0;
  bool idle = true;                    // nothing of it is running
};

struct PoolOf {
  std::map<void*, std::int64_t> blocks;
  std::int64_t used = 0, most = 0;
};

// Of a library's call.
Metered metered_of(const host::MixedGemm& product);
Metered metered_of(const AttentionPart& part);

struct Twin::State {
  explicit State(const TwinOptions& given) : options(given), random(given.seed, 0) {}

  // Of the device's memory, for a pool; the caller holds the mutex.
  void* allocate(PoolOf& pool, std::size_t bytes);
  void release(PoolOf& pool, void* memory) noexcept;

  // Keeps the only proposal of this product, where choices are kept.
  void choose(const host::MixedGemm& product, int then, const void* before);

  // Counts a call, and fails it where a test said so.
  void called(const std::string& call) {
    PLANNER_CHECK(bound == this, "a thread that has not bound the device");
    if (lost) throw *lost;              // in the words of the first
    doing = call;
    const auto fault = faults.find(call);
    if (fault == faults.end() || --fault->second.first > 0) return;
    const FailureKind kind = fault->second.second;
    faults.erase(fault);
    const DeviceFailure failure(kind, call, "a failure that a test asked for");
    if (kind == FailureKind::device) lost = failure;
    throw failure;
  }
  void give(StreamHandle stream, Work work, bool of_graph = false) {
    PLANNER_CHECK(std::ranges::find(streams, stream) != streams.end(), "a stream that is gone");
    if (stream->graph != nullptr) {
      stream->graph->lanes[stream->lane].push_back({std::move(work.run)});
      return;
    }
    if (recording && work.run) work.run = recorded(std::move(work.run), of_graph);
    stream->queue.push_back(std::move(work));
  }
  void keep(StreamHandle stream, std::unique_ptr<Meeting> meeting) {
    GraphOf& graph = *stream->graph;
    Kept kept;
    kept.meeting = graph.meetings.size();
    graph.meetings.push_back(std::move(meeting));
    graph.lanes[stream->lane].push_back(std::move(kept));
  }
  // As it is, and recorded when it runs (activity.cpp).
  std::function<void()> recorded(std::function<void()> run, bool of_graph);
  // As it is, with what it moves counted for the ranges that this thread is in, if anybody asked. A
  // library's call says what it moves and computes; of other work the accesses are counted.
  std::function<void()> metered(std::function<void()> run, std::optional<Metered> of_library = {});
  // Whether the call was about kept work; it throws where a GPU would.
  bool record_kept(EventHandle event, StreamHandle stream);
  bool wait_kept(StreamHandle stream, EventHandle event);
  // Runs what may run until `done`; `look` is called while all that is left waits for others.
  void run_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done,
                 const std::function<void()>& look = {});
  StreamHandle choose();
  // Whether a meeting that is some stream's first work may go on.
  bool any_meeting() const;
  // All that is left waits for others: says so to them, and gives them a moment.
  void await_others(std::unique_lock<std::mutex>& lock, const std::function<void()>& look);
  void count(const char* kernel) {
    ++launched[kernel];
    ++launched_within[ranges.empty() ? "" : ranges.back()];
  }
  StreamHandle new_stream() {
    streams.push_back(new StreamOf);
    streams.back()->device = this;
    return streams.back();
  }

  PoolOf library;                      // what a fake of a library took for its caller
  inline static thread_local State* bound = nullptr;  // the device of this thread
  inline static thread_local std::vector<std::string> ranges;  // that this thread is in

  // Named here so that every binary with a twin has it to export.
  void (*const way_in)(void*, const planner_twin_meeting*) = &planner_twin_meet;
  const TwinOptions options;
  const core::Random random;
  std::uint64_t drawn = 0;
  mutable std::mutex mutex;
  std::condition_variable changed;
  bool running = false;
  std::optional<DeviceFailure> lost;
  std::vector<StreamHandle> streams;
  std::vector<PoolHandle> pools;
  std::vector<EventHandle> events;
  std::vector<void*> pinned;
  std::vector<GraphHandle> graphs;     // that were kept whole
  std::int64_t used = 0;
  std::string doing;                   // the call, or the kernel, that gives work
  bool recording = false;
  DeviceRecords records;
  std::map<std::string, std::pair<int, FailureKind>> faults;
  std::map<std::string, std::int64_t> launched, launched_within;
  std::map<std::string, Metered> metered_within;
  ProductChoices* choices = nullptr;
  std::int64_t graph_launches = 0;
};

}  // namespace exec::cuda
