#pragma once
// RunRecord: what executing a plan measured, and the file run/1. It repeats what was planned
// (model, cluster, job, candidate), so that a record can be compared with its plan, or read without
// it. What a run could not measure is empty, never 0. Value types; thread-compatible.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "core/units.hpp"
#include "exec/training/schedule.hpp"
#include "hw_profiles/profile.hpp"
#include "models/spec.hpp"
#include "planner/evaluate/candidate.hpp"
#include "planner/plan/scale_down.hpp"
#include "planner/question/job.hpp"

namespace exec {

// Of the rank that the plan names, terms at the first instant of its live peak.
struct MeasuredMemory {
  int rank = 0;
  std::array<std::optional<core::Bytes>, program::kTerms> terms{};
  std::array<std::optional<core::Bytes>, program::kTerms> peaks{};  // each tag's own peak
  std::optional<core::Bytes> live, reserved, workspace, context, communicators, device;
  // Of own kernels over send and receive, of servers, of padded vectors. No plan predicts them.
  std::optional<core::Bytes> message_blocks;
};

// Totals of one step of the rank with most wire bytes in the entry, as in the plan.
struct MeasuredCommunication {
  std::string what, collective, algorithm;
  int group_size = 1;
  std::optional<std::int64_t> count;
  std::optional<core::Bytes> payload, wire_per_rank;
  std::optional<core::Seconds> seconds;
  std::vector<program::LibraryCalls> library = {};  // that NCCL told of; empty: it told nothing
};

// Between two processes, in the whole run, without framing: for a witness that counts per peer.
struct MeasuredMessages {
  int from = 0, to = 0;
  std::int64_t messages = 0;
  core::Bytes wire{};
};

// Over the steps that were timed; the parts are of the critical rank, per step.
struct MeasuredTime {
  std::optional<core::Seconds> step_median, step_p10, step_p90;
  std::optional<core::Seconds> compute, exposed_communication, bubble, optimizer, communication;
};

// Of asynchronous servers: pushes taken in the run, and how many others' updates the weights that a
// push was computed with lacked.
struct MeasuredStaleness {
  std::int64_t pushes = 0;
  double mean = 0;
  std::int64_t max = 0;
};

// In fp16: the scale after the last step, and the steps that updated nothing because gradients
// overflowed.
struct MeasuredLossScale {
  double last = 0;
  std::int64_t skipped_steps = 0;
};

// Actions of one name, in the step that was looked into: by their events, and by what the device
// recorded of them, as a sum and as the union of those that ran at one time.
struct MeasuredAction {
  std::string name;                    // "forward attention"
  std::int64_t actions = 0, kernels = 0;
  core::Seconds events{}, sum{}, covered{};
};

struct MeasuredKernel {
  std::string name;
  std::int64_t calls = 0;
  core::Seconds total{};
};

// What the device itself recorded of that step, of the rank that the plan names. events: the union
// of all actions' by their events; busy: of all kernels, copies and fills; gaps: between the first
// of them and the last, less busy.
struct MeasuredDeviceTimes {
  core::Seconds events{}, busy{}, gaps{};
  std::vector<MeasuredAction> actions; // by name
  std::vector<MeasuredKernel> kernels; // the longest total first
};

// What was planned, of a run that was scaled down: model, job and candidate of the record are those
// that ran, and the candidate is what was predicted of them.
struct ScaledFrom {
  models::ModelSpec model;
  planner::Job job;
  planner::Strategy strategy;
  std::vector<planner::ScaledFigure> figures;
};

struct RunRecord {
  models::ModelSpec model;
  std::int64_t parameters = 0;  // total, unpadded
  hw_profiles::Profile profile;  // that was planned for
  std::int64_t gpus = 1, gpus_per_node = 1, nodes = 1;
  planner::Job job;
  planner::Candidate candidate;  // as planned
  std::optional<ScaledFrom> scaled_from;  // empty: the job ran as planned

  std::string backend;       // "host", "cuda"
  std::string communicator;  // "local", "mpi", "nccl"
  std::string device;        // "12 threads of AMD EPYC 7763", "NVIDIA H200"
  bool emulated_links = false;
  std::int64_t ranks = 1;
  std::int64_t steps = 0;
  std::vector<double> loss;  // one per step: mean over the global batch
  std::optional<Training> training;  // empty: an older file, of the optimizer's defaults
  MeasuredMemory memory;
  std::vector<MeasuredCommunication> communication;
  std::vector<MeasuredMessages> sent;  // empty: ranks are threads
  MeasuredTime time;
  std::optional<MeasuredStaleness> staleness;  // empty: no stale weights
  std::optional<MeasuredLossScale> loss_scale;  // empty: the loss is not scaled
  std::optional<MeasuredDeviceTimes> device_times;  // empty: not asked for, or refused
  std::map<std::string, std::string> environment;  // "openblas": "0.3.21"
};

// The file run/1, with a newline at its end.
std::string to_json_text(const RunRecord& record);

// Errors: every problem of the text with its place; values out of range included.
core::Result<RunRecord> parse_run(std::string_view text, std::string_view source_name);

}  // namespace exec
