#pragma once
// Row: one published training run, as a file of runs states it (schema: the header of runs.csv in
// docs), turned into exactly the model, job and strategy that the planner knows. What the words of
// a row become:
//   checkpoint   full: every_k 1; every_2: every_k 2, which means what it does to the framework
//                (framework.recomputes_one_in_k); full_part: first_k, of as many layers as
//                recompute_modules begins a number with; the others by their name
//   schedule     zb1p: zb_h1; zb2p: zb_h2; their updates wait for no norm, which is looked at after
//                them ([zero-bubble] section 4): without a loss scale
//   no effect    sequence_parallel with tensor 1, sharding over a group of 1: left out
//   framework    one that is not shipped: `generic`, and the row keeps its own name in reports;
//                native, of somebody else's run: a plain torch loop (`torch`); what the version
//                says ran in the Trainer of transformers: `trainer`; with ZeRO-3 `trainer_zero3`
//                or `deepspeed_zero3`
//   precision    tf32: fp32 whose products run on tensor cores; nvfp4: fp8 at the 4-bit peak
//   fp8_scaling  mxfp8, delayed, blockwise, nvfp4: tensorwise, whose kernels cast as many bytes
//   quantization gptq: nf4, which has as many bits but for the scales
//   family       qwen3_moe, gpt_oss, deepseek_v3 and others: mixtures (row_layers.hpp)
//   gpus_per_node of one GPU that many share a domain with: the domain's
//   note         foak: the loss is one kernel (fms-acceleration's); liger: with the head, in
//                pieces; before the fix of the pipeline code: its host polls for each message
//   expert_tensor_parallel 1 with several tensor ranks: strategy.expert_tensor. Without a value: 1
//                where the expert ranks do not divide data x context, else all tensor ranks
//   framework_version torch 2.1: the NCCL that it is installed with
//   assumed      autocast: what the ranks divide is f32
//   *_busbw_gbs  the run's network (sim/cost/measured_network.hpp)
//   source       names a year or a month (2024, 2024-12, 202412): the framework as it was then
//   stages       virtual ones that there are not layers for: as many as divide them, else none;
//                layers that the pipeline does not divide: auto, as the planner resolves them
// Value types; pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/csv.hpp"
#include "core/units.hpp"
#include "models/spec.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/strategy.hpp"

namespace reports::validation {

// What a row's peak memory is of: the framework's allocator (bytes in use, bytes it holds), or the
// device as the driver's tool printed it.
enum class MemoryKind : std::uint8_t { allocated, reserved, device };

struct Row {
  std::string place;                     // "runs.csv:12"
  std::string id, dataset, group, framework, gpu;
  std::string date;                      // "2024" or "2024-12"; empty: the source names none
  models::ModelSpec model;
  planner::Job job;                      // framework: a shipped one; recipe: empty, the framework's
  planner::Strategy strategy;
  std::int64_t gpus = 1;
  std::optional<std::int64_t> gpus_per_node;
  std::optional<double> internode_gbps;  // of the whole node
  // Measured in the job itself over all of its ranks, GB/s of the bus; 0: not stated.
  double all_reduce_gbs = 0, gather_gbs = 0;
  bool tf32 = false;                   // products on tensor cores
  // The loss is one kernel, or one with the head that makes a few logits at a time.
  bool fused_loss = false, fused_head = false;
  bool graphs = false;                   // a whole step is replayed as one CUDA graph
  bool first_stage = false;              // memory is of the first stage's rank
  int nccl_minor = 0;                    // of the NCCL that the torch which ran brings; 0: not said
  bool polls = false;                    // the host waits for the device at each message

  // Measured; empty: not stated.
  std::optional<core::Seconds> step;
  std::optional<double> peak_bytes;
  MemoryKind memory_kind = MemoryKind::allocated;
  std::optional<bool> fits;
};

// A row that cannot be used, and why.
struct Skipped {
  std::string id, reason;
};

struct Rows {
  std::vector<Row> rows;
  std::vector<Skipped> skipped;
  core::Problems problems;               // of the skipped rows, each with line and column
};

// Columns that a file of runs must have; the others may be missing, and mean "not stated".
std::vector<std::string_view> required_columns();

Rows read_rows(const core::CsvTable& table);

}  // namespace reports::validation
