#pragma once
// Ids as types: a RankId is not a StageId. Index of a thing in its own table; ordered; hashable by
// value(). Trivially copyable, thread-compatible.

#include <compare>
#include <cstdint>

namespace core {

template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::int32_t value) : value_(value) {}
  constexpr std::int32_t value() const { return value_; }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  std::int32_t value_ = -1;  // -1: none
};

using RankId = Id<struct RankTag>;
using StageId = Id<struct StageTag>;
using NodeId = Id<struct NodeTag>;

}  // namespace core
