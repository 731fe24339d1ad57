#include "planner/evaluate/regime.hpp"

#include <array>

#include "planner/lowering/lower.hpp"

namespace planner {
namespace {

constexpr double kWaits = 0.2, kStandsStill = 0.1;

struct Named { std::string_view name, words; };
constexpr std::array<Named, kRegimes> kNamed{{
    {"tensor_over_nodes", "runs whose tensor ranks lie in several nodes"},
    {"launches", "runs whose host launches kernels more slowly than the device computes"},
    {"communication", "runs that wait for communication for a fifth of a step or more"},
    {"pipeline", "runs whose pipeline stands still for a tenth of a step or more"},
    {"computing", "runs that mostly compute"},
}};

}  // namespace

std::string_view name(Regime r) { return kNamed[static_cast<std::size_t>(r)].name; }
std::string_view words(Regime r) { return kNamed[static_cast<std::size_t>(r)].words; }

std::string_view name(MemoryRegime r) {
  constexpr std::array<std::string_view, kMemoryRegimes> names{"tensor_over_nodes", "pipeline",
                                                               "one_stage"};
  return names[static_cast<std::size_t>(r)];
}

static bool spreads_tensor(const program::Mesh& mesh, int gpus_per_node) {
  return mesh.tensor > 1 &&
         mesh.in_node(program::Group::tensor, gpus_per_node) < mesh.tensor;
}

MemoryRegime memory_regime_of(const program::Mesh& mesh, int gpus_per_node) {
  if (spreads_tensor(mesh, gpus_per_node)) return MemoryRegime::tensor_over_nodes;
  return mesh.pipeline > 1 ? MemoryRegime::pipeline : MemoryRegime::one_stage;
}

MemoryRegime memory_regime_of(const Strategy& s, int gpus_per_node) {
  if (s.tensor > 1) return memory_regime_of(mesh_of(s), gpus_per_node);
  return s.pipeline > 1 ? MemoryRegime::pipeline : MemoryRegime::one_stage;
}

Regime regime_of(const program::Mesh& mesh, int gpus_per_node, const Time& t) {
  if (spreads_tensor(mesh, gpus_per_node))
    return Regime::tensor_over_nodes;
  if (t.launch_bound) return Regime::launches;
  if (t.exposed_communication >= t.step * kWaits) return Regime::communication;
  if (t.bubble >= t.step * kStandsStill) return Regime::pipeline;
  return Regime::computing;
}

}  // namespace planner
