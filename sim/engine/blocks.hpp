#pragma once
// Blocks: a scene cut into sets of actors that threads play side by side. Actors that meet often
// share a block. A channel whose parties are in several blocks is a border; it knows the shortest
// time that a meeting there takes. A block that waits at a border can therefore go on for that
// time beyond the moment that all others are known to have reached.
//
// Borders are collectives that take time. Messages are short, and their receivers wait for them
// long before: cut there, blocks could go on for the time of one message only. So a pipeline is
// never cut, and neither are workers from their servers.
// The cut depends on the scene alone. What an evaluator finds does not depend on the cut.
//
// O(actors x points x log). Keeps no reference to the scene. Immutable after building; thread-safe.

#include <cstdint>
#include <vector>

#include "sim/engine/scene.hpp"

namespace engine {

// A channel, as the actors of one block see it.
struct Place {
  ChannelKind kind{};
  std::uint32_t parties = 0;           // of this block; posts alone where it is buffered
  std::uint32_t border = kAbsent;      // where other blocks have parties too
};

struct Border {
  std::uint32_t blocks = 0;            // that have parties
  std::int64_t shortest = 0;           // picoseconds that a meeting takes at least, > 0
};

struct Block {
  std::vector<std::uint32_t> actors;   // ascending
  std::vector<Place> places;
};

class Blocks {
 public:
  // One block.
  explicit Blocks(const Scene& scene) : Blocks(scene, kAbsent) {}
  // most_actors: of a block. Actors that must share a block do, however many they are.
  Blocks(const Scene& scene, std::uint32_t most_actors);

  const std::vector<Block>& all() const { return blocks_; }
  const std::vector<Border>& borders() const { return borders_; }
  // Of the actor's points, as Scene::seat; Seat::channel is an index into its block's places.
  const Seat* seats(const Actor& actor) const { return seats_.data() + actor.first_seat; }

 private:
  // border_of: by channel, kAbsent where one block has all parties.
  void place_actors(const Scene& scene, const std::vector<std::uint32_t>& block_of,
                    const std::vector<std::uint32_t>& border_of);

  std::vector<Block> blocks_;
  std::vector<Border> borders_;
  std::vector<Seat> seats_;
};

// The cut for playing so many steps of the scene: one block where that is too little work for
// several threads. most_actors: of a block; 0: as many as are fast.
Blocks blocks_for(const Scene& scene, int steps, std::uint32_t most_actors);

}  // namespace engine
