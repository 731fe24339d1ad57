#pragma once
// How a collective moves its bytes: messages between the members of a group, and which follow
// which. What sim/cost sums up in one duration, played step by step. Pure; thread-safe.
//
//   ring all_reduce      2(K-1) rounds of S/K per member; reduce_scatter, all_gather: K-1
//   tree all_reduce      up the binary heap tree, then down, S on every edge
//   ring send            S from each member to the next, at once
//   naive_all_reduce     S from everyone to everyone, at once
//   broadcast            S from member 0 to the others, at once
//   push, pull           1/M of the span from each worker to each of M servers, or back
//
// A ring's plan has the messages of one round alone. A message of a later round follows those of
// the round before on its own edge and on the edge before.

#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "sim/program/collective.hpp"

namespace engine {

struct Message {
  int from = 0, to = 0;                // members by index
  double bytes = 0;
  int after = 0;                       // how many messages it follows
  std::vector<std::uint32_t> then{};   // messages that follow it
  // Folded: how many each rank that `from` stands for sends, and each that `to` does receives.
  int copies = 1, arrivals = 1;
};

struct MessagePlan {
  std::vector<Message> messages;       // of a ring: from member i to i + 1, round, in that order
  std::int64_t rounds = 1;
  bool ring = false;
};

// elements: unpadded, as in program::wire_bytes. REQUIRES: not parameter_server.
MessagePlan message_plan(program::Collective collective, program::Algorithm algorithm, int group,
                         std::int64_t elements, core::DType wire_type);

// By message: how many others come before it at least, one after another.
std::vector<int> levels(const MessagePlan& plan);

// The plan where alike members, and alike messages between them, stand for one another.
//   member_kind   by member: its kind, numbered from 0 in the order of first appearance
//   message_kind  by message: equal numbers are alike, in any numbering
// Of a ring the kinds of members must repeat in one order, each once; then message_kind is not
// looked at. first, where given: by message of the result, one of the plan's that it stands for.
MessagePlan fold_plan(const MessagePlan& plan, std::span<const int> member_kind,
                      std::span<const std::int64_t> message_kind,
                      std::vector<std::uint32_t>* first = nullptr);

}  // namespace engine
