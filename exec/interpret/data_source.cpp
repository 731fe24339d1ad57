#include "exec/interpret/data_source.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/random.hpp"

namespace exec {
namespace {

constexpr std::uint64_t kStartStream = 1, kNoiseStream = 2, kFeatureStream = 3, kWindowStream = 4;
constexpr std::int64_t kMultiplier = 5, kIncrement = 17;  // of the affine rule
// Tokens that synthetic text uses, spread over the vocabulary. Of a whole vocabulary of 50,257 a
// run of a few steps meets each pair of tokens once or never, and can learn none of them.
constexpr std::int64_t kMostTokensUsed = 64;

std::int64_t tokens_used(const models::ModelSpec& spec) {
  return std::min(spec.vocab, kMostTokensUsed);
}

// Elements of what a sample arrives as, where it does not arrive as tokens, and classes of a row of
// the result.
struct Sizes { std::int64_t features = 0, classes = 0; };
Sizes sizes_of(const models::ModelSpec& spec, std::int64_t seq_len) {
  if (spec.family == models::Family::chain) return {spec.widths.front(), spec.widths.back()};
  if (spec.family == models::Family::graph && spec.vocab > 0) return {};
  if (spec.family == models::Family::graph)
    return {models::elements_of(spec.graph.input_shape),
            models::analyse(spec.graph).output_shape.back()};
  return {seq_len * spec.variants.token_features, 0};
}

}  // namespace

DataSource DataSource::synthetic(const models::ModelSpec& spec, std::int64_t seq_len,
                                 std::uint64_t seed) {
  DataSource source;
  source.spec_ = spec;
  const std::int64_t tokens = models::tokens_of(spec.graph);
  source.seq_len_ = tokens > 0 ? tokens : seq_len;
  source.seed_ = seed;
  const Sizes sizes = sizes_of(spec, seq_len);
  source.features_ = sizes.features;
  source.classes_ = sizes.classes;
  return source;
}

core::Result<DataSource> DataSource::open(const std::string& path, const models::ModelSpec& spec,
                                          std::int64_t seq_len, std::uint64_t seed) {
  if (spec.vocab == 0)
    return core::Problem{"--data " + path, "synthetic data for a model without a vocabulary",
                         "a file",
                         "use --data synthetic"};
  auto corpus = Corpus::open(path, spec.vocab);
  if (!corpus.ok()) return corpus.problems();
  DataSource source = synthetic(spec, seq_len, seed);
  const std::uint64_t tokens = corpus->tokens();
  const std::uint64_t least = static_cast<std::uint64_t>(source.seq_len_) + 1;
  if (tokens < least)
    return core::Problem{path, "at least " + std::to_string(least) + " tokens",
                         std::to_string(tokens), "use a longer file or a shorter --seq"};
  source.corpus_ = std::move(*corpus);
  return source;
}

std::string DataSource::described() const {
  if (corpus_)
    return std::to_string(corpus_->tokens()) + " tokens of a file, in windows at random places";
  if (spec_.vocab == 0)
    return "synthetic: normal features, and a result that follows from them";
  return "synthetic: " + std::to_string(tokens_used(spec_)) +
         " of the vocabulary's tokens, each with two that may follow it (a loss of 0.69 when that "
         "is learnt)";
}

std::string DataSource::identity() const {
  if (!corpus_)
    return spec_.vocab > kMostTokensUsed ? "synthetic over " + std::to_string(kMostTokensUsed) +
                                               " tokens"
                                         : "synthetic";
  return std::to_string(corpus_->tokens()) + " tokens of checksum " +
         std::to_string(corpus_->checksum());
}

void DataSource::tokens(std::int64_t sample, int shift, std::span<std::int32_t> out) const {
  const auto n = static_cast<std::uint64_t>(sample);
  if (corpus_) {
    const auto windows = corpus_->tokens() - static_cast<std::uint64_t>(seq_len_);
    const auto at = core::Random(seed_, kWindowStream).below(n, windows);
    // The last window's last targets of several, the corpus begins with.
    corpus_->read(at + static_cast<std::uint64_t>(shift), out);
    return;
  }
  const core::Random noise(seed_, kNoiseStream);
  const std::int64_t vocab = spec_.vocab, used = tokens_used(spec_);
  auto place = static_cast<std::int64_t>(
      core::Random(seed_, kStartStream).below(n, static_cast<std::uint64_t>(used)));
  const auto length = static_cast<std::uint64_t>(seq_len_ + 1);
  for (std::size_t i = 0; i < out.size() + static_cast<std::size_t>(shift); ++i) {
    if (i >= static_cast<std::size_t>(shift))
      out[i - static_cast<std::size_t>(shift)] = static_cast<std::int32_t>(place * vocab / used);
    place = (kMultiplier * place + kIncrement +
             static_cast<std::int64_t>(noise.below(n * length + i, 2))) % used;
  }
}

void DataSource::types(std::span<std::int32_t> out) const {
  const auto n = static_cast<std::int64_t>(out.size());
  for (std::int64_t i = 0; i < n; ++i)
    out[static_cast<std::size_t>(i)] =
        static_cast<std::int32_t>(i * spec_.variants.token_types / n);
}

void DataSource::features(std::int64_t sample, std::span<double> out) const {
  const core::Random random(seed_, kFeatureStream);
  const auto first = static_cast<std::uint64_t>(sample * features_);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(random.normal(first + i));
}

void DataSource::labels(std::int64_t sample, std::span<std::int32_t> out) const {
  const auto choices = static_cast<std::size_t>(std::min(features_, classes_));
  const auto all = static_cast<std::size_t>(features_);
  std::vector<double> x(std::min(all, choices * out.size()));
  features(sample, x);
  for (std::size_t r = 0; r < out.size(); ++r) {
    const auto at = [&](std::size_t i) { return x[(r * choices + i) % x.size()]; };
    std::size_t best = 0;
    for (std::size_t i = 1; i < choices; ++i)
      if (at(i) > at(best)) best = i;
    out[r] = static_cast<std::int32_t>(best);
  }
}

void DataSource::feature_targets(std::int64_t sample, std::span<double> out) const {
  std::vector<double> x(
      static_cast<std::size_t>(std::min(features_, static_cast<std::int64_t>(out.size()))));
  features(sample, x);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = 0.5 * x[i % x.size()];
}

}  // namespace exec
