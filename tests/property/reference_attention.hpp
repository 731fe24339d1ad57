#pragma once
// Attention of ranks that divide a sequence, other than by gathered keys: block by block round a
// ring, in the order that context_method=ring states, and by all rows of some heads. Over the
// barriers of Slices and the host's kernels alone. One object a call, not thread-safe.

#include <vector>

#include "tests/property/reference_slices.hpp"

namespace tests {

// What one rank's attention keeps for its backward pass, beside qkv, out and lse.
struct DividedHeads { Typed qkv, out; };

class SlicedAttention {
 public:
  // shape: of the rows of this rank.
  SlicedAttention(Slices& slices, std::int64_t rank, core::DType statistic,
                  const exec::host::AttentionShape& shape)
      : slices_(slices), rank_(rank), statistic_(statistic), shape_(shape) {}

  void forward(Typed& out, Typed& lse, Typed& qkv, DividedHeads& kept);
  void backward(Typed& d_qkv, Typed& d_out, Typed& qkv, Typed& out, Typed& lse, DividedHeads& kept);

 private:
  std::int64_t q() const { return shape_.heads * shape_.head_dim; }
  std::int64_t kv() const { return shape_.kv_heads * shape_.head_dim; }
  std::int64_t rows() const { return shape_.samples * shape_.seq; }
  exec::host::AttentionShape placed(std::int64_t from) const;
  exec::host::AttentionShape block_of(std::int64_t from) const;
  std::vector<Typed> all_keys(Typed& qkv);

  void ring_forward(Typed& out, Typed& lse, Typed& qkv);
  void ring_backward(Typed& d_qkv, Typed& d_out, Typed& qkv, Typed& out, Typed& lse);
  exec::host::AttentionShape whole() const;
  // Of [rows, (blocks of columns)]: this rank's share of each block, of all rows by position; and
  // back.
  Typed to_heads(Typed& x, const std::vector<std::int64_t>& blocks);
  Typed to_rows(Typed& x, const std::vector<std::int64_t>& blocks);

  Slices& slices_;
  std::int64_t rank_;
  core::DType statistic_;
  exec::host::AttentionShape shape_;
};

}  // namespace tests
