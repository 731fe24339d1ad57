#pragma once
// Two steps of a program with its transfers as messages over a topology, of every rank, or of those
// that a symmetry tells apart.

#include "sim/engine/engine.hpp"
#include "sim/engine/symmetry.hpp"

namespace engine_test {

inline engine::Outcome flows_over(const program::Program& p, const cost::Machine& machine,
                                  const engine::Topology& topology,
                                  const engine::Symmetry* symmetry,
                                  const engine::Writes* writes = nullptr) {
  const engine::Scene scene(p, machine,
                            {.unfold = symmetry == nullptr,
                             .fold = symmetry == nullptr ? nullptr : &symmetry->fold()});
  engine::FlowOptions flows{.topology = &topology, .symmetry = symmetry, .writes = writes};
  return engine::run(scene, {.steps = 2, .flows = std::move(flows), .machine = &machine});
}

}  // namespace engine_test
