#pragma once
// Internal: what a machine is asked again with where memory is short (docs/decisions/0010): samples
// divided further, the loss in chunks, then what its hosts can hold. Memory is short where nothing
// is safe, or where what is safe is clearly slower than something that needs more memory. Pins
// restrict what they name, and nothing else. Not thread-safe.

#include "planner/plan/plan.hpp"
#include "planner/search/explorer.hpp"
#include "planner/search/search.hpp"

namespace planner {

class ShortOfMemory {
 public:
  // options: those that the space was explored with. All outlive it.
  ShortOfMemory(Explorer& explorer, const Request& request, const SpaceOptions& options);

  // Where the closed form says that memory is short.
  void explore();
  // Where the plan's strategies, which were replayed, show it and the closed form did not: then
  // nothing is left of the choice, and it is to be made again. Returns whether.
  bool explore_after(Plan& plan);

 private:
  Explorer& explorer_;
  const Request& request_;
  const SpaceOptions& options_;
  double of_samples_, of_hosts_;       // how much slower than others what is safe may be
  bool explored_ = false;
};

}  // namespace planner
