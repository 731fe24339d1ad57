#include "sim/program/program.hpp"

#include "core/check.hpp"

namespace program {

std::string_view name(Term term) {
  constexpr std::string_view kNames[] = {"weights",     "gradients", "optimizer",
                                         "activations", "logits",    "communication"};
  return kNames[static_cast<int>(term)];
}

std::string_view name(Stream stream) {
  constexpr std::string_view kNames[] = {"compute", "gradient", "parameter",
                                         "send",    "receive",  "server"};
  return kNames[static_cast<int>(stream)];
}

std::string_view name(ActionKind kind) {
  constexpr std::string_view kNames[] = {
      "alloc",      "free",      "load",       "forward",    "input_gradient", "weight_gradient",
      "zero",       "cast",      "accumulate", "optimizer",  "collective",     "send",
      "receive",    "push",      "serve_push", "serve_pull", "pull"};
  return kNames[static_cast<int>(kind)];
}

int Program::class_of(int rank) const {
  const bool apart = mesh.is_server(rank);
  const Coordinates c = apart ? Coordinates{} : mesh.coordinates(rank);
  const bool serves = apart || (servers > 0 && servers_colocated && c.data < servers);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const RankClass& k = classes[i];
    if (k.is_worker == apart || k.is_server != serves) continue;
    if (apart || k.stage == c.pipeline) return static_cast<int>(i);
  }
  PLANNER_CHECK(false, "a rank has no class");
  return -1;
}

std::vector<int> Program::ranks_of(int class_index) const {
  std::vector<int> ranks;
  for (int r = 0; r < mesh.ranks(); ++r)
    if (class_of(r) == class_index) ranks.push_back(r);
  return ranks;
}

}  // namespace program
