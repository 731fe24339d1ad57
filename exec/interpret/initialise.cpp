#include "exec/interpret/initialise.hpp"

#include "core/check.hpp"
#include "core/random.hpp"

namespace exec {

std::uint64_t stream_of(std::string_view path) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

namespace {

// Walks a shard as [outer][axis][inner] and finds each element's index in the full tensor.
class ShardMap {
 public:
  ShardMap(const models::Parameter& p, int tensor_rank) {
    const auto axis = static_cast<std::size_t>(p.split_axis < 0 ? 0 : p.split_axis);
    for (std::size_t i = 0; i < p.shape.size(); ++i)
      (i < axis ? outer_ : i == axis ? axis_ : inner_) *= p.shape[i];
    full_axis_ = p.full_shape[axis];
    if (p.split_axis < 0) return;
    groups_ = p.split_groups;
    rank_ = tensor_rank;
  }

  // visit(local index, full index or -1 for padding).
  template <class Visit>
  void for_each(Visit&& visit) const {
    const std::int64_t per_group = axis_ / groups_, full_group = full_axis_ / groups_;
    std::int64_t local = 0;
    for (std::int64_t o = 0; o < outer_; ++o)
      for (std::int64_t a = 0; a < axis_; ++a) {
        const std::int64_t in_group = rank_ * per_group + a % per_group;
        const std::int64_t full = a / per_group * full_group + in_group;
        const bool padding = in_group >= full_group;
        for (std::int64_t i = 0; i < inner_; ++i, ++local)
          visit(local, padding ? -1 : (o * full_axis_ + full) * inner_ + i);
      }
  }

 private:
  std::int64_t outer_ = 1, axis_ = 1, inner_ = 1, full_axis_ = 1, groups_ = 1, rank_ = 0;
};

}  // namespace

std::vector<double> initial_values(const program::PlacedParameter& placed, std::uint64_t seed,
                                   int tensor_rank, bool double_precision) {
  const models::Parameter& p = placed.parameter;
  std::vector<double> values(static_cast<std::size_t>(p.elements), 0.0);
  if (p.init == models::Init::zero) return values;
  const core::Random random(seed, stream_of(placed.path));
  ShardMap(p, tensor_rank).for_each([&](std::int64_t local, std::int64_t full) {
    if (full < 0) return;
    double x = 1.0;
    if (p.init == models::Init::normal)
      x = p.init_stddev * random.normal(static_cast<std::uint64_t>(full));
    values[static_cast<std::size_t>(local)] = double_precision ? x : static_cast<float>(x);
  });
  return values;
}

}  // namespace exec
