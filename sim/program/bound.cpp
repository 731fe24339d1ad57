#include "sim/program/bound.hpp"

#include "sim/program/footprint.hpp"
#include "sim/program/replay.hpp"

namespace program {

core::Bytes closed_form_live(const RankClass& k) {
  const auto routines = routine_footprints<LiveFootprint>(k);
  return sum(persistent_terms(k)) + core::Bytes(over_schedule(routines, k.schedule).peak);
}

}  // namespace program
