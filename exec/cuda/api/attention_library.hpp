#pragma once
// AttentionLibrary: attention by a library that is opened while running (cuDNN's), which the
// backend may call in place of its own kernels. What is kept for backward is what those keep, so
// that either may read it. Thread-safe.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/dtype.hpp"

namespace exec::cuda {

struct StreamOf;

// One call: whole samples, or of one sample some heads of keys with the heads of queries that read
// them. The heads of a row lie side by side: of q, of k, of v, of out.
struct AttentionPart {
  core::DType type{};
  bool backward = false;
  std::int64_t samples = 1, seq = 1, heads = 1, kv_heads = 1, head_dim = 1;
  std::int64_t row = 0, out_row = 0;   // elements from a row of q, k and v, and of out, to the next
  bool repeats = true;                 // the same inputs give the same bits
  std::int64_t value_dim = 1;          // of a head's values
  bool causal = true;                  // else every query sees every key
  double scale = 1;                    // of scores
  std::int64_t window = 0;             // of causal queries: the last keys they see; 0: all
  auto operator<=>(const AttentionPart&) const = default;
};

// Where a call's first elements lie, each at a multiple of 16 bytes; lse[samples, heads, seq], f32,
// as host::attention keeps it: the natural logarithm. Forward writes out and lse, backward reads
// them and writes dq, dk and dv, which lie as q, k and v do.
struct AttentionPlaces {
  std::byte *q = nullptr, *k = nullptr, *v = nullptr, *out = nullptr, *lse = nullptr;
  std::byte *dout = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

class AttentionLibrary {
 public:
  struct Prepared {
    std::size_t workspace = 0;         // bytes that a call takes
    std::string refused;               // why it cannot be called; empty: it can
  };

  virtual ~AttentionLibrary() = default;

  virtual std::string name() const = 0;  // "cuDNN 9.19.0"
  // Finds out how it computes `part`, and keeps that.
  virtual Prepared prepare(const AttentionPart& part) = 0;
  // REQUIRES: prepared and not refused. Returns before it is done; throws DeviceFailure.
  virtual void run(const AttentionPart& part, const AttentionPlaces& at, void* workspace,
                   StreamOf* stream) = 0;
};

struct OpenedAttention {
  std::unique_ptr<AttentionLibrary> library;
  std::string absent;                  // why there is none, and what to do about it
};

}  // namespace exec::cuda
