#pragma once
// Internal: what a machine is asked again with where memory is short (docs/decisions/0010): samples
// divided further, the loss in chunks, then what its hosts can hold. Memory is short where nothing
// is safe, or where what is safe is clearly slower than something that needs more memory. Pins
// restrict what they name, and nothing else. Not thread-safe.

#include <span>

#include "planner/search/explorer.hpp"
#include "planner/search/search.hpp"

namespace planner {

class ShortOfMemory {
 public:
  // options: those that the space was explored with. All outlive it.
  ShortOfMemory(Explorer& explorer, const Request& request, const SpaceOptions& options);

  // Where the closed form says that memory is short.
  void explore();
  // Where the finalists, which were replayed, show it and the closed form did not. Returns whether
  // there are strategies now that were not considered: finalists are to be found again then.
  bool explore_after(std::span<const Candidate> finalists);

 private:
  Explorer& explorer_;
  const Request& request_;
  const SpaceOptions& options_;
  double of_samples_, of_hosts_;       // how much slower than others what is safe may be
  bool explored_ = false;
};

}  // namespace planner
