// What ranks that divide a sequence tell each other: keys and values of all rows at once, block by
// block round a ring, or all rows of some heads. Between the order that kernels read and that of
// the messages, rows are moved in memory of our own.
#include <array>

#include "core/check.hpp"
#include "exec/interpret/interpreter.hpp"

namespace exec {

using program::Action;
using program::Transfer;

void Interpreter::context_collective(const Action& a, Communicator& c, const Operand& from,
                                     const Operand& into) {
  switch (class_.transfers[a.op].collective) {
    case program::Collective::send: return ring_shift(a, c, from, into);
    case program::Collective::exchange: return exchange_heads(a, c, from, into);
    default: return keys_collective(a, c, from, into);
  }
}

// Keys and values: columns of this rank's rows of qkv, packed, and those of all positions in turn,
// of which each rank has two runs. Between both orders they are moved in memory of our own.
void Interpreter::keys_collective(const Action& a, Communicator& c, const Operand& qkv,
                                  const Operand& keys) {
  const Transfer& t = class_.transfers[a.op];
  const auto samples = static_cast<std::size_t>(context_.program.samples);
  const auto rows = static_cast<std::size_t>(kernels_.slice.rows);
  const auto ranks = static_cast<std::size_t>(c.size());
  const auto size = static_cast<std::size_t>(keys.bytes().value());
  const std::size_t piece = size / ranks, width = piece / (samples * rows);
  const std::size_t pitch = static_cast<std::size_t>(qkv.bytes().value()) / (samples * rows);
  std::byte* const by_rank = backend_->scratch(a.stream, size + piece);
  std::byte* const own = by_rank + size;
  auto* const columns = static_cast<std::byte*>(qkv.data) + pitch - width;
  auto* const all = static_cast<std::byte*>(keys.data);
  // use(in by_rank, in keys, bytes) of each rank's runs, one copy for all samples.
  const auto reorder = [&](bool to_positions) {
    for (std::size_t r = 0; r < ranks; ++r) {
      program::SequenceSlice slice = kernels_.slice;
      slice.index = static_cast<int>(r);
      for (const program::RowRun& run : slice.runs()) {
        std::byte* const here = by_rank + r * piece + static_cast<std::size_t>(run.row) * width;
        std::byte* const there = all + static_cast<std::size_t>(run.position) * width;
        const std::size_t bytes = static_cast<std::size_t>(run.rows) * width;
        const std::size_t sample = rows * width, whole = sample * ranks;
        if (to_positions)
          backend_->copy(a.stream, {there, here, whole, sample, bytes, samples});
        else
          backend_->copy(a.stream, {here, there, sample, whole, bytes, samples});
      }
    }
  };
  if (t.collective == program::Collective::all_gather) {
    backend_->copy(a.stream, {own, columns, width, pitch, width, samples * rows});
    c.all_gather(own, by_rank, keys.elements, keys.type, t.what);
    return reorder(true);
  }
  reorder(false);
  c.reduce_scatter(by_rank, keys.elements, own, keys.type, t.reduce, t.what);
  backend_->copy(a.stream, {columns, own, pitch, width, width, samples * rows});
}

// Tensor ranks that share key heads. A row of the narrow qkv has q and this rank's columns of k and
// v; a row of the whole one has q and one head of k and of v. `all` has the columns of every rank,
// rank by rank.
void Interpreter::share_keys(const Action& a, Communicator& c, const std::vector<Operand>& args) {
  const Transfer& t = class_.transfers[a.op];
  const bool gathers = t.collective == program::Collective::all_gather;
  const Operand &narrow = args[gathers ? 0 : 1], &whole = args[gathers ? 1 : 0], &all = args[2];
  const std::size_t element = static_cast<std::size_t>(core::bits(all.type)) / 8;
  const std::size_t q = static_cast<std::size_t>(t.columns) * element;
  const std::size_t part = static_cast<std::size_t>(t.key_columns) * element;
  const auto ranks = static_cast<std::size_t>(c.size());
  const std::size_t piece = static_cast<std::size_t>(all.bytes().value()) / ranks;
  const std::size_t rows = piece / (2 * part), narrow_row = q + 2 * part;
  const std::size_t whole_row = static_cast<std::size_t>(whole.bytes().value()) / rows;
  const std::size_t head = (whole_row - q) / 2, sharers = head / part;
  const std::size_t first = static_cast<std::size_t>(kernels_.tensor_rank) / sharers * sharers;
  auto* const in_narrow = static_cast<std::byte*>(narrow.data);
  auto* const in_whole = static_cast<std::byte*>(whole.data);
  auto* const in_all = static_cast<std::byte*>(all.data);
  std::byte* const own = backend_->scratch(a.stream, piece);
  // From `from` to `to` in the forward pass, and the other way in the backward pass.
  const auto move = [&](std::byte* from, std::size_t from_row, std::byte* to, std::size_t to_row,
                        std::size_t width) {
    if (gathers) backend_->copy(a.stream, {to, from, to_row, from_row, width, rows});
    else backend_->copy(a.stream, {from, to, from_row, to_row, width, rows});
  };
  const auto move_heads = [&] {
    for (std::size_t i = 0; i < sharers; ++i)
      for (std::size_t kind = 0; kind < 2; ++kind)  // k, v
        move(in_all + (first + i) * piece + kind * part, 2 * part,
             in_whole + q + kind * head + i * part, whole_row, part);
  };
  move(in_narrow, narrow_row, in_whole, whole_row, q);
  if (gathers) {
    move(in_narrow + q, narrow_row, own, 2 * part, 2 * part);
    c.all_gather(own, in_all, all.elements, all.type, t.what);
    return move_heads();
  }
  backend_->zero(a.stream, all);
  move_heads();
  c.reduce_scatter(in_all, all.elements, own, all.type, t.reduce, t.what);
  move(in_narrow + q, narrow_row, own, 2 * part, 2 * part);
}

// A block of keys or of their gradients goes to the next rank of the ring. From qkv: the latter
// columns of each row.
void Interpreter::ring_shift(const Action& a, Communicator& c, const Operand& from,
                             const Operand& into) {
  const Transfer& t = class_.transfers[a.op];
  const void* block = from.data;
  if (from.elements != into.elements) {
    const auto rows = static_cast<std::size_t>(context_.program.samples * kernels_.slice.rows);
    const auto size = static_cast<std::size_t>(into.bytes().value());
    const std::size_t width = size / rows;
    const std::size_t pitch = static_cast<std::size_t>(from.bytes().value()) / rows;
    std::byte* const packed = backend_->scratch(a.stream, size);
    const auto* const columns = static_cast<const std::byte*>(from.data) + pitch - width;
    backend_->copy(a.stream, {packed, columns, width, pitch, width, rows});
    block = packed;
  }
  c.ring_shift(block, into.data, into.elements, into.type, t.what);
}

// Rows of all heads, [samples, rows, (q, k, v)], and all rows of this rank's share of each of q, k
// and v. Chunks of the message are [samples, rows of the one, share of the other].
void Interpreter::exchange_heads(const Action& a, Communicator& c, const Operand& from,
                                 const Operand& into) {
  const Transfer& t = class_.transfers[a.op];
  const auto samples = static_cast<std::size_t>(context_.program.samples);
  const auto rows = static_cast<std::size_t>(kernels_.slice.rows);
  const auto ranks = static_cast<std::size_t>(c.size());
  const auto size = static_cast<std::size_t>(into.bytes().value());
  const std::size_t piece = size / ranks, row = size / (samples * rows), share = row / ranks;
  const auto element = static_cast<std::size_t>(core::bits(into.type)) / 8;
  const std::array<std::size_t, 3> widths{static_cast<std::size_t>(t.columns) * element,
                                          static_cast<std::size_t>(t.key_columns) * element,
                                          static_cast<std::size_t>(t.key_columns) * element};
  PLANNER_CHECK(from.elements == into.elements && widths[0] + 2 * widths[1] == row,
                "an exchange moves every column once");
  std::byte* const out = backend_->scratch(a.stream, 2 * size);
  std::byte* const in = out + size;
  // move(in message, in buffer, pitch of each, width, runs), over the columns of all heads.
  const auto by_columns = [&](std::byte* message, std::byte* buffer, auto&& move) {
    for (std::size_t r = 0; r < ranks; ++r) {
      std::size_t column = 0, packed = 0;
      for (const std::size_t width : widths) {
        const std::size_t own = width / ranks;
        if (own > 0)
          move(message + r * piece + packed, buffer + column + r * own, share, row, own,
               samples * rows);
        column += width;
        packed += own;
      }
    }
  };
  const auto by_rows = [&](std::byte* message, std::byte* buffer, auto&& move) {
    for (std::size_t r = 0; r < ranks; ++r) {
      program::SequenceSlice slice = kernels_.slice;
      slice.index = static_cast<int>(r);
      for (const program::RowRun& run : slice.runs())
        move(message + r * piece + static_cast<std::size_t>(run.row) * share,
             buffer + static_cast<std::size_t>(run.position) * share, rows * share,
             rows * ranks * share, static_cast<std::size_t>(run.rows) * share, samples);
    }
  };
  const auto pack = [&](std::byte* to, std::byte* at, std::size_t to_pitch, std::size_t pitch,
                        std::size_t width, std::size_t runs) {
    backend_->copy(a.stream, {to, at, to_pitch, pitch, width, runs});
  };
  const auto unpack = [&](std::byte* at, std::byte* to, std::size_t pitch, std::size_t to_pitch,
                          std::size_t width, std::size_t runs) {
    backend_->copy(a.stream, {to, at, to_pitch, pitch, width, runs});
  };
  auto* const source = static_cast<std::byte*>(from.data);
  auto* const target = static_cast<std::byte*>(into.data);
  if (t.to_heads) by_columns(out, source, pack);
  else by_rows(out, source, pack);
  c.exchange(out, in, into.elements, into.type, t.what);
  if (t.to_heads) by_rows(in, target, unpack);
  else by_columns(in, target, unpack);
}

}  // namespace exec
