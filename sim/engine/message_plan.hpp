#pragma once
// How a collective moves its bytes: messages between the members of a group, and which follow
// which. What sim/cost sums up in one duration, played step by step. Pure; thread-safe.
//
//   ring all_reduce      2(K-1) steps of S/K per member; reduce_scatter, all_gather: K-1
//   tree all_reduce      up the binary heap tree, then down, S on every edge
//   ring send            S from each member to the next, at once
//   naive_all_reduce     S from everyone to everyone, at once
//   broadcast            S from member 0 to the others, at once
//   push, pull           1/M of the span from each worker to each of M servers, or back

#include <cstdint>
#include <vector>

#include "core/dtype.hpp"
#include "sim/program/collective.hpp"

namespace engine {

struct Message {
  int from = 0, to = 0;                // members by index
  double bytes = 0;
  int after = 0;                       // how many messages it follows
  std::vector<std::uint32_t> then{};   // messages that follow it
};

struct MessagePlan {
  std::vector<Message> messages;
};

// elements: unpadded, as in program::wire_bytes. REQUIRES: not parameter_server.
MessagePlan message_plan(program::Collective collective, program::Algorithm algorithm, int group,
                         std::int64_t elements, core::DType wire_type);

}  // namespace engine
