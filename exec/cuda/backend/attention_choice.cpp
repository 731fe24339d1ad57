#include "exec/cuda/backend/attention_choice.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "sim/cost/launches.hpp"

namespace exec::cuda {
namespace {

constexpr std::size_t kAlignment = 16;  // of what a library reads in one access
core::Bytes size_of(std::size_t n) { return core::Bytes(static_cast<std::int64_t>(n)); }

// Heads of keys of one sample.
std::int64_t units(const AttentionPart& p) { return p.samples * p.kv_heads; }

// The largest of the equal parts that have at most so many units.
AttentionPart part_of(const AttentionPart& whole, std::int64_t at_most) {
  const cost::AttentionParts size = cost::largest_parts(whole.samples, whole.kv_heads, at_most);
  AttentionPart part = whole;
  part.samples = size.samples;
  part.kv_heads = size.kv_heads;
  part.heads = whole.heads / whole.kv_heads * part.kv_heads;
  return part;
}

AttentionPart whole_of(const View& qkv, bool backward, const host::AttentionShape& s,
                       bool repeats) {
  const double plain = 1.0 / std::sqrt(static_cast<double>(s.head_dim));
  return {qkv.type,   backward,   s.samples,       s.seq,                s.heads,
          s.kv_heads, s.head_dim, s.qkv_columns(), s.heads * s.values(), repeats,
          s.values(), s.causal,   s.scale != 0 ? s.scale : plain,
          s.window < s.seq ? s.window : 0};
}

std::byte* data(const View& v) { return static_cast<std::byte*>(v.data); }

// q, k and v of a row of all of them.
std::array<std::byte*, 3> heads_of(const View& qkv, const AttentionPart& whole) {
  const auto head = static_cast<std::size_t>(whole.head_dim * core::bits(qkv.type) / 8);
  std::byte* const k = data(qkv) + static_cast<std::size_t>(whole.heads) * head;
  return {data(qkv), k, k + static_cast<std::size_t>(whole.kv_heads) * head};
}

AttentionPlaces moved(const AttentionPlaces& at, const AttentionPart& whole, std::int64_t sample,
                      std::int64_t kv_head) {
  const std::int64_t width = core::bits(whole.type) / 8, statistic = sizeof(float),
                     head = kv_head * (whole.heads / whole.kv_heads);
  const std::int64_t row = sample * whole.seq * whole.row, out = sample * whole.seq * whole.out_row;
  const auto by = [](std::byte* p, std::int64_t bytes) { return p == nullptr ? p : p + bytes; };
  const std::int64_t q = (row + head * whole.head_dim) * width,
                     k = (row + kv_head * whole.head_dim) * width,
                     v = (row + kv_head * whole.value_dim) * width,
                     o = (out + head * whole.value_dim) * width,
                     lse = (sample * whole.heads + head) * whole.seq * statistic;
  return {by(at.q, q),    by(at.k, k),  by(at.v, v),  by(at.out, o), by(at.lse, lse),
          by(at.dout, o), by(at.dq, q), by(at.dk, k), by(at.dv, v)};
}

bool aligned(const AttentionPlaces& at, const AttentionPart& whole) {
  const auto of = [](std::byte* p) {
    return reinterpret_cast<std::uintptr_t>(p) % kAlignment == 0;
  };
  const bool all = std::ranges::all_of(
      std::array{at.q, at.k, at.v, at.out, at.lse, at.dout, at.dq, at.dk, at.dv}, of);
  const auto whole_chunks = [&](std::int64_t head) {
    return static_cast<std::size_t>(head * core::bits(whole.type) / 8) % kAlignment == 0;
  };
  return all && whole_chunks(whole.head_dim) && whole_chunks(whole.value_dim);
}

}  // namespace

bool AttentionChoice::may_compute(const host::AttentionShape& s) {
  return s.chunk == 0 && s.soft_cap == 0 && s.biases.all_heads == 0;
}

AttentionChoice::AttentionChoice(AttentionKernel asked, Api& api, bool repeats)
    : repeats_(repeats) {
  if (asked != AttentionKernel::own) opened_ = api.open_attention();
}

AttentionChoice::Chosen AttentionChoice::choose(const Case& c) const {
  if (!c.aligned) return {c.whole, "heads or views lie at no multiples of 16 bytes"};
  for (AttentionPart part = c.whole;;) {
    const AttentionLibrary::Prepared p = opened_.library->prepare(part);
    if (!p.refused.empty()) return {part, p.refused};
    if (p.workspace <= c.workspace) return {part, {}};
    if (units(part) == 1)
      return {part, fmt::format("a head of keys takes a workspace of {}, there are {}",
                                core::to_text(size_of(p.workspace)),
                                core::to_text(size_of(c.workspace)))};
    // What it takes grows with heads and samples: as many as fit, if that is all it grows with.
    const auto fit = static_cast<std::int64_t>(static_cast<double>(units(part)) *
                                               static_cast<double>(c.workspace) /
                                               static_cast<double>(p.workspace));
    part = part_of(c.whole, std::clamp<std::int64_t>(fit, 1, units(part) - 1));
    if (c.whole.backward && units(c.whole) > cost::kMostBackwardCalls * units(part))
      return {part, fmt::format("it would take {} calls within the workspace of {}",
                                units(c.whole) / units(part),
                                core::to_text(size_of(c.workspace)))};
    if (part.heads * part.seq * sizeof(float) % kAlignment != 0)
      return {part, "its parts' statistics would lie at no multiples of 16 bytes"};
  }
}

const AttentionChoice::Chosen& AttentionChoice::chosen(const Case& c) {
  const std::scoped_lock lock(mutex_);
  const auto found = chosen_.find(c);
  return found != chosen_.end() ? found->second : chosen_.emplace(c, choose(c)).first->second;
}

bool AttentionChoice::run(const Queue& q, const AttentionPart& whole, const AttentionPlaces& at) {
  const Chosen& c = chosen({whole, q.workspace_bytes, aligned(at, whole)});
  if (!c.own.empty()) return false;
  for (std::int64_t sample = 0; sample < whole.samples; sample += c.part.samples)
    for (std::int64_t head = 0; head < whole.kv_heads; head += c.part.kv_heads)
      opened_.library->run(c.part, moved(at, whole, sample, head), q.workspace, q.stream);
  return true;
}

bool AttentionChoice::forward(const Queue& q, View out, View lse, View qkv,
                              const host::AttentionShape& s) {
  if (opened_.library == nullptr) return false;
  const AttentionPart whole = whole_of(qkv, false, s, repeats_);
  const auto [query, key, value] = heads_of(qkv, whole);
  return run(q, whole,
             {query, key, value, data(out), data(lse), nullptr, nullptr, nullptr, nullptr});
}

bool AttentionChoice::backward(const Queue& q, View dqkv, View dout, View qkv, View out, View lse,
                               const host::AttentionShape& s) {
  if (opened_.library == nullptr) return false;
  const AttentionPart whole = whole_of(qkv, true, s, repeats_);
  const auto [query, key, value] = heads_of(qkv, whole);
  const auto [dq, dk, dv] = heads_of(dqkv, whole);
  return run(q, whole, {query, key, value, data(out), data(lse), data(dout), dq, dk, dv});
}

std::string AttentionChoice::text() const {
  if (opened_.library == nullptr)
    return opened_.absent.empty() ? "own kernels" : "own kernels: " + opened_.absent;
  const std::scoped_lock lock(mutex_);
  std::string said;
  for (const auto& [c, chosen] : chosen_) {
    const AttentionPart& w = c.whole;
    const std::string windows = w.window > 0 ? fmt::format(", windows of {}", w.window) : "";
    said += fmt::format("{}{} of {} x {}, {} heads on {} of {}, {}{}: ", said.empty() ? "" : "; ",
                        w.backward ? "backward" : "forward", w.samples, w.seq, w.heads, w.kv_heads,
                        w.head_dim, core::name(w.type), windows);
    const std::int64_t calls = units(w) / units(chosen.part);
    said += !chosen.own.empty() ? "own kernels, " + chosen.own
            : calls == 1        ? opened_.library->name()
                                : fmt::format("{} in {} calls", opened_.library->name(), calls);
  }
  return said.empty() ? opened_.library->name() + ", not called" : said;
}

}  // namespace exec::cuda
