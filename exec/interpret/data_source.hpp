#pragma once
// Where training samples come from. Sample n of a step is the same whatever rank asks for it, so
// every layout of ranks trains on the same data. Immutable after opening; thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/result.hpp"
#include "exec/interpret/corpus.hpp"
#include "models/spec.hpp"

namespace exec {

class DataSource {
 public:
  // Synthetic data that can be learnt in a few steps: at most 64 tokens of the vocabulary follow an
  // affine rule with one random bit (loss ln 2); features are normal, their targets a fixed
  // function of them.
  static DataSource synthetic(const models::ModelSpec& spec, std::int64_t seq_len,
                              std::uint64_t seed);
  // Windows at random places of a file of tokens (corpus.hpp). Errors: those of Corpus::open, a
  // file shorter than a sample, not a language model.
  static core::Result<DataSource> open(const std::string& path, const models::ModelSpec& spec,
                                       std::int64_t seq_len, std::uint64_t seed);

  // For people: what it is, and where it is synthetic what can be learnt.
  std::string described() const;
  // What tells this data from other data: "synthetic" and how, or the length and checksum of the
  // tokens.
  std::string identity() const;

  // Tokens of sample `sample` (counted over all steps) at [0, n) + shift; shift 1: the targets.
  void tokens(std::int64_t sample, int shift, std::span<std::int32_t> out) const;
  // Token types: as many pieces of a sequence as there are types, one behind the other.
  void types(std::span<std::int32_t> out) const;
  // Classes of a feature sample, one for each row of the result (chains: one).
  void labels(std::int64_t sample, std::span<std::int32_t> out) const;
  void features(std::int64_t sample, std::span<double> out) const;
  void feature_targets(std::int64_t sample, std::span<double> out) const;

 private:
  models::ModelSpec spec_;
  std::int64_t seq_len_ = 1;
  std::uint64_t seed_ = 0;
  std::int64_t features_ = 0;          // of a sample
  std::int64_t classes_ = 0;           // of a row of the result (chains, graphs)
  std::optional<Corpus> corpus_;       // nothing: synthetic
};

}  // namespace exec
