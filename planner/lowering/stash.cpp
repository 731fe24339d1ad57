// offload=activations: what a layer keeps for its backward pass (under every_k: the input of each
// k-th layer) is copied to the host behind its forward pass and comes back before its backward
// pass.
//
// Out on the gradient stream, which forward passes do not use, in on the parameter stream, among
// the gathers of ZeRO-3, which are as far ahead; both links of a rank to its host are full duplex.
// A layer's tensors leave the device when the next layer has computed, and are requested when the
// layer behind it begins its backward pass: two layers' are there at a time, one that computes and
// one on its way. Without a pipeline the last layer's (last segment's input) stay, for their
// backward pass comes next. The copies on the host have an instance of each layer and micro-batch
// in flight; they are persistent there.
#include <algorithm>

#include "planner/lowering/stage_lowering.hpp"

namespace planner::lowering {

bool StageLowering::stays(int l) const {
  if (stage_.mesh.pipeline > 1) return false;
  const Strategy& s = *stage_.strategy;
  const std::int64_t every = s.checkpoint == Checkpoint::every_k ? s.checkpoint_every : 1;
  return l >= (stage_.layers - 1) / every * every;
}

bool StageLowering::stashes(int l) const {
  if (!stage_.offloads_activations() || stays(l)) return false;
  if (stage_.strategy->checkpoint != Checkpoint::every_k) return true;
  return (l - stage_.chunk_of(l).begin) % stage_.strategy->checkpoint_every == 0;
}

void StageLowering::declare_stash() {
  if (!stage_.offloads_activations()) return;
  const auto add = [&](std::uint16_t device) {
    program::Buffer b = class_.buffers[device];
    b.name = "offload." + b.name;
    b.persistent = b.host = true;
    b.extent = stage_.layers;
    const std::int64_t elements = b.elements.front();
    b.elements.clear();
    for (int l = 0; l < stage_.layers; ++l) b.elements.push_back(stashes(l) ? elements : 0);
    stash_.push_back({device, builder_.buffer(std::move(b))});
  };
  add(x_);
  if (stage_.strategy->checkpoint != Checkpoint::every_k && stage_.layers > 0)
    for (const std::uint16_t device : templates_.front()->kept_buffers()) add(device);
  const int slots = class_.buffers[x_].slots;
  stashed_ = builder_.event("stashed", stage_.layers, slots);
  fetched_ = builder_.event("fetched", stage_.layers, slots);
  may_stash_ = builder_.event("may_stash", 1);
  may_fetch_ = builder_.event("may_fetch", 1);
}

View StageLowering::stashed_view(const Stashed& s, int c) const {
  return layer_view(s.device, s.device == x_ ? c : 0);
}

std::uint16_t StageLowering::stash_block(int c) {
  const auto [at, fresh] = blocks_.try_emplace("stash " + std::to_string(c), program::kNone);
  if (!fresh) return at->second;
  const program::EventRef may = single_event(may_stash_), done = layer_event(stashed_);
  builder_.begin("stash");
  builder_.fence(Stream::compute, {}, &may);
  for (const Stashed& s : stash_)
    copy(overlaps() ? Stream::gradient : Stream::compute, stashed_view(s, c), layer_view(s.host),
         {{may, false}}, &s == &stash_.back() ? &done : nullptr);
  return at->second = builder_.end();
}

std::uint16_t StageLowering::drop_block(int c) {
  const auto [at, fresh] = blocks_.try_emplace("drop " + std::to_string(c), program::kNone);
  if (!fresh) return at->second;
  builder_.begin("drop");
  builder_.fence(Stream::compute, {{layer_event(stashed_), false}}, nullptr);
  for (const Stashed& s : stash_) builder_.free(stashed_view(s, c));
  return at->second = builder_.end();
}

std::uint16_t StageLowering::fetch_block(int c) {
  const auto [at, fresh] = blocks_.try_emplace("fetch " + std::to_string(c), program::kNone);
  if (!fresh) return at->second;
  const program::EventRef may = single_event(may_fetch_), done = layer_event(fetched_);
  builder_.begin("fetch");
  for (const Stashed& s : stash_) builder_.alloc(stashed_view(s, c));
  builder_.fence(Stream::compute, {}, &may);
  for (const Stashed& s : stash_)
    copy(gather_stream(), layer_view(s.host), stashed_view(s, c), {{may, false}},
         &s == &stash_.back() ? &done : nullptr);
  return at->second = builder_.end();
}

std::uint16_t StageLowering::await_fetched_block() {
  const auto [at, fresh] = blocks_.try_emplace("await fetched", program::kNone);
  if (!fresh) return at->second;
  builder_.begin("await_fetched");
  builder_.fence(Stream::compute, {{layer_event(fetched_), false}}, nullptr);
  return at->second = builder_.end();
}

// uses[first_layer + i]: the forward pass of the chunk's layer i.
void StageLowering::stash_after(std::vector<Use>& uses, const Chunk& own,
                                std::size_t first_layer) {
  const int c = static_cast<int>(&own - stage_.chunks.data());
  int leaving = -1;
  for (int l = own.begin; l < own.end; ++l) {
    Use& use = uses[first_layer + static_cast<std::size_t>(l - own.begin)];
    const bool leaves = stashes(l);
    if (leaves) call(use.after, stash_block(c), l);
    if (leaving >= 0) call(use.after, drop_block(c), leaving);
    leaving = leaves ? l : -1;
  }
  if (leaving >= 0) call(uses.back().after, drop_block(c), leaving);
}

// The first call from `first_layer` on that reads what a layer stashed waits for it, and requests
// the next one's.
void StageLowering::fetch_before(std::vector<Use>& uses, std::size_t first_layer) {
  std::vector<std::size_t> readers;    // in order
  std::vector<bool> met(static_cast<std::size_t>(stage_.layers), false);
  for (std::size_t i = first_layer; i < uses.size(); ++i) {
    const std::size_t l = uses[i].call.layer;
    if (met[l] || !stashes(static_cast<int>(l))) continue;
    met[l] = true;
    readers.push_back(i);
  }
  const auto layer = [&](std::size_t j) { return static_cast<int>(uses[readers[j]].call.layer); };
  const auto request = [&](std::size_t at, std::size_t j) {
    const Chunk& own = stage_.chunk_of(layer(j));
    call(uses[at].before, fetch_block(static_cast<int>(&own - stage_.chunks.data())), layer(j));
  };
  for (std::size_t j = 0; j < readers.size(); ++j) {
    if (j == 0) request(first_layer, j);
    if (j + 1 < readers.size()) request(readers[j], j + 1);
    call(uses[readers[j]].before, await_fetched_block(), layer(j));
  }
}

}  // namespace planner::lowering
