#pragma once
// AttentionChoice: which attention a run's ranks call, the library's or own kernels, and what the
// record says of it. The library is called within the workspace that products have anyway, so that
// a run takes the memory that was predicted, whichever computes: where all samples at once take
// more it is called in equal parts, and where the smallest part does, own kernels are. Thread-safe.

#include <map>
#include <mutex>
#include <string>

#include "exec/cuda/kernels/kernels.hpp"

namespace exec::cuda {

// automatic, library: the library's, where it has what is asked for, and own kernels elsewhere;
// `library` refuses to run where there is none.
enum class AttentionKernel : std::uint8_t { own, automatic, library };

class AttentionChoice {
 public:
  // repeats: the same inputs give the same bits.
  AttentionChoice(AttentionKernel asked, Api& api, bool repeats = true);

  // Why there is no library; empty: it is not asked for, or there.
  const std::string& absent() const { return opened_.absent; }

  // The library's name; "own kernels" where there is none.
  std::string name() const {
    return opened_.library != nullptr ? opened_.library->name() : "own kernels";
  }

  // Whether a library may be asked: own kernels take chunks, capped scores and linear biases.
  static bool may_compute(const host::AttentionShape& s);
  // Whether it was given to the library; else nothing was. As attention() and
  // attention_input_gradient() of kernels.hpp.
  bool forward(const Queue& q, View out, View lse, View qkv, const host::AttentionShape& s);
  bool backward(const Queue& q, View dqkv, View dout, View qkv, View out, View lse,
                const host::AttentionShape& s);

  // The record's line: what computed every shape that was met, and why own kernels where they did.
  std::string text() const;

 private:
  struct Chosen {
    AttentionPart part;                // of each call
    std::string own;                   // why own kernels; empty: the library
  };
  struct Case {
    AttentionPart whole;
    std::size_t workspace = 0;         // that there is
    bool aligned = true;
    auto operator<=>(const Case&) const = default;
  };

  const Chosen& chosen(const Case& c);
  Chosen choose(const Case& c) const;
  bool run(const Queue& q, const AttentionPart& whole, const AttentionPlaces& at);

  OpenedAttention opened_;
  bool repeats_;
  mutable std::mutex mutex_;
  std::map<Case, Chosen> chosen_;
};

}  // namespace exec::cuda
