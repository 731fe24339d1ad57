#pragma once
// Internal to emit/: what each framework's file is made of.

#include <initializer_list>
#include <vector>

#include <fmt/format.h>

#include "core/code.hpp"
#include "reports/emit/emit.hpp"

namespace reports::emit {

// What is asked, and what was found that this framework lacks.
struct Question {
  const planner::Plan& plan;
  const planner::Strategy& s;
  planner::Recipe recipe;
  core::Problems problems;

  const models::ModelSpec& model() const { return plan.model; }
  const planner::Job& job() const { return plan.job; }
  std::int64_t layers() const;
  // Where `is` does not hold: key=value of the strategy or job, what the framework has, the fix.
  void require(bool is, const std::string& found, const std::string& has, const std::string& fix) {
    if (!is) problems.push_back({"plan", has, found, fix});
  }
  // "gpt2-124m on 8 GPUs: data=8 ...", for a comment: one line, whatever the model's name holds.
  core::Code title() const;
  // Which of these degrees come from the fastest link outward, of those that are more than one.
  bool has_order(std::initializer_list<planner::Degree> order) const;
  std::string order_text() const;
  // Layers of each chunk of the chain, in the model's order.
  std::vector<std::int64_t> chunks() const;
  bool uneven() const;                 // these differ
  // Of no framework: server exchange, other weights than the last, offload but `allowed`, nodes
  // with fewer GPUs than others.
  // adapters: it trains them, too.
  void require_common(std::string_view framework, std::string_view offload_allowed,
                      bool adapters = false);
  // Of a framework that has its own code of models: spec is the model, without what the framework
  // has options for.
  void require_known_layers(std::string_view framework, const models::ModelSpec& spec);
  // For frameworks that multiply in 16 bits or f32 alone.
  void require_wide_products() {
    require(!planner::is_narrow(job().precision),
            fmt::format("precision {}", planner::precision_name(job().precision)),
            "16 bits or f32", "plan with --precision bf16");
  }
  // For models of transformers, whose loss in pieces is Liger's.
  void require_liger();
  // For frameworks whose loss scale in fp16 is always dynamic.
  void require_dynamic_loss_scale() {
    require(job().precision != core::DType::f16 || job().loss_scale == 0,
            "loss_scale=" + planner::loss_scale_text(job().loss_scale), "loss_scale=dynamic",
            "plan without --loss-scale");
  }
};

// The command that starts `program` on the plan's nodes: on one, or on each of several, which know
// their number and the first one's address by NODE_RANK and MASTER_ADDR.
core::Code torchrun_command(const Question& question, const core::Code& program);

// DeepSpeed's configuration of the strategy, without an optimizer, for trainers that make it.
core::Json deepspeed_section(const Question& question);
// What it makes of a shard_group smaller than all data ranks.
void note_deepspeed_groups(const Question& question, std::vector<std::string>& notes);
// Who takes the loss in pieces, where the plan has any.
void note_liger(const Question& question, std::vector<std::string>& notes);

// A type as torch calls it. REQUIRES: f32, bf16 or f16.
inline std::string_view torch_name(core::DType type) {
  return type == core::DType::bf16 ? "bfloat16" : type == core::DType::f16 ? "float16" : "float32";
}

// A truth value of YAML.
inline core::Code yaml_flag(bool is) {
  return core::Code::own(is ? "true" : "false");
}

// What a framework's writer wrote, and how its training command is started by a launcher.
struct Written {
  core::Code text;  // its own script or configuration file
  std::vector<std::string> notes;
  // Lines of bash that a node runs before; what torchrun (or python) is given, in words of bash,
  // "$@" the last; the name of the configuration file that it reads from "$config", empty: none.
  core::Code setup, program, file_name;
  bool imported = false;  // it is a module of Python: its folder is one to import from
  // Where it is started, "a checkout of Megatron-LM", and what that needs, "Megatron-LM".
  core::Code place, framework;
};

core::Result<Written> megatron(Question& question);
core::Result<Written> megatron_bridge(Question& question);
core::Result<Written> torchtitan(Question& question);
core::Result<Written> torchtitan_0_3(Question& question);
core::Result<Written> torchtitan_python(Question& question);
core::Result<Written> deepspeed(Question& question);
core::Result<Written> axolotl(Question& question);
core::Result<Written> llama_factory(Question& question);
core::Result<Written> llmc(Question& question);
core::Result<Written> accelerate(Question& question);
core::Result<Written> nanotron(Question& question);
core::Result<Launch> slurm(Question& question);
core::Result<Launch> kubernetes(Question& question);

}  // namespace reports::emit
