#pragma once
// The elements of one channel of all samples, in blocks that follow each other in memory.

#include "exec/host/convert.hpp"
#include "exec/host/graphs.hpp"

namespace exec::host {

// visit(first element of a block, elements): of one channel, samples ascending.
template <class Visit>
void for_blocks(const ChannelShape& s, std::int64_t channel, Visit&& visit) {
  for (std::int64_t i = 0; i < s.samples; ++i)
    for_chunks(s.places, [&](std::int64_t c, std::int64_t m) {
      visit((i * s.channels + channel) * s.places + c, m);
    });
}

// Stores m elements of dx from `at` on: `out`, or what is there and `out`, which it then becomes.
template <class T>
void give_block(const View& dx, std::int64_t at, std::int64_t m, T* out, bool accumulate) {
  if (accumulate) {
    T old[kChunk];
    const T* const before = read(dx.at(at), m, old);
    for (std::int64_t i = 0; i < m; ++i) out[i] += before[i];
  }
  store(dx.at(at), m, out);
}

}  // namespace exec::host
