// What ranks that divide operators tell each other (models/splits.hpp). All ranks' samples lie rank
// by rank, so gathers and scatters are those of the communicator. Of an exchange, one side is rows
// of all columns, which are packed rank by rank in memory of our own.
#include "core/check.hpp"
#include "exec/interpret/interpreter.hpp"

namespace exec {

using program::Action;
using program::Collective;
using program::Transfer;

void Interpreter::split_collective(const Action& a, Communicator& c, const Operand& from,
                                   const Operand& into) {
  const Transfer& t = class_.transfers[a.op];
  switch (t.collective) {
    case Collective::all_gather:
      return c.all_gather(from.data, into.data, into.elements, into.type, t.what);
    case Collective::reduce_scatter:  // {own, all}
      return c.reduce_scatter(into.data, into.elements, from.data, into.type, t.reduce, t.what);
    case Collective::exchange: return exchange_columns(a, c, from, into);
    default: PLANNER_CHECK(false, "not a collective between ranks that divide operators");
  }
}

// Rows of this rank's samples, [rows, ranks x share], and all ranks' rows of this rank's columns,
// [ranks, rows, share].
void Interpreter::exchange_columns(const Action& a, Communicator& c, const Operand& from,
                                   const Operand& into) {
  const Transfer& t = class_.transfers[a.op];
  const auto ranks = static_cast<std::size_t>(c.size());
  const auto size = static_cast<std::size_t>(into.bytes().value());
  const std::size_t row = static_cast<std::size_t>(t.columns) * core::bits(into.type) / 8;
  const std::size_t share = row / ranks, rows = size / row, piece = size / ranks;
  std::byte* const packed = backend_->scratch(a.stream, size);
  auto* const wide = static_cast<std::byte*>(t.to_heads ? from.data : into.data);
  const auto move = [&](bool pack) {
    for (std::size_t r = 0; r < ranks; ++r) {
      std::byte* const here = packed + r * piece;
      std::byte* const there = wide + r * share;
      if (pack) backend_->copy(a.stream, {here, there, share, row, share, rows});
      else backend_->copy(a.stream, {there, here, row, share, share, rows});
    }
  };
  if (t.to_heads) {
    move(true);
    return c.exchange(packed, into.data, into.elements, into.type, t.what);
  }
  c.exchange(from.data, packed, into.elements, into.type, t.what);
  move(false);
}

}  // namespace exec
