// What work moves and computes, counted as it runs.
#include <utility>

#include "exec/cuda/twin/state.hpp"

namespace exec::cuda {

using core::bytes_of;

// Both operands and the bias are read, the result is written, and read first where it is added to.
Metered metered_of(const host::MixedGemm& p) {
  const std::int64_t c = bytes_of(p.m * p.n, p.c.view.type).value();
  Metered found;
  found.bytes.read = bytes_of(p.m * p.k, p.a.view.type).value() +
                     bytes_of(p.k * p.n, p.b.view.type).value() + (p.accumulate ? c : 0) +
                     (p.bias ? bytes_of(p.n, p.bias.type).value() : 0);
  found.bytes.written = c;
  found.bytes.read *= p.count;
  found.bytes.written *= p.count;
  found.flops = core::Flops(2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) *
                            static_cast<double>(p.k) * static_cast<double>(p.count));
  return found;
}

// FLOPs are those of every query with every key, as models count them.
Metered metered_of(const AttentionPart& p) {
  const std::int64_t rows = p.samples * p.seq, keys = p.kv_heads * (p.head_dim + p.value_dim);
  const std::int64_t q = bytes_of(rows * (p.heads * p.head_dim + keys), p.type).value(),
                     out = bytes_of(rows * p.heads * p.value_dim, p.type).value(),
                     lse = bytes_of(rows * p.heads, core::DType::f32).value();
  Metered found;
  found.bytes.read = p.backward ? q + 2 * out + lse : q;
  found.bytes.written = p.backward ? q : out + lse;
  const std::int64_t d = p.head_dim, v = p.value_dim, each = p.backward ? 3 * d + 2 * v : d + v;
  found.flops = core::Flops(2.0 * static_cast<double>(rows * p.heads) *
                            static_cast<double>(p.seq) * static_cast<double>(each));
  return found;
}

std::function<void()> Twin::State::metered(std::function<void()> run,
                                           std::optional<Metered> of_library) {
  if (!options.meters) return run;
  std::string within;
  for (const std::string& range : ranges) within += (within.empty() ? "" : "/") + range;
  return [this, within, of_library, run = std::move(run)] {
    Metered found = of_library.value_or(Metered{});
    if (of_library) {
      run();
    } else {
      std::vector<emulate::Meter::Memory> memory;
      {
        const std::scoped_lock lock(mutex);
        for (PoolHandle pool : pools)
          for (const auto& [first, bytes] : pool->blocks)
            memory.push_back({static_cast<const std::byte*>(first),
                              static_cast<std::size_t>(bytes)});
      }
      const emulate::Meter meter(std::move(memory));
      run();
      found.bytes = meter.traffic();
    }
    const std::scoped_lock lock(mutex);
    Metered& all = metered_within[within];
    all.bytes.read += found.bytes.read;
    all.bytes.written += found.bytes.written;
    all.flops += found.flops;
  };
}

std::map<std::string, Metered> Twin::metered() const {
  PLANNER_CHECK(state_->options.meters, "a twin that was not asked to count what work moves");
  const std::scoped_lock lock(state_->mutex);
  return state_->metered_within;
}

}  // namespace exec::cuda
