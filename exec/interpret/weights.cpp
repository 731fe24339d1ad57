// Weights as a run begins: drawn for the whole model, of which every rank writes its part.
#include <algorithm>

#include "core/parallel.hpp"
#include "exec/host/kernels.hpp"
#include "exec/host/matrix_codes.hpp"
#include "exec/interpret/initialise.hpp"
#include "exec/interpret/interpreter.hpp"

namespace exec {

// Elements [at, at + values.size()) of a buffer.
void Interpreter::write_values(const Operand& to, std::int64_t at,
                               std::span<const double> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  const auto bytes = static_cast<std::size_t>(core::bytes_of(n, to.type).value());
  if (rounded_.size() < bytes) rounded_.resize(bytes);
  const host::View out{rounded_.data(), to.type},
      in{const_cast<double*>(values.data()), core::DType::f64};
  constexpr std::int64_t kRounded = 1 << 17;
  core::for_each_index(static_cast<std::size_t>((n + kRounded - 1) / kRounded), 0,
                       [&](std::size_t i) {
                         const std::int64_t first = static_cast<std::int64_t>(i) * kRounded;
                         host::cast(out.at(first), in.at(first), std::min(kRounded, n - first));
                       });
  backend_->write(view(to).at(at).data, rounded_.data(), bytes);
}

// A shard-space buffer holds this rank's chunk of each span; a flat one holds everything.
void Interpreter::write_range(std::uint16_t buffer, bool shards, std::int64_t flat_offset,
                              std::span<const double> values) {
  for (int slot = 1; slot < class_.buffers[buffer].slots; ++slot)  // versions: flat
    write_values(memory_.persistent(buffer, 0, slot), flat_offset, values);
  const Operand to = memory_.persistent(buffer);
  const auto count = static_cast<std::int64_t>(values.size());
  if (!shards) return write_values(to, flat_offset, values);
  for (const program::Span& s : class_.spans) {
    const std::int64_t begin =
        s.offset + std::min(s.part_of(part_) * s.shard_elements, s.elements);
    const std::int64_t end = std::min(begin + s.shard_elements, s.offset + s.elements);
    const std::int64_t lo = std::max(begin, flat_offset), hi = std::min(end, flat_offset + count);
    if (lo < hi)
      write_values(to, s.shard_offset + lo - begin,
                   values.subspan(static_cast<std::size_t>(lo - flat_offset),
                                  static_cast<std::size_t>(hi - lo)));
  }
}

// Of frozen parameters under ZeRO-3, this rank's part of each unit, padded to equal parts.
void Interpreter::write_frozen_shards(std::int64_t flat_offset, std::span<const double> values) {
  for (std::size_t u = 0; u < class_.frozen_units.size(); ++u) {
    const auto& unit = class_.frozen_units[u];
    const Operand to = memory_.persistent(class_.frozen_buffer, static_cast<int>(u));
    const std::int64_t begin = unit.offset + part_ * to.elements;
    const std::int64_t end = std::min(begin + to.elements, unit.offset + unit.elements);
    const std::int64_t lo = std::max(begin, flat_offset);
    const std::int64_t hi = std::min(end, flat_offset + static_cast<std::int64_t>(values.size()));
    if (lo < hi)
      write_values(to, lo - begin,
                   values.subspan(static_cast<std::size_t>(lo - flat_offset),
                                  static_cast<std::size_t>(hi - lo)));
  }
}

// A matrix's codes among those of its layer, of which this rank may have a part.
void Interpreter::write_codes(const program::QuantisedParameter& q,
                              std::span<const std::byte> codes) {
  const Operand layer = memory_.persistent(class_.quantised_buffer, q.layer);
  const std::int64_t begin = class_.sharded_frozen ? part_ * layer.elements : 0;
  const std::int64_t first = q.placed.offset,
                     past = first + static_cast<std::int64_t>(codes.size());
  const std::int64_t lo = std::max(begin, first), hi = std::min(begin + layer.elements, past);
  if (lo < hi)
    backend_->write(static_cast<std::byte*>(layer.data) + (lo - begin),
                    codes.data() + (lo - first), static_cast<std::size_t>(hi - lo));
}

// One buffer after the other of a parameter's pieces, which are drawn once: what is drawn stays
// small beside the caches, whatever the parameter.
void Interpreter::initialise_weights() {
  struct Target { std::uint16_t buffer; bool shards; };
  constexpr std::int64_t kPiece = 1 << 22;
  std::vector<double> piece;
  const auto fill = [&](const program::PlacedParameter& p, std::initializer_list<Target> targets) {
    const std::int64_t n = p.parameter.elements;
    for (std::int64_t at = 0; at < n; at += kPiece) {
      piece.resize(static_cast<std::size_t>(std::min(kPiece, n - at)));
      std::optional<bool> drawn;       // in f64
      for (const Target& t : targets) {
        if (t.buffer == program::kNone) continue;
        const bool f64 = class_.buffers[t.buffer].type == core::DType::f64;
        if (drawn != f64)
          initial_values(p, context_.seed, kernels_.tensor_rank, f64, kernels_.expert_rank, at,
                         piece);
        drawn = f64;
        if (!p.trained && class_.sharded_frozen)
          write_frozen_shards(p.offset + at, piece);
        else
          write_range(t.buffer, t.shards, p.offset + at, piece);
      }
    }
  };
  for (const program::PlacedParameter& p : class_.parameters) {
    if (!p.trained)
      fill(p, {{class_.frozen_buffer, false}});
    else
      fill(p, {{class_.weights_buffer, class_.sharded_weights},
               {class_.master_buffer, true},  // like all optimizer state
               {class_.server_weights_buffer, true}});
  }
  for (const program::QuantisedParameter& q : class_.quantised) {
    const std::vector<double> exact =
        initial_values(q.placed, context_.seed, kernels_.tensor_rank, false, kernels_.expert_rank);
    const std::vector<float> values(exact.begin(), exact.end());
    std::vector<std::byte> codes(static_cast<std::size_t>(
        planner::quantised_bytes(context_.quantization, q.placed.parameter.shape).value()));
    host::encode_matrix(context_.quantization, values, q.placed.parameter.shape, codes.data());
    write_codes(q, codes);
  }
  rounded_ = {};
}

}  // namespace exec
