#pragma once
// Servers that answer their workers one by one (server_mode=async). A Program names whose push each
// turn of a server is for, workers ascending within a span: an order that equal workers keep, and
// that those who play a step follow. Those who execute it take the pushes as they come.
//
// Transfer::tag of the four actions: 0 where a server waits for all of its workers, 1 of a worker
// that waits for nobody, 1 + w of a server's turn for worker w. Pure; thread-safe.

#include <algorithm>

#include "sim/program/program.hpp"

namespace program {

inline bool takes_turns(const Transfer& t) {
  return t.collective == Collective::parameter_server && t.tag > 0;
}
inline bool takes_turns(const Program& p) {
  return std::ranges::any_of(p.classes, [](const RankClass& k) {
    return std::ranges::any_of(k.transfers, [](const Transfer& t) { return takes_turns(t); });
  });
}

// What both sides of a push or a reply name it by: 1 + the worker's index, 0 where it is
// everybody's. rank: who issues the action.
inline int turn_of_worker(const Program& p, int rank) { return 1 + p.mesh.coordinates(rank).data; }
inline int turn_of(const Program& p, const Transfer& t, int rank) {
  if (!takes_turns(t)) return 0;
  return p.mesh.is_server(rank) ? t.tag : turn_of_worker(p, rank);
}

}  // namespace program
