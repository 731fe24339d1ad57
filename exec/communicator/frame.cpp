#include "exec/communicator/frame.hpp"

#include <cstring>

#include "core/check.hpp"
#include "exec/communicator/world.hpp"

namespace exec {

Frame frame_of(std::uint64_t room, int sender, Lane lane, const Header& h) {
  Frame f;
  f.room = room;
  f.lane_tag = lane.tag;
  f.n = h.n;
  f.label = h.label;
  f.sequence = h.sequence;
  f.sender = sender;
  f.lane = lane.kind;
  f.kind = h.kind;
  f.algorithm = h.algorithm;
  f.op = h.op;
  f.type = h.type;
  f.what = h.what;
  return f;
}

Header header_of(const Frame& f) {
  return {f.kind, f.algorithm, f.op, f.type, f.what, f.n, f.label, f.sequence};
}

Lane lane_of(const Frame& f) { return {f.lane, f.lane_tag}; }

void append(Message& message, const Frame& frame) {
  PLANNER_CHECK(message.size + sizeof frame <= message.capacity);
  std::memcpy(message.bytes.get() + message.size, &frame, sizeof frame);
  message.size += sizeof frame;
}

Frame strip(Message& message) {
  Frame frame;
  PLANNER_CHECK(message.size >= sizeof frame, "a message without a frame");
  message.size -= sizeof frame;
  std::memcpy(&frame, message.bytes.get() + message.size, sizeof frame);
  return frame;
}

bool is_sound(const Message& message) {
  Frame f;
  if (message.size < sizeof f) return false;
  std::memcpy(&f, message.bytes.get() + message.size - sizeof f, sizeof f);
  return f.lane <= Lane::Kind::reply && f.kind <= CallKind::reply &&
         f.algorithm <= program::Algorithm::pairwise && f.op <= program::ReduceOp::max &&
         f.type <= core::DType::nf4 && static_cast<std::size_t>(f.what) < program::kTraffics &&
         f.sender >= 0 && f.n >= 0;
}

// FNV-1a, 64 bits.
std::uint64_t room_id(std::span<const int> group, int channel, int index) {
  std::uint64_t hash = 14695981039346656037ull;
  const auto mix = [&](int value) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash ^= (static_cast<std::uint32_t>(value) >> shift) & 0xffu;
      hash *= 1099511628211ull;
    }
  };
  mix(channel);
  for (int rank : group) mix(rank);
  if (const int earlier = earlier_places(group, index); earlier > 0) mix(earlier);
  return hash;
}

}  // namespace exec
