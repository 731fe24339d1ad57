// torchtitan's job file, v0.2 (torchtitan/config/job_config.py).
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "models/layer_kinds.hpp"
#include "reports/emit/torchtitan_parts.hpp"

namespace reports::emit {
namespace {

using core::Code;
using core::code;

using planner::Checkpoint;
using planner::Sharding;

void check_for_torchtitan(Question& q) {
  const planner::Strategy& s = q.s;
  check_for_any_torchtitan(q);
  q.require(q.job().optimizer == planner::OptimizerKind::adamw ||
                q.job().optimizer == planner::OptimizerKind::adam,
            fmt::format("optimizer={}", planner::optimizer(q.job().optimizer).name),
            "adam or adamw, which torchtitan has", "plan with --optimizer adamw");
  const std::vector<std::string>& few = q.job().fp8_tensors;
  q.require(std::ranges::all_of(few, [](const auto& tensor) { return tensor == "params"; }) &&
                (q.job().fp8_scaling == "tensorwise" || q.job().fp8_scaling == "rowwise"),
            fmt::format("fp8_scaling={}", q.job().fp8_scaling),
            "fp8_scaling=tensorwise or rowwise, and of fp8_tensors params alone",
            "plan with --fp8-scaling tensorwise");
  q.require(s.checkpoint == Checkpoint::none || s.checkpoint == Checkpoint::every_k ||
                s.checkpoint == Checkpoint::selective_op,
            fmt::format("checkpoint={}", name(s.checkpoint)),
            "checkpoint=none, every_k or selective_op",
            fmt::format("plan with --forbid checkpoint={}", name(s.checkpoint)));
  q.require(s.context_method != planner::ContextMethod::exchange || s.context == 1,
            "context_method=exchange", "context_method=gather or ring",
            "plan with --pin context_method=ring");
}

// Lines of TOML. Every text passes its encoder.
class Toml {
 public:
  void comment(std::string_view text) { text_ += code("# {}\n", Code::comment(text)); }
  void section(const Code& name) { text_ += code("\n[{}]\n", name); }
  void set(const Code& key, std::string_view text) { line(key, Code::toml(text)); }
  // A list of lists, one of them a line.
  void set(const Code& key, const std::vector<std::vector<std::string>>& lists) {
    text_ += code("{} = [\n", key);
    for (const std::vector<std::string>& list : lists) {
      text_ += "  [";
      for (std::size_t i = 0; i < list.size(); ++i)
        text_ += Code::own(i > 0 ? ", " : "") + Code::toml(list[i]);
      text_ += "],\n";
    }
    text_ += "]\n";
  }
  template <class Number>
    requires std::is_arithmetic_v<Number>
    void set(const Code& key, Number value) { line(key, code("{}", value)); }
    void converters(std::string_view one) { line("converters", code("[{}]", Code::toml(one))); }
    Code text() && { return std::move(text_); }

