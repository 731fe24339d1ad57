// Section launch: what the host pays to submit work and what the device pays between kernels.

#include <array>

#include "tools/probe/cuda.hpp"
#include "tools/probe/kernels.hpp"
#include "tools/probe/statistics.hpp"
#include "tools/probe/worker.hpp"

namespace probe {
namespace {

struct Graph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  double capture_seconds = 0.0, instantiate_seconds = 0.0;

  Graph(const Stream& stream, int nodes) {
    const double start = now();
    PROBE_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < nodes; ++i) launch_empty(stream);
    PROBE_TRY(cudaStreamEndCapture(stream, &graph));
    const double captured = now();
    PROBE_TRY(cudaGraphInstantiate(&executable, graph, 0));
    capture_seconds = captured - start;
    instantiate_seconds = now() - captured;
  }
  ~Graph() {
    if (executable != nullptr) cudaGraphExecDestroy(executable);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
};

constexpr int kBatch = 200;  // launches per sample: a stream of this depth does not block the host

// Host seconds of one `call` out of `count` in a row, with an idle device before and a wait after.
template <class Call>
Summary submit_cost(const Stream& stream, const RepeatRule& rule, int count, Call&& call) {
  call();
  return measure(rule, [&] {
    stream.wait();
    const double start = now();
    for (int i = 0; i < count; ++i) call();
    return (now() - start) / count;
  });
}

// The same until the device has finished.
template <class Call>
Summary finished_cost(const Stream& stream, const RepeatRule& rule, int count, Call&& call) {
  call();
  return measure(rule, [&] {
    stream.wait();
    const double start = now();
    for (int i = 0; i < count; ++i) call();
    stream.wait();
    return (now() - start) / count;
  });
}

Json kernels(const Stream& stream, const RepeatRule& rule) {
  const auto launch = [&] { launch_empty(stream); };
  Json json = Json::object();
  json["submit_seconds"] = to_json(submit_cost(stream, rule, kBatch, launch));
  json["back_to_back_host_seconds"] = to_json(finished_cost(stream, rule, kBatch, launch));
  json["back_to_back_device_seconds"] = to_json(measure(rule, [&] {
    return device_seconds(stream, kBatch, launch);
  }));
  json["launch_and_wait_seconds"] = to_json(finished_cost(stream, {20, 500, 0.2}, 1, launch));
  return json;
}

Json graphs(const Stream& stream, const RepeatRule& rule) {
  Json list = Json::array();
  for (const int nodes : {1, 10, 100, 1000}) {
    const Graph graph(stream, nodes);
    const auto launch = [&] { PROBE_TRY(cudaGraphLaunch(graph.executable, stream)); };
    Json point = Json::object();
    point["nodes"] = nodes;
    point["capture_seconds"] = graph.capture_seconds;
    point["instantiate_seconds"] = graph.instantiate_seconds;
    point["submit_seconds"] = to_json(submit_cost(stream, rule, 1, launch));
    point["launch_and_wait_seconds"] = to_json(finished_cost(stream, rule, 1, launch));
    point["device_seconds"] = to_json(measure(rule, [&] {
      return device_seconds(stream, 5, launch);
    }));
    list.push(std::move(point));
  }
  return list;
}

Json events(const Stream& stream, const RepeatRule& rule) {
  const Event timed, untimed(cudaEventDisableTiming);
  const Stream other;
  Json json = Json::object();
  json["record_timed_seconds"] =
      to_json(submit_cost(stream, rule, kBatch, [&] { timed.record(stream); }));
  json["record_untimed_seconds"] =
      to_json(submit_cost(stream, rule, kBatch, [&] { untimed.record(stream); }));
  json["stream_wait_event_seconds"] = to_json(submit_cost(stream, rule, kBatch, [&] {
    PROBE_TRY(cudaStreamWaitEvent(stream, untimed, 0));
  }));
  // Two events with nothing between them: what a measured interval contains of its own.
  json["empty_interval_seconds"] = to_json(measure(rule, [&] {
    const Event from, to;
    from.record(stream);
    to.record(stream);
    return seconds_between(from, to);
  }));
  // One hop there and one back per call, each with an empty kernel: a dependency across streams.
  const auto round_trip = [&] {
    launch_empty(stream);
    untimed.record(stream);
    PROBE_TRY(cudaStreamWaitEvent(other, untimed, 0));
    launch_empty(other);
    untimed.record(other);
    PROBE_TRY(cudaStreamWaitEvent(stream, untimed, 0));
  };
  json["cross_stream_round_trip_device_seconds"] = to_json(measure(rule, [&] {
    return device_seconds(stream, 50, round_trip);
  }));
  return json;
}

}  // namespace

void run_launch(Worker& worker) {
  use_device(worker.options().device);
  const bool quick = worker.options().quick;
  const RepeatRule rule = quick ? RepeatRule{5, 30, 0.05} : RepeatRule{20, 200, 0.3};
  const Stream stream;
  worker.part("kernel", [&] { return kernels(stream, rule); });
  worker.part("graph", [&] { return graphs(stream, rule); });
  worker.part("event", [&] { return events(stream, rule); });
}

}  // namespace probe
