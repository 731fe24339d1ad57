#pragma once
// RankMemory: the buffers of one rank of a Program, placed by the same arena that the replay
// models, in one range of exactly the predicted size. Allocation and freeing happen on the issuing
// thread; other threads read pointers that were resolved for them before. A use of a buffer that is
// not there is a bug of the lowering and ends the process with the buffer's name. Offloaded buffers
// lie in a second range and in no ledger: they take nothing of the device.

#include <cstddef>
#include <functional>
#include <vector>

#include "exec/interpret/ledger.hpp"
#include "sim/program/allocator.hpp"
#include "sim/program/program.hpp"

namespace exec {

// A resolved view: where, how many elements, of which type.
struct Operand {
  void* data = nullptr;
  std::int64_t elements = 0;
  core::DType type = core::DType::f32;
  const planner::F8Matrix* f8 = nullptr;  // of a matrix in 8 bits; lives as long as the Program
  core::Bytes bytes() const { return core::bytes_of(elements, type); }
};

class RankMemory {
 public:
  // Gives a range of so many bytes, which outlives this.
  using Reserve = std::function<std::byte*(std::size_t)>;
  // Allocates the persistent buffers. part: Program::part_of(rank). reserve_host, of the host's
  // memory, is asked where buffers are offloaded alone. steps: of the run (ReplayOptions::steps).
  RankMemory(const program::RankClass& rank_class, int part, const Reserve& reserve,
             const Reserve& reserve_host, std::int64_t steps);
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;

  void allocate(const program::View& view, const program::Call& call);
  void free(const program::View& view, const program::Call& call);
  Operand resolve(const program::View& view, const program::Call& call) const;
  // The instance of a persistent buffer for a layer index, of weights with versions in a slot.
  Operand persistent(std::uint16_t buffer, int layer = 0, int slot = 0) const;

  const Ledger& ledger() const { return ledger_; }
  core::Bytes reserved() const { return arena_.reserved(); }

 private:
  static constexpr program::Place kAbsent{-1, -1};
  program::Place& place_of(std::uint16_t buffer, int instance);
  const program::Place& place_of(std::uint16_t buffer, int instance) const;
  void place(std::uint16_t buffer, int instance, core::Bytes bytes);

  const program::RankClass& class_;
  const int part_;
  std::byte* base_ = nullptr;
  std::size_t range_bytes_ = 0;
  std::byte* host_base_ = nullptr;     // offloaded buffers, a range of their own
  std::size_t host_bytes_ = 0;
  program::Arena arena_, host_arena_;
  Ledger ledger_;
  std::vector<std::size_t> first_;     // by buffer: its first instance in places_
  std::vector<program::Place> places_;  // by instance: in the range
};

}  // namespace exec
