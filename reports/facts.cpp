#include "reports/facts.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "reports/text.hpp"

namespace reports {
namespace {

using V = const FactValues&;

constexpr std::string_view kNotes = "lecture notes the product was founded on";
constexpr std::string_view kPsi = "Psi=model.parameters job.recipe job.optimizer memory.weights "
                                  "memory.gradients memory.optimizer";
constexpr std::string_view kExchange = "d=model.parameters K=cluster.gpus";

constexpr std::array kFacts{
    Fact{"C1", "naive all-reduce: every GPU sends its d derivatives to the K - 1 others",
         "d (K - 1) per GPU", kExchange, "elements", kNotes,
         [](V v) { return v.parameters * (v.gpus - 1); }},
    Fact{"C2", "one parameter server: every GPU sends d, the server answers K of them",
         "d K from the server (d from every GPU)", kExchange, "elements", "[parameter-server]",
         [](V v) { return v.parameters * v.gpus; }},
    Fact{"C3", "M parameter servers share the elements; one on a worker spares that worker's share",
         "d K / M per server (d (K - 1) / M on workers)",
         "d=model.parameters K=cluster.gpus M=servers", "elements", "[parameter-server]",
         [](V v) { return v.parameters * v.gpus / v.servers; }},
    Fact{"C4", "ring all-reduce: reduce-scatter and all-gather of K - 1 steps, d / K in each",
         "2 d (K - 1) / K per GPU", kExchange, "elements", "[ring]",
         [](V v) { return 2 * v.parameters * (v.gpus - 1) / v.gpus; }},
    Fact{"C5", "a server that keeps the optimizer takes gradients and returns weights; data "
               "parallelism moves gradients alone",
         "2 d with a server (d without)", "d=model.parameters", "elements", "[distbelief], [ddp]",
         [](V v) { return 2 * v.parameters; }},
    Fact{"C6", "going through the host's memory is slower than GPU to GPU: a copy there and one "
               "back share its link",
         "2 d (K - 1) / K x 2 bytes / bandwidth of the node's link",
         "d=model.parameters K=cluster.gpus node.link node.link_bandwidth", "s", kNotes,
         [](V v) { return 2 * v.parameters * (v.gpus - 1) / v.gpus * 2 / v.link; }},
    Fact{"C7", "data parallelism speeds up almost K times until its exchange shows",
         "K (step - exposed) / step",
         "K=cluster.gpus step=time.step exposed=time.exposed_communication strategy.data",
         "times one GPU's share", kNotes,
         [](V v) { return v.gpus * (v.step - v.exposed) / v.step; }},
    Fact{"C8", "buckets are exchanged while earlier layers are still in their backward pass",
         "1 - exposed / busy: the share that is hidden",
         "exposed=time.exposed_communication busy=time.communication strategy.overlap "
         "strategy.bucket_bytes",
         "fraction", "[ddp]",
         [](V v) { return v.communication > 0 ? 1 - v.exposed / v.communication : 0; }},
    Fact{"C9", "push and pull: a worker pushes its gradients and pulls weights when it wants, in "
               "step with the others or not",
         "d pushed + d pulled per worker and step (pin grad_sync=parameter_server, server_mode)",
         "d=model.parameters strategy.grad_sync strategy.server_mode", "elements",
         "[distbelief], [parameter-server]", [](V v) { return 2 * v.parameters; }},
    Fact{"C10", "the interface: a communicator; all-reduce with sum of [1,2,3] and [1,0,1] is "
                "[2,2,4] on both; all-gather of [1,2] and [3,4] is [1,2,3,4]; push and pull",
         "2 + 2 + 4: the sum of the all-reduce above", "", "", kNotes,
         [](V) { return 1.0 + 2 + 3 + 1 + 0 + 1; }},
    Fact{"M1", "fp32 with Adam: weights, gradients, momentum and variance of 4 bytes each",
         "(4 + 4 + 4 + 4) Psi", kPsi, "B", "[adam]", [](V v) { return 16 * v.parameters; }},
    Fact{"M2", "lean mixed precision: weights f32, gradients and momentum bf16, variance f32",
         "(4 + 2 + 2 + 4) Psi", kPsi, "B", kNotes, [](V v) { return 12 * v.parameters; }},
    Fact{"M3", "mixed precision of ZeRO: 16-bit weights and gradients; weights, momentum and "
               "variance in f32",
         "(2 + 2 + 12) Psi", kPsi, "B", "[zero] section 3.1",
         [](V v) { return 16 * v.parameters; }},
    Fact{"M4", "model state decides what fits: GPT-2 of 1.5 B needs 24 GB before any activation",
         "16 Psi", "Psi=model.parameters cluster.usable_bytes memory.live memory.device", "B",
         "[zero] section 3", [](V v) { return 16 * v.parameters; }},
    Fact{"M5", "activations of a transformer without recomputation, 16 bit, batch 32",
         "12 h b s N x 2 bytes with b = 32",
         "h=model.hidden s=model.seq_len N=model.layers memory.activations strategy.micro_batch",
         "B", "[zero] section 3.2",
         [](V v) { return 24 * v.hidden * 32 * v.seq_len * v.layers; }},
    Fact{"M6", "checkpointing keeps the boundaries of layers and runs one more forward pass",
         "1 forward / (forward + backward) = 1 / 3 of the work",
         "strategy.checkpoint strategy.checkpoint_every memory.activations time.compute",
         "fraction", "[chen2016], [zero] section 3.2", [](V) { return 1.0 / 3; }},
    Fact{"M7", "a fused buffer for all-reduce in f32 holds every gradient once more", "4 Psi",
         "Psi=model.parameters memory.communication strategy.bucket_bytes", "B",
         "[zero] section 3.2", [](V v) { return 4 * v.parameters; }},
    Fact{"M8", "fragmentation: memory that the allocator holds and nothing can use",
         "1 - live / reserved", "live=memory.live reserved=memory.reserved job.framework",
         "fraction", "[zero] section 3.2",
         [](V v) { return v.reserved > 0 ? 1 - v.live / v.reserved : 0; }},
    Fact{"M9", "inference needs O(1) activations, two buffers on a plain chain and three where a "
               "residual must survive; training needs O(N)",
         "N layers kept in training", "N=model.layers job.mode memory.activations", "layers",
         kNotes, [](V v) { return v.layers; }},
    Fact{"M10", "a checkpoint every k layers keeps O(N / k) + O(k): least at the square root",
         "k = sqrt(N) where a boundary costs as much as a layer",
         "N=model.layers strategy.checkpoint_every", "layers", "[chen2016]",
         [](V v) { return std::sqrt(v.layers); }},
    Fact{"M11", "memory-poor backpropagation recomputes every layer's input from the start",
         "N (N + 1) / 2 forward evaluations (N when everything is kept)",
         "N=model.layers strategy.checkpoint", "evaluations", "[chen2016]",
         [](V v) { return v.layers * (v.layers + 1) / 2; }},
    Fact{"M12", "pipeline and tensor parallelism divide the model state among the GPUs",
         "16 Psi / K",
         "Psi=model.parameters K=cluster.gpus strategy.tensor strategy.pipeline memory.weights",
         "B", "[zero] section 1", [](V v) { return 16 * v.parameters / v.gpus; }},
    Fact{"M13", "weights alone in 16 bit: 350 GB for the 175 B parameters of GPT-3", "2 Psi",
         "Psi=model.parameters", "B", "[gpt3]", [](V v) { return 2 * v.parameters; }},
    Fact{"M14", "optimizer state in f32: SGD 0, momentum, Adagrad and RMSProp 4, Adadelta and Adam "
                "8, AMSGrad 12 bytes a parameter",
         "8 Psi for Adam", "Psi=model.parameters job.optimizer memory.optimizer", "B", "[adam]",
         [](V v) { return 8 * v.parameters; }},
    Fact{"M15", "LoRA trains two thin factors beside each chosen weight and nothing else",
         "N x 4 x r (h + h) trained parameters for q, k, v and o",
         "N=model.layers h=model.hidden job.lora_rank job.lora_targets", "parameters", "[lora]",
         [](V v) { return v.layers * 4 * v.lora_rank * 2 * v.hidden; }},
    Fact{"M16", "quantised weights take 8 bits (int8) or 4 (nf4), and their scales; two_factor "
                "splits a weight into two that cluster well",
         "Psi x 4 bits / 8 before scales", "Psi=model.parameters job.quantization memory.weights",
         "B", "[qlora], arXiv 2404.09737", [](V v) { return v.parameters / 2; }},
};

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) {
    return std::toupper(x) == std::toupper(y);
  });
}

}  // namespace

