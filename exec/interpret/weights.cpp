// Weights as a run begins. Each element depends on its place in the model alone, so a rank draws no
// more than it keeps.
#include <algorithm>

#include "core/parallel.hpp"
#include "exec/host/kernels.hpp"
#include "exec/host/matrix_codes.hpp"
#include "exec/interpret/initialise.hpp"
#include "exec/interpret/interpreter.hpp"

namespace exec {
namespace {

struct Part { std::int64_t begin, end; };  // of a parameter's elements

// Parts of a parameter of which a rank keeps something, where it keeps shards alone.
std::vector<Part> kept_parts(const program::RankClass& k, int part, const RankMemory& memory,
                             const program::PlacedParameter& p) {
  std::vector<Part> parts;
  const auto keep = [&](std::int64_t begin, std::int64_t end) {  // in the flat space
    begin = std::max(begin - p.offset, std::int64_t{0});
    end = std::min(end - p.offset, p.parameter.elements);
    if (begin < end) parts.push_back({begin, end});
  };
  if (p.trained) {
    for (const program::Span& s : k.spans) {
      const std::int64_t begin = s.offset + s.part_of(part) * s.shard_elements;
      keep(begin, std::min(begin + s.shard_elements, s.offset + s.elements));
    }
    return parts;
  }
  for (std::size_t u = 0; u < k.frozen_units.size(); ++u) {
    const auto& unit = k.frozen_units[u];
    const std::int64_t each = memory.persistent(k.frozen_buffer, static_cast<int>(u)).elements;
    const std::int64_t begin = unit.offset + part * each;
    keep(begin, std::min(begin + each, unit.offset + unit.elements));
  }
  return parts;
}

}  // namespace

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
  const auto keeps_all = [&](const program::PlacedParameter& p, const Target& t) {
    if (!p.trained) return !class_.sharded_frozen;
    return t.buffer != program::kNone && (!t.shards || class_.buffers[t.buffer].slots > 1);
  };
  const auto fill = [&](const program::PlacedParameter& p, std::initializer_list<Target> targets) {
    std::vector<Part> parts{{0, p.parameter.elements}};
    if (std::ranges::none_of(targets, [&](const Target& t) { return keeps_all(p, t); }))
      parts = kept_parts(class_, part_, memory_, p);
    std::vector<Part> pieces;
    for (const Part& part : parts)
      for (std::int64_t at = part.begin; at < part.end; at += kPiece)
        pieces.push_back({at, std::min(at + kPiece, part.end)});
    for (const auto& [at, end] : pieces) {
      piece.resize(static_cast<std::size_t>(end - at));
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

void Interpreter::initialise_loss_scale() {
  if (class_.scale_buffer == program::kNone) return;
  const host::LossScaleState state{.scale = context_.program.loss_scale.initial};
  void* const at = memory_.persistent(class_.scale_buffer).data;
  backend_->write(at, &state, sizeof state);
  kernels_.loss_scale = static_cast<const double*>(at);
}

}  // namespace exec
