#include "reports/validate/row.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "hw_profiles/load.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/keys.hpp"
#include "planner/strategy/schedules.hpp"
#include "reports/validate/row_layers.hpp"

namespace reports::validation {
namespace {

using core::CsvRow;
using core::Problems;

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
constexpr core::IntRange kDegree{1, 1 << 24};
constexpr core::IntRange kWidth{1, std::int64_t{1} << 26};
constexpr std::string_view kGeneric = "generic";  // hw_profiles/frameworks

// One of `words`, as the value beside it. An empty cell leaves `out` as it is.
template <class T, std::size_t n>
void choose(const CsvRow& row, std::string_view column,
            const std::array<std::pair<std::string_view, T>, n>& words, T& out,
            Problems& problems) {
  const std::string_view cell = row.text(column);
  if (cell.empty()) return;
  std::string known;
  for (const auto& [word, value] : words) {
    if (word == cell) {
      out = value;
      return;
    }
    known += known.empty() ? std::string(word) : fmt::format(", {}", word);
  }
  row.problem(column, "one of " + known, "", problems);
}

void read_family(const CsvRow& row, models::ModelSpec& model, Problems& problems) {
  using models::Family;
  constexpr std::array<std::pair<std::string_view, Family>, 16> kFamilies{
      {{"gpt", Family::gpt2}, {"gpt2", Family::gpt2}, {"llama", Family::llama},
       {"mpt", Family::mpt}, {"gpt_neox", Family::gpt_neox}, {"qwen2", Family::qwen2},
       {"bert", Family::bert}, {"mistral", Family::llama}, {"gpt_bigcode", Family::gpt2},
       {"mixtral", Family::mixtral}, {"qwen3_moe", Family::qwen3}, {"gpt_oss", Family::llama},
       {"deepseek_v2", Family::llama}, {"deepseek_v3", Family::llama}, {"kimi_k2", Family::llama},
       {"glm4_moe", Family::llama}}};
  choose(row, "family", kFamilies, model.family, problems);
  model.variants = models::variants_of(model.family);
  model.activation = models::activation_of(model.family);
  constexpr std::array<std::pair<std::string_view, models::Ffn>, 3> kFfn{
      {{"gelu", models::Ffn::gelu}, {"relu2", models::Ffn::gelu}, {"swiglu", models::Ffn::swiglu}}};
  choose(row, "ffn", kFfn, model.variants.ffn, problems);
  if (row.text("ffn") == "relu2") model.activation = models::Activation::relu_squared;
}

void read_model(const CsvRow& row, models::ModelSpec& model, std::int64_t& seq_len,
                Problems& problems) {
  row.optional("model", model.name, problems);
  read_family(row, model, problems);
  row.required("layers", model.layers, core::IntRange{1, models::kMaxLayers}, problems);
  row.required("hidden", model.hidden, kWidth, problems);
  row.required("heads", model.heads, kWidth, problems);
  model.kv_heads = model.heads;
  row.optional("kv_heads", model.kv_heads, kWidth, problems);
  row.required("ffn_hidden", model.ffn_hidden, kWidth, problems);
  row.optional("head_dim", model.head_dim, core::IntRange{0, 1 << 16}, problems);
  if (model.heads > 0 && model.head_dim * model.heads == model.hidden) model.head_dim = 0;
  read_layers(row, model, problems);
  row.required("vocab", model.vocab, kWidth, problems);
  row.optional("tied_embeddings", model.tied_embeddings, problems);
  row.required("seq_len", seq_len, core::IntRange{1, 1 << 24}, problems);
  model.positions = seq_len;
  model.source = "a row of published runs";
}

// How GEMMs compute, and what the framework then keeps in 16 bits.
void read_precision(const CsvRow& row, planner::Job& job, Problems& problems) {
  struct Precision {
    core::DType type;
    bool pure;
  };
  constexpr std::array<std::pair<std::string_view, Precision>, 7> kPrecisions{
      {{"bf16", {core::DType::bf16, false}}, {"fp16", {core::DType::f16, false}},
       {"fp8", {core::DType::f8, false}}, {"pure_bf16", {core::DType::bf16, true}},
       {"fp32", {core::DType::f32, false}}, {"tf32", {core::DType::f32, false}},
       {"nvfp4", {core::DType::f4, false}}}};
  Precision precision{core::DType::bf16, false};
  choose(row, "precision", kPrecisions, precision, problems);
  job.recipe = precision.pure                       ? "pure_bf16"
               : precision.type == core::DType::f32 ? "fp32"
                                                    : "";
  job.precision = precision.type == core::DType::f32 ? core::DType::bf16 : precision.type;
  constexpr std::array<std::pair<std::string_view, core::DType>, 3> kWire{
      {{"fp16", core::DType::f16}, {"bf16", core::DType::bf16}, {"fp32", core::DType::f32}}};
  core::DType wire = core::DType::f32;
  choose(row, "reduce_dtype", kWire, wire, problems);
  if (row.has("reduce_dtype")) job.reduce_dtype = wire;
}

void read_job(const CsvRow& row, planner::Job& job, Problems& problems) {
  row.required("global_batch", job.global_batch, core::at_least(1), problems);
  read_precision(row, job, problems);
  std::string optimizer;
  if (row.optional("optimizer", optimizer, problems)) {
    if (const auto kind = planner::optimizer_from_name(optimizer)) job.optimizer = *kind;
    else row.problem("optimizer", "a known optimizer", "", problems);
  }
  row.optional("lora_rank", job.lora_rank, core::IntRange{0, 1 << 20}, problems);
  row.optional("quantization", job.quantization, problems);
  row.optional("attention", job.attention, problems);
  row.optional("fused_norm", job.fused_norm, problems);
  row.optional("compile", job.compile, problems);
  // Its plugins decode by one Triton kernel (auto_gptq.kernel: triton_v2), as nf4 is decoded.
  const std::string_view version = row.text("framework_version");
  const bool fused = version.find("fms-acceleration") != version.npos;
  if (job.quantization == "gptq" && fused) job.quantization = "nf4";
  if (row.text("fp8_scaling") == "rowwise") job.fp8_scaling = "rowwise";
}

// The first whole number in a text: "first 12 layers of each stage".
std::optional<std::int64_t> first_number(std::string_view text) {
  const std::size_t begin = text.find_first_of("0123456789");
  if (begin == text.npos) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data() + begin, text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// Megatron's --recompute-modules, with blanks between. Other texts stand there too, of offload.
void read_modules(std::string_view text, planner::Strategy& s) {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const auto at = std::ranges::find(models::kModuleNames, word);
    if (at == models::kModuleNames.end()) continue;
    const auto m = static_cast<models::Module>(at - models::kModuleNames.begin());
    s.recompute_modules = models::both(s.recompute_modules, models::set_of(m));
  }
  if (s.recompute_modules != 0) s.checkpoint = planner::Checkpoint::modules;
}

void read_checkpoint(const CsvRow& row, planner::Strategy& s, Problems& problems) {
  using planner::Checkpoint;
  using Recomputed = std::pair<Checkpoint, std::int64_t>;
  constexpr std::array<std::pair<std::string_view, Recomputed>, 6> kKinds{
      {{"none", {Checkpoint::none, 0}}, {"full", {Checkpoint::every_k, 1}},
       {"full_part", {Checkpoint::first_k, 0}},
       {"every_2", {Checkpoint::every_k, 2}}, {"selective", {Checkpoint::selective, 0}},
       {"selective_op", {Checkpoint::selective_op, 0}}}};
  Recomputed recomputed{Checkpoint::none, 0};
  choose(row, "checkpoint", kKinds, recomputed, problems);
  s.checkpoint = recomputed.first;
  s.checkpoint_every = recomputed.second;
  if (s.checkpoint == Checkpoint::first_k) {
    s.checkpoint_every = first_number(row.text("recompute_modules")).value_or(0);
    if (s.checkpoint_every < 1)
      row.problem("recompute_modules", "the number of layers that are computed again", "",
                  problems);
  }
  if (s.checkpoint == Checkpoint::none) read_modules(row.text("recompute_modules"), s);
}

void read_pipeline(const CsvRow& row, std::int64_t layers, planner::Strategy& s,
                   Problems& problems) {
  using planner::Schedule;
  row.optional("pipeline", s.pipeline, kDegree, problems);
  row.optional("virtual_stages", s.virtual_stages, kDegree, problems);
  const std::string_view cell = row.text("schedule");
  const auto schedule =
      planner::schedule_from_name(planner::value_meant(*planner::find_strategy_key("schedule"),
                                                       cell));
  if (schedule) s.schedule = *schedule;
  else if (!cell.empty())
    row.problem("schedule", fmt::format("one of {}", fmt::join(planner::kScheduleNames, ", ")), "",
                problems);
  if (s.pipeline == 1) {
    s.schedule = Schedule::none;
    s.virtual_stages = 1;
  } else if (s.schedule == Schedule::none) {
    s.schedule = Schedule::one_f_one_b;
  }
  // At least one layer in each, but for chunks of the embeddings and the head. With fewer chunks
  // than stated, and uneven ones, every pass would wait for the longest; then none.
  const std::int64_t most = std::max<std::int64_t>(
      1, planner::chunk_places(layers, s.virtual_stages) / s.pipeline);
  if (s.virtual_stages > most) s.virtual_stages = layers % (most * s.pipeline) == 0 ? most : 1;
  const planner::ChunksOfRank chunks = planner::schedule_def(s.schedule).chunks;
  if (chunks == planner::ChunksOfRank::one) s.virtual_stages = 1;
  else if (chunks == planner::ChunksOfRank::several && s.virtual_stages == 1)
    s.schedule = Schedule::one_f_one_b;
}

void read_sharding(const CsvRow& row, planner::Strategy& s, Problems& problems) {
  using planner::Sharding;
  constexpr std::array<std::pair<std::string_view, Sharding>, 4> kShardings{
      {{"none", Sharding::none}, {"zero1", Sharding::zero1}, {"zero2", Sharding::zero2},
       {"zero3", Sharding::zero3}}};
  choose(row, "sharding", kShardings, s.sharding, problems);
  s.shard_group = s.data * s.context;
  row.optional("shard_group", s.shard_group, kDegree, problems);
  // Context ranks hold equal weights too: optimizers are divided over them as well.
  if (s.sharding != Sharding::zero3 && s.shard_group == s.data) s.shard_group = s.data_ranks();
  if (s.shard_group == 1) s.sharding = Sharding::none;
  if (s.sharding == Sharding::none) s.shard_group = 1;
}

void read_strategy(const CsvRow& row, const models::ModelSpec& model, std::int64_t global_batch,
                   planner::Strategy& s, Problems& problems) {
  row.optional("data", s.data, kDegree, problems);
  row.optional("tensor", s.tensor, kDegree, problems);
  row.optional("context", s.context, kDegree, problems);
  row.optional("expert_parallel", s.expert, kDegree, problems);
  const bool over_tensor = s.expert > 1 && s.data_ranks() % s.expert != 0;
  std::int64_t expert_tensor = over_tensor ? 1 : s.tensor;
  row.optional("expert_tensor_parallel", expert_tensor, kDegree, problems);
  if (s.expert > 1 && expert_tensor != s.tensor) s.expert_tensor = expert_tensor;
  bool sequence = false;
  row.optional("sequence_parallel", sequence, problems);
  s.sequence_parallel = sequence && s.tensor > 1;
  read_pipeline(row, model.layers, s, problems);
  read_sharding(row, s, problems);
  read_checkpoint(row, s, problems);
  row.required("micro_batch", s.micro_batch, kDegree, problems);
  row.optional("tp_overlap", s.tp_overlap, problems);
  s.tp_overlap = s.tp_overlap && s.tensor > 1;
  row.optional("a2a_overlap", s.expert_overlap, problems);
  const std::string_view dispatcher = row.text("moe_dispatcher");
  if (s.expert > 1 && (dispatcher == "deepep" || dispatcher == "hybridep"))
    s.expert_dispatch = planner::ExpertDispatch::deepep;
  if (const std::string_view what = row.text("offload"); !what.empty() && what != "none")
    s.offload = {std::string(what)};
  const std::int64_t together = s.micro_batch * s.data;
  if (together > 0 && global_batch % together == 0)
    s.grad_accum = global_batch / together;
  else if (problems.empty())
    row.problem("global_batch", fmt::format("a multiple of micro_batch x data = {}", together), "",
                problems);
}

void read_measured(const CsvRow& row, Row& out, Problems& problems) {
  double number = 0;
  if (row.optional("step_seconds", number, core::positive(), problems))
    out.step = core::Seconds(number);
  if (row.optional("peak_memory_gib", number, core::positive(), problems))
    out.peak_bytes = number * kGib;
  constexpr std::array<std::pair<std::string_view, MemoryKind>, 3> kKinds{
      {{"allocated", MemoryKind::allocated}, {"reserved", MemoryKind::reserved},
       {"device", MemoryKind::device}}};
  choose(row, "memory_kind", kKinds, out.memory_kind, problems);
  out.first_stage = row.text("note").find("first pipeline stage") != std::string_view::npos;
  bool fits = false;
  if (row.optional("fits", fits, problems)) out.fits = fits;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The first year, or year and month, in a text: four digits from 2010 to 2039, or six with a month,
// or "2024-12", which stand alone (not inside a longer number, nor in a commit's name).
std::string date_in(std::string_view text) {
  for (std::size_t at = 0; at + 4 <= text.size(); ++at) {
    const std::string_view rest = text.substr(at);
    if (at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1]))) continue;
    if (!rest.starts_with("20") || rest[2] < '1' || rest[2] > '3' || !is_digit(rest[3])) continue;
    const std::size_t month = rest.size() > 4 && rest[4] == '-' ? 5 : 4;
    const bool has_month = rest.size() >= month + 2 && is_digit(rest[month]) &&
                           is_digit(rest[month + 1]) && rest.substr(month, 2) <= "12" &&
                           rest.substr(month, 2) > "00";
    const std::size_t end = has_month ? month + 2 : 4;
    if (end < rest.size() && std::isalnum(static_cast<unsigned char>(rest[end]))) continue;
    const std::string year(rest.substr(0, 4));
    return has_month ? year + '-' + std::string(rest.substr(month, 2)) : year;
  }
  return "";
}

