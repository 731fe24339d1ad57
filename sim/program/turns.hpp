#pragma once
// Servers that answer their workers one by one (server_mode=async). A Program names whose push each
// turn of a server is for, workers ascending within a span: an order that equal workers keep, and
// that those who play a step follow. Those who execute it take the pushes as they come.
//
// Transfer::tag of the four actions: 0 where a server waits for all of its workers, 1 of a worker
// that waits for nobody, 1 + w of a server's turn for worker w. A server on a worker's rank takes
// its turns on a stream of their own, beside the worker's step, and updates a copy of its part of
// the weights: its worker computes with what it last pulled. Pure; thread-safe.

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

// Whether all ranks begin each step at one time.
inline bool steps_together(const Program& p) {
  return !takes_turns(p) && p.classes.front().schedule.flushes;
}

// Serves while its worker computes: a rank of both, whose server takes turns.
inline bool serves_beside(const RankClass& k) {
  return k.is_worker && k.server_weights_buffer != kNone;
}

// What both sides of a push or a reply name it by: 1 + the worker's index, 0 where it is
// everybody's. rank: who issues the action, of that kind.
inline int turn_of_worker(const Program& p, int rank) { return 1 + p.mesh.coordinates(rank).data; }
inline int turn_of(const Program& p, const Transfer& t, ActionKind kind, int rank) {
  if (!takes_turns(t)) return 0;
  const bool serves = kind == ActionKind::serve_push || kind == ActionKind::serve_pull;
  return serves ? t.tag : turn_of_worker(p, rank);
}
// Whether a server's turn is that of the worker on its own rank: nothing goes over a link.
inline bool is_own_turn(const Program& p, const Transfer& t, int rank) {
  return takes_turns(t) && !p.mesh.is_server(rank) && t.tag == turn_of_worker(p, rank);
}

}  // namespace program