std::span<const Fact> facts() { return kFacts; }

const Fact* find_fact(std::string_view name) {
  const auto it = std::ranges::find_if(
      kFacts, [&](const Fact& fact) { return same_name(fact.name, name); });
  return it == kFacts.end() ? nullptr : &*it;
}

FactValues fact_values(const planner::Plan& plan, double servers) {
  FactValues v;
  v.parameters = static_cast<double>(plan.parameters);
  v.gpus = static_cast<double>(plan.gpus);
  v.servers = servers;
  v.layers = static_cast<double>(plan.model.layers);
  v.hidden = static_cast<double>(plan.model.hidden);
  v.seq_len = static_cast<double>(plan.job.seq_len);
  if (plan.job.lora_rank > 0) v.lora_rank = static_cast<double>(plan.job.lora_rank);
  if (const hw_profiles::Sourced* link = plan.profile.lookup("node.link_bandwidth"))
    if (const auto rate = core::parse_bandwidth(link->text, link->field); rate.ok())
      v.link = rate->value();
  if (!plan.chosen) return v;
  const planner::Candidate& c = *plan.chosen;
  v.micro_batch = static_cast<double>(c.strategy.micro_batch);
  v.live = static_cast<double>(c.memory.worst.live.value());
  v.reserved = static_cast<double>(c.memory.worst.reserved.value());
  v.step = c.time.step.value();
  v.exposed = c.time.exposed_communication.value();
  v.communication = c.time.communication.value();
  return v;
}

std::string facts_text(TextStyle style) {
  std::string text;
  for (const Fact& f : kFacts) {
    text += painted(fmt::format("{:<5}", f.name), Ink::heading, style);
    text += wrapped(f.claim, 5, 5, style).substr(5);
    text += wrapped(f.formula, 5, 5, style);
  }
  return text;
}

}  // namespace reports