// The shipped framework that stands for what a row says ran.
std::string framework_of(const CsvRow& cells, const std::string& named,
                         const std::vector<std::string>& frameworks) {
  const auto shipped = [&](std::string_view name) {
    return std::ranges::count(frameworks, name) > 0;
  };
  const bool trainer =
      cells.text("framework_version").find("transformers") != std::string_view::npos;
  const bool hooked = named == "deepspeed" &&
                      (cells.text("sharding") == "zero3" ||
                       cells.text("assumed").find("ZeRO-3") != std::string_view::npos);
  if (trainer && hooked && shipped("trainer_zero3")) return "trainer_zero3";
  if (trainer && shipped("trainer")) return "trainer";
  if (hooked && shipped("deepspeed_zero3")) return "deepspeed_zero3";
  if (named == "native" && shipped("torch")) return "torch";
  return shipped(named) ? named : std::string(kGeneric);
}

// The NCCL release, 18 for 2.18, that a stated torch is installed with (its wheels' requirement of
// nvidia-nccl-cu12); 0: none is stated, or one that is not known here.
int nccl_minor_in(std::string_view text) {
  struct Release { std::string_view torch; int nccl_minor; };
  constexpr std::array kReleases{Release{"torch 2.1", 18}, Release{"torch 2.2", 19},
                                 Release{"torch 2.3", 20}, Release{"torch 2.4", 20},
                                 Release{"torch 2.5", 21}, Release{"torch 2.6", 21},
                                 Release{"torch 2.7", 26}, Release{"torch 2.8", 27}};
  for (const Release& r : kReleases)
    if (text.find(r.torch) != text.npos) return r.nccl_minor;
  return 0;
}

