// offload=activations: what a layer keeps for its backward pass (its input alone where it begins a
// segment that is computed again) is copied to the host behind its forward pass and comes back
// before its backward pass.
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

// Layers of a chunk that stash as much share a block.
static std::string stash_name(const char* what, int chunk, std::size_t buffers) {
  return std::string(what) + " " + std::to_string(buffers) + " of " + std::to_string(chunk);
}

bool StageLowering::stays(int l) const {
  if (stage_.mesh.pipeline > 1) return false;
  return l >= (stage_.layers - 1) / stage_.segment() * stage_.segment();
}

bool StageLowering::stashes(int l) const {
  if (!stage_.offloads_activations() || stays(l)) return false;
  return stage_.keeps(l) || (l - stage_.chunk_of(l).begin) % stage_.segment() == 0;
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
    for (int l = 0; l < stage_.layers; ++l) {
      const bool has = stashes(l) && (device == x_ || stage_.keeps(l));
      b.elements.push_back(has ? elements : 0);
    }
    stash_.push_back({device, builder_.buffer(std::move(b))});
  };
  add(x_);
  bool keeps = false;
  for (int l = 0; l < stage_.layers; ++l) keeps |= stage_.keeps(l);
  if (keeps)
    for (const std::uint16_t device : templates_.front()->kept_buffers()) add(device);
  const int slots = class_.buffers[x_].slots;
  stashed_ = builder_.event("stashed", stage_.layers, slots);
  fetched_ = builder_.event("fetched", stage_.layers, slots);
  may_stash_ = builder_.event("may_stash", 1);
  may_fetch_ = builder_.event("may_fetch", 1);
}

std::span<const StageLowering::Stashed> StageLowering::stash_of(int l) const {
  return std::span(stash_).first(stage_.keeps(l) ? stash_.size() : 1);
}

View StageLowering::stashed_view(const Stashed& s, int c) const {
  return layer_view(s.device, s.device == x_ ? c : 0);
}

std::uint16_t StageLowering::stash_block(int l) {
  const int c = chunk_index(l);
  const std::span<const Stashed> all = stash_of(l);
  const auto [at, fresh] = blocks_.try_emplace(stash_name("stash", c, all.size()), program::kNone);
  if (!fresh) return at->second;
  const program::EventRef may = single_event(may_stash_), done = layer_event(stashed_);
  builder_.begin("stash");
  builder_.fence(Stream::compute, {}, &may);
  for (const Stashed& s : all)
    copy(overlaps() ? Stream::gradient : Stream::compute, stashed_view(s, c), layer_view(s.host),
         {{may, false}}, &s == &all.back() ? &done : nullptr);
  return at->second = builder_.end();
}

std::uint16_t StageLowering::drop_block(int l) {
  const int c = chunk_index(l);
  const std::span<const Stashed> all = stash_of(l);
  const auto [at, fresh] = blocks_.try_emplace(stash_name("drop", c, all.size()), program::kNone);
  if (!fresh) return at->second;
  builder_.begin("drop");
  builder_.fence(Stream::compute, {{layer_event(stashed_), false}}, nullptr);
  for (const Stashed& s : all) builder_.free(stashed_view(s, c));
  return at->second = builder_.end();
}

std::uint16_t StageLowering::fetch_block(int l) {
  const int c = chunk_index(l);
  const std::span<const Stashed> all = stash_of(l);
  const auto [at, fresh] = blocks_.try_emplace(stash_name("fetch", c, all.size()), program::kNone);
  if (!fresh) return at->second;
  const program::EventRef may = single_event(may_fetch_), done = layer_event(fetched_);
  builder_.begin("fetch");
  for (const Stashed& s : all) builder_.alloc(stashed_view(s, c));
  builder_.fence(Stream::compute, {}, &may);
  for (const Stashed& s : all)
    copy(gather_stream(), layer_view(s.host), stashed_view(s, c), {{may, false}},
         &s == &all.back() ? &done : nullptr);
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
  int leaving = -1;
  for (int l = own.begin; l < own.end; ++l) {
    Use& use = uses[first_layer + static_cast<std::size_t>(l - own.begin)];
    const bool leaves = stashes(l);
    if (leaves) call(use.after, stash_block(l), l);
    if (leaving >= 0) call(use.after, drop_block(leaving), leaving);
    leaving = leaves ? l : -1;
  }
  if (leaving >= 0) call(uses.back().after, drop_block(leaving), leaving);
}

// The first of the layers' calls, uses[first_layer] to uses[end - 1], that reads what a layer
// stashed waits for it, and requests the next one's.
void StageLowering::fetch_before(std::vector<Use>& uses, std::size_t first_layer,
                                 std::size_t end) {
  std::vector<std::size_t> readers;    // in order
  std::vector<bool> met(static_cast<std::size_t>(stage_.layers), false);
  for (std::size_t i = first_layer; i < end; ++i) {
    const std::size_t l = uses[i].call.layer;
    if (met[l] || !stashes(static_cast<int>(l))) continue;
    met[l] = true;
    readers.push_back(i);
  }
  const auto layer = [&](std::size_t j) { return static_cast<int>(uses[readers[j]].call.layer); };
  const auto request = [&](std::size_t at, std::size_t j) {
    call(uses[at].before, fetch_block(layer(j)), layer(j));
  };
  for (std::size_t j = 0; j < readers.size(); ++j) {
    if (j == 0) request(first_layer, j);
    if (j + 1 < readers.size()) request(readers[j], j + 1);
    call(uses[readers[j]].before, await_fetched_block(), layer(j));
  }
}

}  // namespace planner::lowering
