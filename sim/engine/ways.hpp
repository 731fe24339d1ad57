#pragma once
// Ways: which links the messages of a plan cross, and how much of each. Without a symmetry, every
// message has its own way. With one, a message stands for all that are alike, and a link for all of
// its class; the weight of a hop is the load that those messages together put on one such link.
//
// Where routes depend on hashes, the links of a class carry different loads. Ranks are then folded
// as if routes were spread evenly, and the weight is the load of the busiest link of the class,
// since whoever waits for all of the alike messages waits for the one on that link. This is exact
// where alike messages begin together and are waited for together; elsewhere it is an upper bound.
//
// Pure; thread-safe.

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/message_plan.hpp"
#include "sim/engine/network.hpp"
#include "sim/engine/symmetry.hpp"
#include "sim/engine/topology.hpp"

namespace engine {

struct Way {
  std::vector<Network::Hop> hops;      // links of the network, ascending
  std::int64_t latency = 0;
};

// A group of ranks as one plan sees it, folded.
struct FoldedGroup {
  std::vector<int> kinds;              // by rank of the group: member of the folded plan
  std::vector<int> members;            // of the folded plan: the first rank of each fold
  std::vector<std::int64_t> message_kinds;  // by message of the plan (not of a ring)
  std::vector<std::uint32_t> first;    // by message of the folded plan: one that it stands for
  MessagePlan plan;                    // folded
};
FoldedGroup fold_group(const MessagePlan& plan, std::span<const int> ranks,
                       const Topology& topology, const Symmetry* symmetry);

// By message of the folded plan. alike: every group that this one stands for, itself first (one
// alone does where routes do not depend on hashes).
std::vector<Way> ways_of(const MessagePlan& plan, const FoldedGroup& folded,
                         std::span<const std::vector<int>> alike, const Topology& topology,
                         const Symmetry* symmetry);

// The same with `part` of the bytes over links between nodes.
std::vector<Way> thinned(std::vector<Way> ways, double part, const Topology& topology,
                         const Symmetry* symmetry);

}  // namespace engine