   private:
    void line(const Code& key, const Code& value) { text_ += code("{} = {}\n", key, value); }
    Code text_;
};

// The sizes that its releases up to 0.2 know.
std::string_view flavor_of(const Question& q) {
  const std::string_view flavor = torchtitan_flavor(q.model());
  return flavor == "1B" || flavor == "3B" ? "" : flavor;
}

void add_training(Toml& toml, const Question& q) {
  const planner::Strategy& s = q.s;
  const std::string_view own = flavor_of(q);
  toml.section("model");
  toml.set("name", "llama3");
  toml.set("flavor", own.empty() ? "of_your_own" : own);
  if (q.job().precision == core::DType::f8) toml.converters("quantize.linear.float8");
  toml.section("optimizer");
  toml.set("name", q.job().optimizer == planner::OptimizerKind::adam ? "Adam" : "AdamW");
  toml.section("training");
  toml.set("local_batch_size", torchtitan_local_batch(s));
  toml.set("global_batch_size", q.job().global_batch);
  toml.set("seq_len", q.job().seq_len);
  toml.set("steps", 20);
  toml.set("max_norm", torchtitan_norm(q));
  const core::DType reduced = q.job().reduce_dtype.value_or(q.recipe.gradient);
  toml.set("mixed_precision_param", torch_name(q.recipe.compute));
  toml.set("mixed_precision_reduce", torch_name(reduced));
  toml.set("enable_cpu_offload", s.offloads("params"));
}

void add_parallelism(Toml& toml, const Question& q) {
  const planner::Strategy& s = q.s;
  const TorchtitanDegrees degrees = torchtitan_degrees(s);
  toml.section("parallelism");
  toml.set("data_parallel_replicate_degree", degrees.replicate);
  toml.set("data_parallel_shard_degree", degrees.shard);
  if (s.sharding != Sharding::none)
    toml.set("fsdp_reshard_after_forward", s.sharding == Sharding::zero3 ? "always" : "never");
  toml.set("tensor_parallel_degree", s.tensor);
  toml.set("enable_async_tensor_parallel", s.tp_overlap);
  toml.set("context_parallel_degree", s.context);
  if (s.context > 1)
    toml.set("context_parallel_rotate_method",
             s.context_method == planner::ContextMethod::ring ? "alltoall" : "allgather");
  toml.set("pipeline_parallel_degree", s.pipeline);
  if (s.pipeline > 1) {
    toml.set("pipeline_parallel_schedule", planner::schedule_def(s.schedule).torch);
    toml.set("pipeline_parallel_microbatch_size", s.micro_batch);
    toml.set("module_fqns_per_model_part", torchtitan_modules(q.chunks(), "output"));
  }
}

void add_checkpointing(Toml& toml, const planner::Strategy& s) {
  const bool selects = s.checkpoint == Checkpoint::selective_op ||
                       (s.checkpoint == Checkpoint::every_k && s.checkpoint_every > 1);
  toml.section("activation_checkpoint");
  toml.set("mode", selects ? "selective" : s.checkpoint == Checkpoint::every_k ? "full" : "none");
  if (selects)
    toml.set("selective_ac_option", s.checkpoint == Checkpoint::every_k
                                        ? std::to_string(s.checkpoint_every)
                                        : std::string("op"));
}

void add_float8(Toml& toml, const planner::Job& job) {
  const bool tensorwise = job.fp8_scaling == "tensorwise";
  toml.section("quantize.linear.float8");
  const bool gathers = job.in_few_bits("params");
  toml.set("enable_fsdp_float8_all_gather", gathers);
  if (gathers) toml.set("precompute_float8_dynamic_scale_for_fsdp", true);
  if (!tensorwise) toml.set("recipe_name", "rowwise");
}

std::vector<std::string> notes_for_torchtitan(const Question& q) {
  const planner::Strategy& s = q.s;
  std::vector<std::string> all;
  const models::ModelSpec& m = q.model();
  // Its width of the feed-forward is 8/3 of the model's, times a factor, rounded up to a multiple.
  if (flavor_of(q).empty())
    all.push_back(fmt::format(
        "[model] flavor: add llama3_args[\"of_your_own\"] = TransformerModelArgs(dim={}, "
        "n_layers={}, n_heads={}, n_kv_heads={}, vocab_size={}, multiple_of={}, "
        "ffn_dim_multiplier={:.4f}, max_seq_len={}, rope_theta={:.0f}) to torchtitan's llama3",
        m.hidden, m.layers, m.heads, m.kv_heads, m.vocab, m.ffn_hidden,
        0.5 * static_cast<double>(m.ffn_hidden) * 3 / (8 * static_cast<double>(m.hidden)),
        q.job().seq_len, m.variants.rotary_base));
  if (s.tp_overlap && !q.job().compile)
    all.push_back("[compile] enable: asynchronous tensor parallelism needs it, so the run is "
                  "faster than the plan, which counts on no compiler");
  const bool alone = q.plan.profile.framework.recomputes_one_in_k;
  if (s.checkpoint == Checkpoint::every_k && s.checkpoint_every > 1 && !alone)
    all.push_back(fmt::format("checkpoint=every_k: torchtitan recomputes one layer in {0}, the "
                              "plan's framework {1} all of them, in segments of {0}",
                              s.checkpoint_every, q.job().framework));
  note_for_any_torchtitan(q, all);
  return all;
}

}  // namespace

core::Result<Written> torchtitan(Question& q) {
  check_for_torchtitan(q);
  if (!q.problems.empty()) return q.problems;
  const planner::Job& job = q.job();
  Toml toml;
  toml.comment(q.title());
  const std::int64_t per_node = std::min(q.plan.gpus, q.plan.gpus_per_node);
  toml.comment(
      "For torchtitan 0.2, in a checkout of it. Later ones read no TOML: --for torchtitan_0.3.");
  if (q.plan.nodes <= 1)
    toml.comment(fmt::format("CONFIG_FILE=this.toml NGPU={} ./run_train.sh", per_node));
  else
    toml.comment(code("On each node: {}",
                      torchrun_command(q, "-m torchtitan.train --job.config_file this.toml")));
  add_training(toml, q);
  add_parallelism(toml, q);
  add_checkpointing(toml, q.s);
  toml.section("compile");
  toml.set("enable", job.compile || q.s.tp_overlap);
  if (job.precision == core::DType::f8) add_float8(toml, job);
  Written written;
  written.notes = notes_for_torchtitan(q);
  written.text = std::move(toml).text();
  written.program = R"(-m torchtitan.train --job.config_file "$config" "$@")";
  written.file_name = "job.toml";
  written.place = "a checkout of torchtitan";
  written.framework = "torchtitan";
  return written;
}

}  // namespace reports::emit
