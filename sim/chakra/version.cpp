#include "sim/chakra/version.hpp"

#include "sim/chakra/schema.hpp"

namespace engine::chakra {
namespace {

using core::Wire;

// Node.attribute of 0.0.2 and 0.0.3, which is Node.attr, field 10, today.
constexpr int kOldAttribute = 11;
// Node.num_ops to Node.comm_priority of 0.0.1, which are attributes today.
constexpr int kFirstOldNumber = 12, kLastOldNumber = 20;

}  // namespace

bool reads_version(std::string_view version) {
  return version == kVersionText || version.starts_with("1.");
}

bool is_node(core::ProtoReader message) {
  while (message.next())
    if (message.wire() == Wire::varint && (message.field() == kId || message.field() == kType))
      return true;
  return false;
}

std::string_view old_version(core::ProtoReader node) {
  while (node.next()) {
    if (node.field() == kOldAttribute && node.wire() == Wire::bytes) return "0.0.2 or 0.0.3";
    if (node.field() >= kFirstOldNumber && node.field() <= kLastOldNumber) return "0.0.1";
  }
  return {};
}

}  // namespace engine::chakra
