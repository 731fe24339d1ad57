#include "exec/interpret/data_source.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/file.hpp"
#include "core/random.hpp"

namespace exec {
namespace {

constexpr std::uint64_t kStartStream = 1, kNoiseStream = 2, kFeatureStream = 3, kWindowStream = 4;
constexpr std::int64_t kMultiplier = 5, kIncrement = 17;  // of the affine rule
// Tokens that synthetic text uses, spread over the vocabulary. Of a whole vocabulary of 50,257 a
// run of a few steps meets each pair of tokens once or never, and can learn none of them.
constexpr std::int64_t kMostTokensUsed = 64;
constexpr std::size_t kMaxCorpusBytes = std::size_t{4} << 30;
constexpr std::size_t kLlmcHeaderBytes = 256 * 4;

// Files of tokens as karpathy/llm.c writes them (dev/data/data_common.py): a header of 256 i32
// {magic, version, tokens, 0...}, then the tokens.
struct LlmcKind { std::int32_t magic, version; std::size_t token_bytes; };
constexpr LlmcKind kLlmcKinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};  // GPT-2's, Llama 3's

const LlmcKind* llmc_kind(const std::string& text) {
  std::int32_t magic = 0;
  if (text.size() < sizeof magic) return nullptr;
  std::memcpy(&magic, text.data(), sizeof magic);
  const auto at = std::ranges::find(kLlmcKinds, magic, &LlmcKind::magic);
  return at == std::end(kLlmcKinds) ? nullptr : &*at;
}

core::Result<std::vector<std::int32_t>> llmc_tokens(const std::string& path,
                                                    const std::string& text,
                                                    const LlmcKind& kind) {
  if (text.size() < kLlmcHeaderBytes)
    return core::Problem{path, "a header of " + std::to_string(kLlmcHeaderBytes) + " bytes",
                         std::to_string(text.size()) + " bytes", "fetch or write it again"};
  std::array<std::int32_t, 3> header{};
  std::memcpy(header.data(), text.data(), sizeof header);
  if (header[1] != kind.version)
    return core::Problem{path,
                         "version " + std::to_string(kind.version) + " of this file of tokens",
                         std::to_string(header[1]), "write it with llm.c's dev/data"};
  const std::size_t there = (text.size() - kLlmcHeaderBytes) / kind.token_bytes;
  if (header[2] < 0 || static_cast<std::size_t>(header[2]) != there ||
      (text.size() - kLlmcHeaderBytes) % kind.token_bytes != 0)
    return core::Problem{path, "the " + std::to_string(header[2]) + " tokens that its header says",
                         std::to_string(text.size() - kLlmcHeaderBytes) + " bytes of " +
                             std::to_string(kind.token_bytes) + " a token",
                         "fetch or write it again"};
  std::vector<std::int32_t> tokens(there);
  for (std::size_t i = 0; i < there; ++i) {
    std::uint32_t token = 0;           // little-endian, as this machine is
    std::memcpy(&token, text.data() + kLlmcHeaderBytes + kind.token_bytes * i, kind.token_bytes);
    tokens[i] = static_cast<std::int32_t>(std::min<std::uint32_t>(token, INT32_MAX));
  }
  return tokens;
}

core::Result<std::vector<std::int32_t>> tokens_of(const std::string& path,
                                                  const std::string& text) {
  if (const LlmcKind* const kind = llmc_kind(text)) return llmc_tokens(path, text, *kind);
  std::vector<std::int32_t> tokens(text.size());
  std::ranges::transform(text, tokens.begin(),
                         [](char c) { return static_cast<unsigned char>(c); });
  return tokens;
}

std::int64_t tokens_used(const models::ModelSpec& spec) {
  return std::min(spec.vocab, kMostTokensUsed);
}

// Elements of what a sample arrives as, where it does not arrive as tokens, and classes of a row of
// the result.
struct Sizes { std::int64_t features = 0, classes = 0; };
Sizes sizes_of(const models::ModelSpec& spec, std::int64_t seq_len) {
  if (spec.family == models::Family::chain) return {spec.widths.front(), spec.widths.back()};
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
  source.seq_len_ = seq_len;
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
  auto text = core::read_file(path, kMaxCorpusBytes);
  if (!text.ok()) return text.problems();
  DataSource source = synthetic(spec, seq_len, seed);
  auto tokens = tokens_of(path, *text);
  if (!tokens.ok()) return tokens.problems();
  source.corpus_ = std::move(*tokens);
  if (static_cast<std::int64_t>(source.corpus_.size()) < seq_len + 1)
    return core::Problem{path, "at least " + std::to_string(seq_len + 1) + " tokens",
                         std::to_string(source.corpus_.size()),
                         "use a longer file or a shorter --seq"};
  const auto greatest = std::ranges::max_element(source.corpus_);
  if (*greatest >= spec.vocab)
    return core::Problem{path + " token " + std::to_string(greatest - source.corpus_.begin()),
                         "tokens below the vocabulary's " + std::to_string(spec.vocab),
                         std::to_string(*greatest), "tokenise with the model's vocabulary"};
  return source;
}

std::string DataSource::described() const {
  if (!corpus_.empty())
    return std::to_string(corpus_.size()) + " tokens of a file, in windows at random places";
  if (spec_.vocab == 0)
    return "synthetic: normal features, and a result that follows from them";
  return "synthetic: " + std::to_string(tokens_used(spec_)) +
         " of the vocabulary's tokens, each with two that may follow it (a loss of 0.69 when that "
         "is learnt)";
}

std::string DataSource::identity() const {
  if (corpus_.empty())
    return spec_.vocab > kMostTokensUsed ? "synthetic over " + std::to_string(kMostTokensUsed) +
                                               " tokens"
                                         : "synthetic";
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const std::int32_t token : corpus_)
    hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x100000001b3ULL;
  return std::to_string(corpus_.size()) + " tokens of checksum " + std::to_string(hash);
}

void DataSource::tokens(std::int64_t sample, int shift, std::span<std::int32_t> out) const {
  const auto n = static_cast<std::uint64_t>(sample);
  if (!corpus_.empty()) {
    const auto windows = corpus_.size() - static_cast<std::size_t>(seq_len_);
    const auto at = core::Random(seed_, kWindowStream).below(n, windows);
    // The last window's last targets of several, the corpus begins with.
    std::size_t from = at + static_cast<std::size_t>(shift);
    for (std::int32_t& token : out) token = corpus_[from++ % corpus_.size()];
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
