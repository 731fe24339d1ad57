// Work that is kept and given as one: what CUDA's stream capture allows, and what it refuses.
#include "exec/cuda/twin/state.hpp"

namespace exec::cuda {
namespace {

DeviceFailure refused(const char* call, const char* why) {
  return {FailureKind::graph, call, why};
}

void leave(GraphOf& graph) {
  for (StreamHandle s : graph.members) s->graph = nullptr;
  graph.members.clear();
}

// Whether `origin` waits for the last that this lane was given.
bool joined(const GraphOf& graph, std::size_t lane) {
  const std::vector<Kept>& kept = graph.lanes[lane];
  if (kept.empty() || !kept.back().is_moment() || kept.back().waits) return false;
  return std::ranges::any_of(graph.lanes.front(), [&](const Kept& k) {
    return k.is_moment() && k.waits && k.moment == kept.back().moment;
  });
}

}  // namespace

bool Twin::State::record_kept(EventHandle event, StreamHandle stream) {
  event->graph = stream->graph;
  if (stream->graph == nullptr) return false;
  event->moment = stream->graph->moments++;
  stream->graph->lanes[stream->lane].push_back({{}, event->moment, false});
  return true;
}

bool Twin::State::wait_kept(StreamHandle stream, EventHandle event) {
  GraphOf* const graph = event->graph;
  if (graph == nullptr && stream->graph == nullptr) return false;
  const bool open = graph != nullptr && !graph->members.empty();
  if (!open) throw refused("wait", "an event of another time than the work that is kept");
  if (stream->graph == nullptr) {
    stream->graph = graph;
    stream->lane = graph->lanes.size();
    graph->lanes.emplace_back();
    graph->members.push_back(stream);
  }
  if (stream->graph != graph) throw refused("wait", "an event of work that is kept elsewhere");
  graph->lanes[stream->lane].push_back({{}, event->moment, true});
  return true;
}

void Twin::begin_capture(StreamHandle origin) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("begin_capture");
  if (origin->graph != nullptr) throw refused("begin_capture", "the stream's work is kept already");
  origin->graph = state_->graphs.emplace_back(new GraphOf);
  origin->graph->lanes.resize(1);
  origin->graph->members = {origin};
  origin->lane = 0;
}

GraphHandle Twin::end_capture(StreamHandle origin) {
  const std::scoped_lock lock(state_->mutex);
  GraphOf* const graph = origin->graph;
  PLANNER_CHECK(graph != nullptr, "no work is kept of this stream");
  leave(*graph);
  try {
    state_->called("end_capture");
    for (std::size_t lane = 1; lane < graph->lanes.size(); ++lane)
      if (!joined(*graph, lane)) throw refused("end_capture", "a stream joined and did not return");
  } catch (...) {
    std::erase(state_->graphs, graph);
    for (EventHandle e : state_->events)
      if (e->graph == graph) e->graph = nullptr;
    delete graph;
    throw;
  }
  for (std::size_t lane = 1; lane < graph->lanes.size(); ++lane)
    graph->own.push_back(state_->new_stream());
  return graph;
}

void Twin::abandon_capture(StreamHandle origin) noexcept {
  const std::scoped_lock lock(state_->mutex);
  GraphOf* const graph = origin->graph;
  if (graph == nullptr) return;
  leave(*graph);
  for (EventHandle e : state_->events)
    if (e->graph == graph) e->graph = nullptr;
  std::erase(state_->graphs, graph);
  delete graph;
}

// Every launch has moments and meetings of its own.
void Twin::launch(GraphHandle graph, StreamHandle stream) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("launch_graph");
  ++state_->graph_launches;
  const std::size_t first = graph->events.size();
  for (std::size_t i = 0; i < graph->moments; ++i)
    graph->events.push_back(new EventOf{.recorded = 1});
  std::vector<std::unique_ptr<Meeting>> meetings;
  for (const auto& kept : graph->meetings) meetings.push_back(kept->again());
  for (std::size_t lane = 0; lane < graph->lanes.size(); ++lane)
    for (const Kept& k : graph->lanes[lane]) {
      const StreamHandle to = lane == 0 ? stream : graph->own[lane - 1];
      EventOf* const event = k.is_moment() ? graph->events[first + k.moment] : nullptr;
      state_->give(to, k.meeting ? work_of(std::move(meetings[*k.meeting]))
                                 : Work{k.run, event, 1, k.waits}, true);
    }
}

// REQUIRES: its launches are over, or the device has failed.
void Twin::destroy(GraphHandle graph) noexcept {
  for (StreamHandle s : graph->own) destroy(s);
  const std::scoped_lock lock(state_->mutex);
  for (StreamHandle s : state_->streams)
    std::erase_if(s->queue, [&](const Work& w) {
      return w.event != nullptr && std::ranges::find(graph->events, w.event) != graph->events.end();
    });
  for (EventHandle e : state_->events)
    if (e->graph == graph) e->graph = nullptr;
  for (EventHandle e : graph->events) delete e;
  std::erase(state_->graphs, graph);
  delete graph;
}

std::int64_t Twin::graph_launches() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->graph_launches;
}

}  // namespace exec::cuda
