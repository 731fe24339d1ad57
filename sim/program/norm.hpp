#pragma once
// Which gradients a rank counts in the norm of all: each one is counted once, although several
// ranks may hold it. Pure; thread-safe.

#include "sim/program/program.hpp"

namespace program {

// Whether `rank`, of class `k`, counts the gradients that it has of a trained parameter. Of those
// that tensor ranks hold alike the first one does; of a table that both ends of a pipeline hold the
// first stage; where the class adds up the squares of all data ranks, and these hold gradients
// alike, the first of them. REQUIRES: the rank is a worker.
bool counts_in_norm(const Program& program, const RankClass& k, int rank,
                    const PlacedParameter& parameter);

}  // namespace program
