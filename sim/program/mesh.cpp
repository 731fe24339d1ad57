#include "sim/program/mesh.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace program {
namespace {

int degree(const Mesh& m, Axis axis) {
  switch (axis) {
    case Axis::tensor: return m.tensor;
    case Axis::data: return m.data;
    case Axis::pipeline: return m.pipeline;
  }
  return 1;
}

int& coordinate(Coordinates& c, Axis axis) {
  if (axis == Axis::tensor) return c.tensor;
  return axis == Axis::data ? c.data : c.pipeline;
}

}  // namespace

int Mesh::stride(Axis wanted) const {
  int stride = 1;
  for (Axis axis : order) {
    if (axis == wanted) break;
    stride *= degree(*this, axis);
  }
  return stride;
}

Coordinates Mesh::coordinates(int rank) const {
  PLANNER_CHECK(rank >= 0 && rank < workers());
  Coordinates c;
  for (Axis axis : order) {
    coordinate(c, axis) = rank % degree(*this, axis);
    rank /= degree(*this, axis);
  }
  return c;
}

int Mesh::rank(Coordinates c) const {
  return c.tensor * stride(Axis::tensor) + c.data * stride(Axis::data) +
         c.pipeline * stride(Axis::pipeline);
}

int Mesh::group_size(Group group) const {
  switch (group) {
    case Group::tensor: return tensor;
    case Group::data: return data;
    case Group::shard: return shard_group;
    case Group::replica: return data / shard_group;
    case Group::embedding: return pipeline > 1 ? 2 : 1;
    case Group::next:
    case Group::previous: return 2;
    case Group::context: return context;
    case Group::expert: return expert;
    case Group::expert_data: return data / expert_data_ranks();
    case Group::expert_shard: return std::max(1, shard_group / expert_data_ranks());
    case Group::pipeline: return pipeline;
  }
  return 1;
}

int Mesh::in_node(Group group, int ranks_per_node) const {
  const auto count = [&](int distance) {
    return std::min(group_size(group), (ranks_per_node + distance - 1) / distance);
  };
  const int data_stride = stride(Axis::data);
  switch (group) {
    case Group::tensor: return count(stride(Axis::tensor));
    case Group::data:
    case Group::shard:
    case Group::context: return count(data_stride);
    case Group::expert: return count(expert_over_tensor ? stride(Axis::tensor) : data_stride);
    case Group::replica: return count(data_stride * shard_group);
    case Group::expert_data: return count(data_stride * expert_data_ranks());
    case Group::expert_shard:
      return count(data_stride * std::min(expert_data_ranks(), shard_group));
    case Group::embedding: return count(stride(Axis::pipeline) * std::max(1, pipeline - 1));
    case Group::next:
    case Group::previous:
    case Group::pipeline: return count(stride(Axis::pipeline));
  }
  return 1;
}

std::vector<int> Mesh::members(Group group, int rank_id) const {
  Coordinates c = coordinates(rank_id);
  const Coordinates self = c;
  std::vector<int> ranks;
  const auto add = [&] { ranks.push_back(rank(c)); };
  const auto add_tensor = [&] {
    for (c.tensor = 0; c.tensor < tensor; ++c.tensor) add();
  };
  const auto add_neighbours = [&](int size, bool with_tensor = false) {
    for (int i = 0; i < size; ++i) {
      c.data = self.data / size * size + i;
      if (with_tensor) add_tensor();
      else add();
    }
  };
  const int ways = expert_data_ranks();
  switch (group) {
    case Group::tensor: add_tensor(); break;
    case Group::data:
      for (c.data = 0; c.data < data; ++c.data) add();
      break;
    case Group::shard: add_neighbours(shard_group); break;
    case Group::context: add_neighbours(context); break;
    case Group::expert: add_neighbours(ways, expert_over_tensor); break;
    case Group::expert_data:
      for (c.data = self.data % ways; c.data < data; c.data += ways) add();
      break;
    case Group::expert_shard: {
      const int each = std::min(ways, shard_group), block = self.data / shard_group * shard_group;
      for (c.data = block + self.data % each; c.data < block + shard_group; c.data += each) add();
      break;
    }
    case Group::replica:
      for (c.data = self.data % shard_group; c.data < data; c.data += shard_group) add();
      break;
    case Group::embedding:
      c.pipeline = 0;
      add();
      if (pipeline > 1) c.pipeline = pipeline - 1, add();
      break;
    case Group::pipeline:
      for (c.pipeline = 0; c.pipeline < pipeline; ++c.pipeline) add();
      break;
    case Group::next:
      PLANNER_CHECK(pipeline > 1);
      add();
      c.pipeline = (self.pipeline + 1) % pipeline;
      add();
      break;
    case Group::previous:
      PLANNER_CHECK(pipeline > 1);
      add();
      c.pipeline = (self.pipeline + pipeline - 1) % pipeline;
      add();
      break;
  }
  return ranks;
}

int Mesh::index(Group group, int rank_id) const {
  const Coordinates c = coordinates(rank_id);
  switch (group) {
    case Group::tensor: return c.tensor;
    case Group::data: return c.data;
    case Group::shard: return c.data % shard_group;
    case Group::replica: return c.data / shard_group;
    case Group::embedding: return c.pipeline == 0 ? 0 : 1;
    case Group::next:
    case Group::previous: return 0;
    case Group::context: return c.data % context;
    case Group::expert:
      return expert_over_tensor ? c.tensor + tensor * (c.data % expert_data_ranks())
                                : c.data % expert;
    case Group::expert_data: return c.data / expert_data_ranks();
    case Group::expert_shard:
      return c.data % shard_group / std::min(expert_data_ranks(), shard_group);
    case Group::pipeline: return c.pipeline;
  }
  return 0;
}

}  // namespace program
