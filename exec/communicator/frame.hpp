#pragma once
// Frame: what a message between processes carries behind its payload, in one piece with it: which
// room it is for and the header. Processes of one build on machines of one kind read each other's
// frames; there is no other reader. Pure; thread-safe.

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "exec/communicator/transport.hpp"

namespace exec {

struct Frame {
  std::uint64_t room = 0;              // id of the group and channel
  std::int64_t lane_tag = 0;
  std::int64_t n = 0, label = 0, sequence = 0;  // as in Header
  std::int32_t sender = 0;             // index in the group
  Lane::Kind lane{};
  CallKind kind{};
  program::Algorithm algorithm{};
  program::ReduceOp op{};
  core::DType type{};
  program::Traffic what{};
  std::array<std::uint8_t, 6> unused{};  // no padding: every byte that travels has a value
};
static_assert(std::is_trivially_copyable_v<Frame>);
static_assert(std::has_unique_object_representations_v<Frame>);

Frame frame_of(std::uint64_t room, int sender, Lane lane, const Header& header);
Header header_of(const Frame& frame);
Lane lane_of(const Frame& frame);

// Whether a message ends with a frame whose every field has a value that a frame can have.
bool is_sound(const Message& message);

// Behind the payload. REQUIRES: size + sizeof(Frame) <= capacity.
void append(Message& message, const Frame& frame);
// Takes the frame off the end. REQUIRES: the message ends with one.
Frame strip(Message& message);

// The same on every member; rooms of other groups or channels have others, but for one chance in
// 2^64, which the caller checks.
// A rank's second place in the group is a room apart. REQUIRES: index is a place of the group.
std::uint64_t room_id(std::span<const int> group, int channel, int index);

}  // namespace exec
