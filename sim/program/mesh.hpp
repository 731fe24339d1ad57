#pragma once
// The mesh of ranks: degrees, rank numbering by strides, and the groups that collectives run in.
// Groups and peers are stride arithmetic; nothing is stored per rank. Pure values, thread-safe.
//
// Workers are numbered by coordinates, the first degree of `order` fastest. Servers standing apart
// from the workers come after them (data-parallel jobs alone). A data group of D ranks divides into
// D / shard_group replicas of shard_group neighbouring ranks (HSDP); index in data = shard index +
// shard_group x replica index.

#include <array>
#include <cstdint>
#include <vector>

namespace program {

enum class Axis : std::uint8_t { tensor, data, pipeline };

enum class Group : std::uint8_t {
  tensor,     // same data and pipeline coordinate
  data,       // same tensor and pipeline coordinate
  shard,      // the shard_group neighbours within data
  replica,    // the ranks of data with the same shard index
  embedding,  // first and last stage of one data and tensor coordinate (tied embeddings)
  next,       // this rank and the same place in the next stage, round to the first (index 0 sends)
  previous,   // this rank and the same place in the previous stage (index 0 sends)
  context,    // neighbours within data that share samples, each with a part of the sequence
  // Ranks that hold different experts and exchange their rows: neighbours within data, or all
  // tensor ranks of such neighbours (Mesh::expert_over_tensor). Of an operator graph, neighbours
  // that divide its operators (models/splits.hpp).
  expert,
  expert_data,   // the ranks of data that hold the same experts
  expert_shard,  // those of them in one shard group
  pipeline,   // same data and tensor coordinate
};
inline constexpr std::size_t kGroups = 12;

class GroupSet {
 public:
  void add(Group group) { bits_ |= 1u << static_cast<unsigned>(group); }
  bool has(Group group) const { return (bits_ >> static_cast<unsigned>(group) & 1u) != 0; }

 private:
  std::uint32_t bits_ = 0;
};

struct Coordinates { int tensor = 0, data = 0, pipeline = 0; };

struct Mesh {
  int tensor = 1, data = 1, pipeline = 1, shard_group = 1;
  int context = 1;                     // of `data`, which counts data x context
  int expert = 1;                      // ranks that divide the experts of a layer, or operators
  // Whether tensor ranks are among these. Else they are of `data` alone, and each expert is
  // divided over the tensor ranks. REQUIRES then: tensor divides expert, and the mesh's order is
  // tensor, data, pipeline.
  bool expert_over_tensor = false;
  int separate_servers = 0;
  std::array<Axis, 3> order{Axis::tensor, Axis::data, Axis::pipeline};

  int workers() const { return tensor * data * pipeline; }
  int ranks() const { return workers() + separate_servers; }
  bool is_server(int rank) const { return rank >= workers(); }
  // Neighbouring data ranks that an expert group lies on; divides shard_group where that is not 1.
  int expert_data_ranks() const { return expert_over_tensor ? expert / tensor : expert; }

  int stride(Axis axis) const;
  // REQUIRES: rank is a worker.
  Coordinates coordinates(int rank) const;
  int rank(Coordinates c) const;
  int group_size(Group group) const;
  // Ranks of the first rank's group that lie in its node, of nodes that hold so many ranks in turn.
  int in_node(Group group, int ranks_per_node) const;
  // Ranks of the group that `rank` belongs to, ascending by index in the group. For next and
  // previous: {sender, receiver} of the message that `rank` sends that way.
  std::vector<int> members(Group group, int rank) const;
  // Index of `rank` in its group.
  int index(Group group, int rank) const;
};

}  // namespace program
