#pragma once
// Strategy: one way to lay the job out on the machines. Every key can be pinned or forbidden; the
// names here are the names in the plan file and on the command line. Value type.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/modules.hpp"
#include "planner/strategy/schedule_table.hpp"

namespace planner {

enum class Sharding : std::uint8_t { none, zero1, zero2, zero3 };
enum class Checkpoint : std::uint8_t {
  none, every_k, selective, memory_poor, selective_op, pointwise, first_k, modules
};
inline constexpr std::size_t kCheckpoints = 8;
// Values that come with a number of layers (Strategy::checkpoint_every).
inline bool counts_layers(Checkpoint c) {
  return c == Checkpoint::every_k || c == Checkpoint::first_k;
}
// Every layer keeps what its backward pass reads, less what is made again within the layer.
inline bool drops_within_layers(Checkpoint c) {
  return c == Checkpoint::selective || c == Checkpoint::selective_op ||
         c == Checkpoint::pointwise || c == Checkpoint::modules;
}
enum class GradSync : std::uint8_t { automatic, ring, tree, naive_all_reduce, parameter_server };
enum class ServerMode : std::uint8_t { sync, async };
// What a pipeline's ranks hold: layers in order, or any operators of a graph (graph_cut.hpp).
enum class Partition : std::uint8_t { layers, operators };
// How the queries of a context rank meet the keys of the others: keys gathered, keys passed round,
// or heads instead of rows for the time of the attention core.
enum class ContextMethod : std::uint8_t { gather, ring, exchange };
// How rows travel to experts and back: a copy for each expert, or once to each rank that holds some
// of a token's experts and once over the network to each node, whose ranks forward it.
enum class ExpertDispatch : std::uint8_t { all_to_all, deepep };
// Whose samples a batch norm takes the mean and the variance of: a rank's micro-batch, or the
// micro-batches of all data ranks.
enum class BatchNorm : std::uint8_t { local, synchronised };
enum class Degree : std::uint8_t { tensor, context, data, pipeline };

struct Strategy {
  std::int64_t data = 1, tensor = 1, pipeline = 1, context = 1, expert = 1;
  // Ranks that divide each expert: 0, all tensor ranks, or 1: each lies whole on one rank, and the
  // expert ranks are the tensor ranks of neighbouring data ranks.
  std::int64_t expert_tensor = 0;
  // Neighbouring data ranks that divide the operators of an operator graph, and along what
  // (models/splits.hpp): annotations, of which operators without one take samples.
  std::int64_t split = 1;
  std::vector<std::string> splits;
  BatchNorm batch_norm = BatchNorm::local;
  ContextMethod context_method = ContextMethod::gather;
  bool sequence_parallel = false;
  std::int64_t virtual_stages = 1;
  Schedule schedule = Schedule::none;
  std::vector<std::int64_t> stages;    // layers per stage; empty: auto
  Partition partition = Partition::layers;
  // Of partition=operators: the rank, from 1, of each operator in the file's order; empty: auto.
  std::vector<std::int64_t> parts;
  Sharding sharding = Sharding::none;
  std::int64_t shard_group = 1;        // = data x context unless HSDP (zero3 with a smaller group)
  std::int64_t micro_batch = 1;        // samples per model replica
  std::int64_t grad_accum = 1;         // micro-batches per step
  // By data rank, where they differ: slower GPUs take fewer. grad_accum is the greatest. Empty:
  // all take grad_accum.
  std::vector<std::int64_t> shares;
  Checkpoint checkpoint = Checkpoint::none;
  // k of every_k: segments of k layers or one layer in k (framework.recomputes_one_in_k). k of
  // first_k: the first k layers of each chunk, one by one. Else 0.
  std::int64_t checkpoint_every = 0;
  models::ModuleSet recompute_modules = 0;  // of checkpoint=modules, what each layer makes again
  GradSync grad_sync = GradSync::automatic;
  std::int64_t servers = 0;            // M; 0 unless parameter_server
  bool servers_colocated = true;
  ServerMode server_mode = ServerMode::sync;
  bool overlap = true;
  std::int64_t bucket_bytes = 25 << 20;
  bool tp_overlap = false;
  ExpertDispatch expert_dispatch = ExpertDispatch::all_to_all;
  bool expert_overlap = false;         // exchanges of experts beside a neighbouring micro-batch
  std::int64_t loss_chunks = 1;        // of a micro-batch's tokens: head and loss are computed so
  std::vector<std::string> offload;
  // From the fastest link outward.
  std::array<Degree, 4> mesh_order{Degree::tensor, Degree::context, Degree::data,
                                   Degree::pipeline};

  // Ranks that hold the model: gpus less the servers that stand apart.
  std::int64_t workers() const { return data * tensor * pipeline * context; }
  // Ranks that hold equal weights (of one tensor and pipeline place) and add up gradients.
  std::int64_t data_ranks() const { return data * context; }
  bool expert_over_tensor() const { return expert_tensor == 1 && tensor > 1 && expert > 1; }
  // Neighbouring data ranks between which experts differ.
  std::int64_t expert_data_ranks() const {
    return expert_over_tensor() ? expert / tensor : expert;
  }
  bool offloads(std::string_view what) const {
    return std::find(offload.begin(), offload.end(), what) != offload.end();
  }
  // Micro-batches of a step, of all data ranks together.
  std::int64_t micro_batches() const;
  // What each layer makes again for its backward pass, of the checkpoints that say it by modules.
  models::ModuleSet made_again() const;
  std::int64_t separate_servers() const { return servers_colocated ? 0 : servers; }

  friend bool operator==(const Strategy&, const Strategy&) = default;
};

// What of a checkpoint decides what the passes of a layer do: a part of keys of caches.
struct WithinLayer {
  Checkpoint checkpoint = Checkpoint::none;
  models::ModuleSet modules = 0;
  auto operator<=>(const WithinLayer&) const = default;
};
WithinLayer within_layer(const Strategy& s);

// Ranks between neighbours in a degree. Context ranks are neighbours within data
// (sim/program/mesh.hpp).
std::int64_t stride_of(const Strategy& s, Degree degree);

std::string_view name(Schedule s);
std::string_view name(Sharding s);
std::string_view name(Checkpoint c);
std::string_view name(GradSync g);
std::string_view name(ServerMode m);
std::string_view name(Partition p);
std::string_view name(ContextMethod m);
std::string_view name(BatchNorm b);
std::optional<Schedule> schedule_from_name(std::string_view text);
std::optional<Sharding> sharding_from_name(std::string_view text);
std::optional<Checkpoint> checkpoint_from_name(std::string_view text);
std::optional<GradSync> grad_sync_from_name(std::string_view text);
std::optional<ServerMode> server_mode_from_name(std::string_view text);

// Layer counts, runs of equal ones as count*times: "3,4*30,3". A pin is written the same way.
std::string stages_text(const std::vector<std::int64_t>& stages);

// "every_k(2)", "modules(layernorm+moe_act)", "selective", as a pin says it.
std::string checkpoint_text(const Strategy& strategy);

// "data=4", "zero1", "offload params": what of a strategy is told, in the order of its keys.
std::vector<std::string> parts_of(const Strategy& strategy);
// "data=4 tensor=2 zero1 every_k(1) micro_batch=8", for tables and messages: the parts in a row.
std::string to_text(const Strategy& strategy);

}  // namespace planner
