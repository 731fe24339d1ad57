#include "tests/property/reference_attention.hpp"

#include <algorithm>

#include "tests/property/reference_rules.hpp"

namespace tests {

namespace host = exec::host;
using host::AttentionShape;

namespace {

class Space {
 public:
  explicit Space(core::DType type, const AttentionShape& s)
      : bytes_(static_cast<std::size_t>(host::attention_workspace(type, s).value())) {}
  host::Workspace get() {
    return {bytes_.data(), core::Bytes(static_cast<std::int64_t>(bytes_.size()))};
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

void SlicedAttention::forward(Typed& out, Typed& lse, Typed& qkv, DividedHeads& kept) {
  if (slices_.method() == planner::ContextMethod::ring) return ring_forward(out, lse, qkv);
  const AttentionShape s = whole();
  Space space(qkv.type(), s);
  kept.qkv = to_heads(qkv, {q(), kv(), kv()});
  kept.out = {qkv.type(), out.size()};
  host::attention(kept.out.at(), lse.at(), kept.qkv.at(), s, space.get());
  out = to_rows(kept.out, {q()});
}

void SlicedAttention::backward(Typed& d_qkv, Typed& d_out, Typed& qkv, Typed& out, Typed& lse,
                               DividedHeads& kept) {
  if (slices_.method() == planner::ContextMethod::ring)
    return ring_backward(d_qkv, d_out, qkv, out, lse);
  const AttentionShape s = whole();
  Space space(qkv.type(), s);
  Typed dy = to_heads(d_out, {q()}), dx(qkv.type(), qkv.size());
  host::attention_input_gradient(dx.at(), dy.at(), kept.qkv.at(), kept.out.at(), lse.at(), s,
                                 space.get());
  d_qkv = to_rows(dx, {q(), kv(), kv()});
}

// Queries of either run see the keys of the block that stand before the run, counted one by one.
AttentionShape SlicedAttention::block_of(std::int64_t from) const {
  AttentionShape s = placed(from);
  const auto &own = slices_.positions(rank_), &theirs = slices_.positions(from);
  const auto before = [&](std::int64_t row) {
    if (!shape_.causal || row >= s.seq) return s.seq;
    return static_cast<std::int64_t>(std::ranges::count_if(
        theirs, [&](std::int64_t p) { return p < own[static_cast<std::size_t>(row)]; }));
  };
  s.block = true;
  s.causal = false;
  s.keys = s.seq;
  s.early = s.seq / 2;
  s.early_keys = before(0);
  s.late_keys = before(s.early);
  return s;
}

// With the places of the own rows, and of those of `from`, for linear biases.
AttentionShape SlicedAttention::placed(std::int64_t from) const {
  AttentionShape s = shape_;
  const std::int64_t early = s.seq / 2;
  const auto places = [&](std::int64_t rank) {
    const std::vector<std::int64_t>& at = slices_.positions(rank);
    return host::Places{early, at.front(), at[static_cast<std::size_t>(early)]};
  };
  s.biases.queries = places(rank_);
  s.biases.keys = places(from);
  return s;
}

std::vector<Typed> SlicedAttention::all_keys(Typed& qkv) {
  Typed own(qkv.type(), rows() * 2 * kv());
  for (std::int64_t r = 0; r < rows(); ++r)
    host::copy(own.at(r * 2 * kv()), qkv.at(r * (q() + 2 * kv()) + q()), 2 * kv());
  return slices_.share(rank_, own);
}

// Blocks of this rank, of the rank before, of the one before that.
void SlicedAttention::ring_forward(Typed& out, Typed& lse, Typed& qkv) {
  std::vector<Typed> keys = all_keys(qkv);
  Typed sum(statistic_, out.size());
  Space space(qkv.type(), shape_);
  host::attention(sum.at(), lse.at(), qkv.at(), placed(rank_), space.get());
  for (std::int64_t s = 1; s < slices_.ranks(); ++s) {
    const std::int64_t from = (rank_ + slices_.ranks() - s) % slices_.ranks();
    host::attention(sum.at(), lse.at(), qkv.at(), block_of(from), space.get(),
                    keys[static_cast<std::size_t>(from)].at());
  }
  host::cast(out.at(), sum.at(), out.size());
}

// The same blocks, the own one last. Each block's gradients are summed as a ring sums its chunks.
void SlicedAttention::ring_backward(Typed& d_qkv, Typed& d_out, Typed& qkv, Typed& out,
                                    Typed& lse) {
  std::vector<Typed> keys = all_keys(qkv);
  const std::int64_t block = rows() * 2 * kv(), columns = q() + 2 * kv();
  Typed dq(statistic_, out.size()), parts(qkv.type(), block * slices_.ranks());
  Space space(qkv.type(), shape_);
  for (std::int64_t s = 1; s <= slices_.ranks(); ++s) {
    const std::int64_t from = (rank_ + slices_.ranks() - s) % slices_.ranks();
    const bool own = from == rank_;
    const host::BlockGradients to{dq.at(), q(), parts.at(from * block), 2 * kv()};
    host::attention_block_gradient(to, d_out.at(), qkv.at(), out.at(), lse.at(),
                                   own ? placed(rank_) : block_of(from), space.get(),
                                   own ? exec::host::View{}
                                       : keys[static_cast<std::size_t>(from)].at());
  }
  Typed summed = slices_.sum_of_parts(rank_, parts);
  for (std::int64_t r = 0; r < rows(); ++r) {
    host::cast(d_qkv.at(r * columns), dq.at(r * q()), q());
    host::copy(d_qkv.at(r * columns + q()), summed.at(r * 2 * kv()), 2 * kv());
  }
}

AttentionShape SlicedAttention::whole() const {
  AttentionShape s = shape_;
  s.seq = slices_.seq_len();
  s.heads /= slices_.ranks();
  s.kv_heads /= slices_.ranks();
  s.biases.first_head = rank_ * s.heads;
  return s;
}

Typed SlicedAttention::to_heads(Typed& x, const std::vector<std::int64_t>& blocks) {
  const std::int64_t columns = x.size() / rows(), ranks = slices_.ranks();
  Typed all = slices_.gather(rank_, x, columns), taken(x.type(), x.size());
  std::int64_t first = 0, at = 0;
  for (const std::int64_t block : blocks) {
    for (std::int64_t r = 0; r < rows() * ranks; ++r)
      host::copy(taken.at(r * columns / ranks + at),
                 all.at(r * columns + first + rank_ * block / ranks), block / ranks);
    first += block;
    at += block / ranks;
  }
  return taken;
}

Typed SlicedAttention::to_rows(Typed& x, const std::vector<std::int64_t>& blocks) {
  const std::int64_t columns = x.size() / rows(), ranks = slices_.ranks();
  std::vector<Typed> all = slices_.share(rank_, x);
  Typed taken(x.type(), x.size());
  const auto& own = slices_.positions(rank_);
  for (std::int64_t row = 0; row < rows(); ++row) {
    const std::int64_t from = row / shape_.seq * slices_.seq_len() +
                              own[static_cast<std::size_t>(row % shape_.seq)];
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      std::int64_t first = 0, at = 0;
      for (const std::int64_t block : blocks) {
        host::copy(taken.at(row * columns + first + rank * block / ranks),
                   all[static_cast<std::size_t>(rank)].at(from * columns / ranks + at),
                   block / ranks);
        first += block;
        at += block / ranks;
      }
    }
  }
  return taken;
}

}  // namespace tests
