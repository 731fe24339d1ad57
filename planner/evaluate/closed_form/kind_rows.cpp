#include "planner/evaluate/closed_form/kind_rows.hpp"

#include <algorithm>

#include "core/repeats.hpp"

namespace planner::closed_form {
namespace {

using stage::Group;
using stage::Row;

// Uses one by one as rows of uses alike. A use of the same layer as the one before begins a row.
std::vector<Row> rows_of(const stage::Pass& pass, std::span<const std::uint8_t> kinds) {
  std::vector<Row> rows;
  const auto add = [&](Row one) {
    if (one.layer != Row::kNoLayer) one.use.kind = kinds[static_cast<std::size_t>(one.layer)];
    if (!rows.empty() && !one.same_layer && rows.back().use == one.use) {
      Row& last = rows.back();
      const std::int64_t next = last.layer + last.count * one.step;
      if (one.layer == next && (last.count == 1 || last.step == one.step)) {
        last.step = one.step;
        ++last.count;
        return;
      }
    }
    rows.push_back(one);
  };
  for (const Group& g : pass.groups)
    for (std::int64_t t = 0; t < g.times; ++t)
      for (std::size_t r = 0; r < g.count; ++r)
        for (std::int64_t i = 0; i < g.rows[r].count; ++i) {
          Row one = g.rows[r];
          if (one.layer != Row::kNoLayer) one.layer += t * g.shift + i * one.step;
          one.count = 1;
          one.same_layer = one.same_layer && i == 0;
          add(one);
        }
  return rows;
}

bool alike(const Row& a, const Row& b, std::int64_t shift) {
  return a.use == b.use && a.count == b.count && a.same_layer == b.same_layer &&
         (a.count == 1 || a.step == b.step) && a.layer != Row::kNoLayer &&
         a.layer + shift == b.layer;
}

// The repeated rows from `at`; else the one row.
Group group_from(const std::vector<Row>& rows, std::size_t at) {
  Group group;
  const auto shift = [&](std::size_t length) { return rows[at + length].layer - rows[at].layer; };
  const core::Repeats found = core::most_repeated(
      at, rows.size(), group.rows.size(), [&](std::size_t i, std::size_t length) {
        return alike(rows[i - length], rows[i], shift(length));
      });
  group.count = found.length;
  group.times = static_cast<std::int64_t>(found.times);
  if (found.times > 1) group.shift = shift(found.length);
  std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(at), group.count, group.rows.begin());
  return group;
}

}  // namespace

void KindRows::take(const std::vector<int>& layers) {
  if (!layers_.empty()) return;
  layers_.assign(layers.begin(), layers.end());
  several_ = std::ranges::any_of(layers_, [](std::uint8_t kind) { return kind > 0; });
}

std::int64_t KindRows::row(std::int64_t first, std::int64_t count) {
  if (!several_) return 0;
  const auto [known, fresh] = known_.try_emplace(std::pair{first, count}, 0);
  if (!fresh) return known->second;
  const auto begin = layers_.begin() + static_cast<std::ptrdiff_t>(first);
  const Kinds kinds(begin, begin + static_cast<std::ptrdiff_t>(count));
  if (std::ranges::all_of(kinds, [](std::uint8_t kind) { return kind == 0; })) return 0;
  const auto at = std::ranges::find(rows_, kinds);
  known->second = at - rows_.begin();
  if (at == rows_.end() && known->second < kMost) rows_.push_back(kinds);
  return known->second;
}

void by_kind(const stage::Pass& pass, std::span<const std::uint8_t> kinds, stage::Pass& out) {
  const std::vector<Row> rows = rows_of(pass, kinds);
  out.groups.clear();
  for (std::size_t at = 0; at < rows.size();) {
    out.groups.push_back(group_from(rows, at));
    at += out.groups.back().count * static_cast<std::size_t>(out.groups.back().times);
  }
}

}  // namespace planner::closed_form
