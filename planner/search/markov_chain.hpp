#pragma once
// Markov chain: a walk over divisions of a graph's operators ([flexflow] sections 6.1 and 6.2). It
// begins with data parallelism. A proposal divides one operator along another factor, drawn at
// random; its whole step is lowered and simulated. A faster one is taken, a slower one with a
// probability that falls with what it costs (Metropolis). Operators without parameters follow what
// they read, as where nobody speaks of them (models/splits.hpp). The same seed makes the same walk.
// Pure; thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "planner/evaluate/evaluate.hpp"
#include "planner/search/search.hpp"

namespace planner {

struct Walk {
  Chain chain;                         // all but `exact`
  std::optional<Candidate> best;       // with memory as evaluate_fitting() has it; empty: none fits
};

// Divisions over `from.split` of its data ranks, all else as it is; given: annotations that stay.
// REQUIRES: an operator graph; from.split divides from.data and is at least 2.
Walk walk_divisions(const Question& question, const Strategy& from,
                    std::span<const std::string> given, std::uint64_t seed);

// Of the request's chain: walks from the chosen strategy's ranks and batch, and chooses what it met
// where that is faster. Nothing where there is no choice, or no rank to divide with.
void try_chain(const Question& question, const Request& request, Plan& plan);

// Why a request cannot have a chain; empty: it can, or asks for none.
core::Problems chain_problems(const Request& request);

}  // namespace planner
