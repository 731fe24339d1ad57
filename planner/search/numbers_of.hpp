#pragma once
// Internal: a list of numbers for each of many strategies, by structure and micro-batch: stages,
// shares. A search adds tens of thousands and looks up a few, so all lists lie in one store, in the
// order in which they were added. Not thread-safe.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/check.hpp"

namespace planner {

class NumbersOf {
 public:
  // REQUIRES: of structures and their micro-batches in ascending order.
  void add(std::uint32_t structure, std::int64_t micro_batch,
           std::span<const std::int64_t> numbers) {
    const Row row{structure, micro_batch, numbers_.size(), numbers.size()};
    PLANNER_CHECK(rows_.empty() || rows_.back().key() < row.key(), "lists in ascending order");
    rows_.push_back(row);
    numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  }
  // nullopt: none was added.
  std::optional<std::span<const std::int64_t>> at(std::uint32_t structure,
                                                  std::int64_t micro_batch) const {
    const std::pair key{structure, micro_batch};
    const auto row = std::ranges::lower_bound(rows_, key, {}, &Row::key);
    if (row == rows_.end() || row->key() != key) return std::nullopt;
    return std::span(numbers_).subspan(row->first, row->count);
  }
  // REQUIRES: of other strategies.
  void join(NumbersOf&& other) {
    const auto own = std::ssize(rows_);
    for (Row row : other.rows_) {
      row.first += numbers_.size();
      rows_.push_back(row);
    }
    numbers_.insert(numbers_.end(), other.numbers_.begin(), other.numbers_.end());
    std::ranges::inplace_merge(rows_, rows_.begin() + own, {}, &Row::key);
    other.clear();
  }
  void clear() {
    rows_.clear();
    numbers_.clear();
  }

 private:
  struct Row {
    std::uint32_t structure = 0;
    std::int64_t micro_batch = 1;
    std::size_t first = 0, count = 0;  // in numbers_
    std::pair<std::uint32_t, std::int64_t> key() const { return {structure, micro_batch}; }
  };
  std::vector<Row> rows_;
  std::vector<std::int64_t> numbers_;
};

}  // namespace planner
