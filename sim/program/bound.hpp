#pragma once
// Closed form of the live bytes of a step, for the search: never below replay().live.
//
//   bound = P + max over the instants of  begin F0 F^(n-1) (B0 F)(B F)^(m-n-1) B^(n-1) L end
//
// P persistent bytes; m micro-batches, n = in_flight() = min(warm_up + 1, m); each routine R enters
// by two numbers, its net change r and its peak excess r^ >= 0 over the level it starts from.
// Writing g, f, b for the nets of begin, forward and backward, the phases reach
//   warm-up    P + g + f0 + max(0, n-2) max(f, 0) + f^              (and g^, g + f0^)
//   steady     u = P + g + f0 + (n-1) f:  u + (B0 F)^, then
//              u + b0 + f + max(0, m-n-2) max(b + f, 0) + (B F)^
//   drain      the level after the steady phase + max(0, n-2) max(b, 0) + b^, then L, then end.
// Proof: within a phase the rounds start at an arithmetic progression of levels, so the greatest is
// the first or the last (footprint.hpp joins them); no instant lies outside a phase, so the maximum
// is attained, and the bound equals the replay. Derived here. Schedules of several chunks or split
// backward passes are joined pass by pass, their periods by the same argument.
//
// O(allocs and frees of the routines), independent of m. Pure; thread-safe.

#include "core/units.hpp"
#include "sim/program/program.hpp"

namespace program {

core::Bytes closed_form_live(const RankClass& rank_class);

}  // namespace program
