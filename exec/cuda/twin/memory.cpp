// Device memory of a twin: blocks of the host's, filled with what no computation should read.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/parse_units.hpp"
#include "exec/cuda/twin/meeting.hpp"
#include "exec/cuda/twin/state.hpp"

namespace exec::cuda {

void* Twin::State::allocate(PoolOf& pool, std::size_t bytes) {
  const auto size = static_cast<std::int64_t>((std::max<std::size_t>(bytes, 1) + 255) / 256 * 256);
  const std::string call = "allocate(" + core::to_text(core::Bytes(size)) + ")";
  if (used + size > options.memory.value())
    throw DeviceFailure(FailureKind::out_of_memory, call, "the twin has no more");
  void* memory = std::aligned_alloc(256, static_cast<std::size_t>(size));
  if (memory == nullptr) throw DeviceFailure(FailureKind::out_of_memory, call, "the host has none");
  std::memset(memory, 0xFF, static_cast<std::size_t>(size));
  pool.blocks[memory] = size;
  pool.used += size;
  pool.most = std::max(pool.most, pool.used);
  used += size;
  return memory;
}

void Twin::State::release(PoolOf& pool, void* memory) noexcept {
  const auto block = pool.blocks.find(memory);
  if (block == pool.blocks.end()) return;
  pool.used -= block->second;
  used -= block->second;
  std::free(memory);
  pool.blocks.erase(block);
}

void* Twin::allocate(PoolHandle pool, std::size_t bytes) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("allocate");
  return state_->allocate(*pool, bytes);
}

void Twin::release(PoolHandle pool, void* memory) noexcept {
  const std::scoped_lock lock(state_->mutex);
  state_->release(*pool, memory);
}

}  // namespace exec::cuda

// Of the device that the calling thread has bound.
extern "C" void* planner_twin_allocate(std::int64_t bytes) {
  exec::cuda::Twin::State& device = *exec::cuda::Twin::State::bound;
  const std::scoped_lock lock(device.mutex);
  return device.allocate(device.library, static_cast<std::size_t>(bytes));
}

extern "C" void planner_twin_release(void* memory) {
  exec::cuda::Twin::State& device = *exec::cuda::Twin::State::bound;
  const std::scoped_lock lock(device.mutex);
  device.release(device.library, memory);
}