void read_network(const CsvRow& cells, Row& row, Problems& problems) {
  double gather = 0, scatter = 0;
  cells.optional("allreduce_busbw_gbs", row.all_reduce_gbs, core::positive(), problems);
  cells.optional("allgather_busbw_gbs", gather, core::positive(), problems);
  cells.optional("reducescatter_busbw_gbs", scatter, core::positive(), problems);
  row.gather_gbs = gather > 0 && scatter > 0 ? (gather + scatter) / 2 : std::max(gather, scatter);
}

Row read_row(const CsvRow& cells, const std::string& source,
             const std::vector<std::string>& frameworks, Problems& problems) {
  Row row;
  row.place = fmt::format("{}:{}", source, cells.line());
  cells.required("id", row.id, problems);
  cells.optional("dataset", row.dataset, problems);
  row.date = date_in(cells.text("source"));
  cells.optional("group", row.group, problems);
  cells.required("framework", row.framework, problems);
  cells.required("gpu", row.gpu, problems);
  cells.required("gpus", row.gpus, kDegree, problems);
  std::int64_t per_node = 0;
  if (cells.optional("gpus_per_node", per_node, core::IntRange{1, 1 << 16}, problems))
    row.gpus_per_node = per_node;
  double gbps = 0;
  if (cells.optional("internode_gbps", gbps, core::positive(), problems)) row.internode_gbps = gbps;
  row.job.framework = framework_of(cells, row.framework, frameworks);
  row.tf32 = cells.text("precision") == "tf32";
  const std::string_view note = cells.text("note");
  row.fused_head = note.find("liger") != std::string_view::npos;
  row.fused_loss = note.find("foak") != std::string_view::npos && !row.fused_head;
  row.polls = note.find("before the fix of the pipeline code") != std::string_view::npos;
  // accelerate 0.30 and later keeps divided parameters in f32 where it casts operators by itself,
  // whatever type they were read in (huggingface/accelerate, pull request 2674).
  const bool casts = cells.text("assumed").find("autocast") != std::string_view::npos;
  row.nccl_minor = nccl_minor_in(cells.text("framework_version"));
  row.graphs = cells.text("cuda_graphs").find("full_iteration") != std::string_view::npos;
  read_network(cells, row, problems);
  read_model(cells, row.model, row.job.seq_len, problems);
  read_job(cells, row.job, problems);
  row.job.mtp_layers = row.model.mtp_layers;
  read_strategy(cells, row.model, row.job.global_batch, row.strategy, problems);
  const std::string_view schedule = cells.text("schedule");
  if (schedule == "zb1p" || schedule == "zb2p") row.job.loss_scale = 1;
  read_measured(cells, row, problems);
  const planner::Strategy& s = row.strategy;
  if (casts && s.sharding != planner::Sharding::none && row.job.recipe == "pure_bf16")
    row.job.recipe = "fsdp2";
  if (problems.empty() && s.workers() != row.gpus)
    cells.problem("gpus", fmt::format("data x tensor x pipeline x context = {}", s.workers()), "",
                  problems);
  return row;
}

}  // namespace

std::vector<std::string_view> required_columns() {
  return {"id",    "framework",  "layers", "hidden",  "heads",       "ffn_hidden",
          "vocab", "seq_len",    "gpu",    "gpus",    "micro_batch", "global_batch"};
}

Rows read_rows(const core::CsvTable& table) {
  const std::vector<std::string> frameworks = hw_profiles::framework_names();
  Rows out;
  for (const CsvRow& cells : table.rows()) {
    Problems problems;
    Row row = read_row(cells, table.source(), frameworks, problems);
    if (problems.empty()) {
      out.rows.push_back(std::move(row));
      continue;
    }
    if (row.id.empty()) row.id = fmt::format("line {}", cells.line());
    out.skipped.push_back({row.id, core::to_text(problems.front())});
    out.problems.insert(out.problems.end(), problems.begin(), problems.end());
  }
  return out;
}

}  // namespace reports::validation
