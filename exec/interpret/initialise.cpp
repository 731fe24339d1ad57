#include "exec/interpret/initialise.hpp"

#include <algorithm>
#include <span>

#include "core/check.hpp"
#include "core/parallel.hpp"
#include "core/random.hpp"

namespace exec {

std::uint64_t stream_of(std::string_view path) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

namespace {

// Walks a shard as [outer][axis][inner] and finds each element's index in the full tensor. The axis
// consists of blocks, each divided over the ranks by itself.
class ShardMap {
 public:
  ShardMap(const models::Parameter& p, int tensor_rank, int expert_rank) {
    // Ranks that divide operators take neighbouring places of one axis. Experts lie on the first
    // axis, which tensor ranks leave whole.
    const bool by_ways = p.expert_ways > 1 && (p.ways_axis > 0 || p.shape.size() == 1);
    const int first = p.expert_ways > 1 ? (by_ways ? p.ways_axis : 1) : 0;
    const auto axis = static_cast<std::size_t>(p.split_axis < 0 ? first : p.split_axis);
    for (std::size_t i = 0; i < p.shape.size(); ++i)
      (i < axis ? outer_ : i == axis ? axis_ : inner_) *= p.shape[i];
    full_axis_ = p.full_shape[axis];
    const bool whole = p.split_axis < 0;
    rank_ = by_ways ? expert_rank : whole ? 0 : tensor_rank;
    PLANNER_CHECK(p.expert_ways == 1 || by_ways || axis > 0,
                  "experts are divided by their first axis");
    PLANNER_CHECK(!by_ways || whole, "tensor ranks divide no operator that others divide");
    if (p.expert_ways > 1 && !by_ways) first_outer_ = expert_rank * outer_;
    if (!whole && !p.split_blocks.empty()) {
      for (const std::int64_t full : p.split_blocks)
        blocks_.push_back({full * axis_ / full_axis_, full});
    } else {
      const std::int64_t groups = whole ? 1 : p.split_groups;
      blocks_.assign(static_cast<std::size_t>(groups), {axis_ / groups, full_axis_ / groups});
    }
  }

  // visit(local index, full index, count) of each row that lies in one piece in both. What is
  // padding here alone is left out.
  template <class Visit>
  void for_each_row(Visit&& visit) const {
    std::int64_t local = 0;
    for (std::int64_t o = 0; o < outer_; ++o) {
      std::int64_t begin = (first_outer_ + o) * full_axis_;
      for (const Block& block : blocks_) {
        const std::int64_t first = rank_ * block.own;
        const std::int64_t held = std::clamp<std::int64_t>(block.full - first, 0, block.own);
        if (held > 0) visit(local, (begin + first) * inner_, held * inner_);
        local += block.own * inner_;
        begin += block.full;
      }
    }
  }

 private:
  struct Block { std::int64_t own, full; };  // places of the axis, on this rank and on all
  std::int64_t first_outer_ = 0, outer_ = 1, axis_ = 1, inner_ = 1, full_axis_ = 1, rank_ = 0;
  std::vector<Block> blocks_;
};

// Elements that lie in one piece in the shard and in the full tensor: places in both.
struct Row { std::int64_t local, full, count; };

// The rows of [first, first + count) of a shard, in parts of about kPart elements for a thread.
constexpr std::int64_t kPart = 1 << 17;
std::vector<std::vector<Row>> parts_of(const ShardMap& map, std::int64_t first,
                                       std::int64_t count) {
  std::vector<std::vector<Row>> parts;
  std::int64_t room = 0;
  map.for_each_row([&](std::int64_t local, std::int64_t full, std::int64_t length) {
    const std::int64_t end = std::min(local + length, first + count);
    for (std::int64_t at = std::max(local, first); at < end;) {
      if (room == 0) parts.emplace_back(), room = kPart;
      const std::int64_t taken = std::min(room, end - at);
      parts.back().push_back({at - first, full + at - local, taken});
      at += taken;
      room -= taken;
    }
  });
  return parts;
}

}  // namespace

void initial_values(const program::PlacedParameter& placed, std::uint64_t seed, int tensor_rank,
                    bool double_precision, int expert_rank, std::int64_t first,
                    std::span<double> out) {
  const models::Parameter& p = placed.parameter;
  std::ranges::fill(out, 0.0);
  if (p.init == models::Init::zero) return;
  const core::Random random(seed, stream_of(placed.path));
  const auto parts = parts_of(ShardMap(p, tensor_rank, expert_rank), first,
                              static_cast<std::int64_t>(out.size()));
  core::for_each_index(parts.size(), 0, [&](std::size_t part) {
    for (const Row& row : parts[part]) {
      const auto own = out.subspan(static_cast<std::size_t>(row.local),
                                   static_cast<std::size_t>(row.count));
      if (p.init == models::Init::normal)
        random.fill_normal(static_cast<std::uint64_t>(row.full), 0.0, p.init_stddev, own);
      else
        std::ranges::fill(own, 1.0);
      if (!double_precision)
        for (double& x : own) x = static_cast<float>(x);
    }
  });
}

std::vector<double> initial_values(const program::PlacedParameter& placed, std::uint64_t seed,
                                   int tensor_rank, bool double_precision, int expert_rank) {
  std::vector<double> values(static_cast<std::size_t>(placed.parameter.elements));
  initial_values(placed, seed, tensor_rank, double_precision, expert_rank, 0, values);
  return values;
}

}  // namespace exec
