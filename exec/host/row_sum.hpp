#pragma once
// Sums over one row of operands of any type, in the lanes of vector_math.hpp: what norms are made
// of. Stateless, thread-safe.

#include "exec/host/convert.hpp"
#include "exec/host/vector_math.hpp"

namespace exec::host {

// sum over i of term(in[i]...), the operands converted a chunk at a time.
template <class T, class Term, class... In>
T row_sum(std::int64_t n, Term term, const In&... in) {
  LaneSum<T> sum;
  for_chunks(n, [&](std::int64_t c, std::int64_t m) {
    T buffer[sizeof...(In)][kChunk];
    const auto run = [&](const auto*... x) {
      sum.add(m, [&](std::int64_t i) { return term(x[i]...); });
    };
    int used = 0;
    const auto fetch = [&](const View& v) { return read(v.at(c), m, buffer[used++]); };
    run(fetch(in)...);
  });
  return sum.value();
}

}  // namespace exec::host
