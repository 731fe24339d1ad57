#include "tests/property/reference_slices.hpp"

#include "tests/property/reference_rules.hpp"

namespace tests {

namespace host = exec::host;

std::vector<std::int64_t> positions_of(std::int64_t seq_len, std::int64_t rank,
                                       std::int64_t ranks) {
  const std::int64_t rows = seq_len / ranks, early = rows / 2;
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < early; ++i) positions.push_back(rank * early + i);
  for (std::int64_t i = 0; i < rows - early; ++i)
    positions.push_back(seq_len - (rank + 1) * (rows - early) + i);
  return positions;
}

Slices::Slices(std::int64_t seq_len, std::int64_t ranks, planner::ContextMethod method)
    : seq_len_(seq_len), method_(method), given_(static_cast<std::size_t>(ranks)), all_(ranks) {
  for (std::int64_t r = 0; r < ranks; ++r) positions_.push_back(positions_of(seq_len, r, ranks));
}

void Slices::take(MicroBatch& batch, std::int64_t rank) {
  const std::vector<std::int64_t>& own = positions(rank);
  const auto rows = static_cast<std::int64_t>(own.size());
  for (Typed* tokens : {&batch.inputs, &batch.targets}) {
    Typed taken(core::DType::i32, batch.samples * rows);
    for (std::int64_t r = 0; r < taken.size(); ++r)
      host::copy(taken.at(r),
                 tokens->at(r / rows * seq_len_ + own[static_cast<std::size_t>(r % rows)]), 1);
    *tokens = std::move(taken);
  }
  batch.slices = this;
  batch.slice = rank;
  batch.seq_len = rows;
}

template <class Use>
void Slices::each_row(std::int64_t samples, Use&& use) const {
  std::int64_t row = 0;
  for (const auto& of_rank : positions_)
    for (std::int64_t s = 0; s < samples; ++s)
      for (const std::int64_t position : of_rank) use(row++, s * seq_len_ + position);
}

Typed Slices::gather(std::int64_t rank, const Typed& own, std::int64_t columns) {
  given_[static_cast<std::size_t>(rank)] = own;
  all_.arrive_and_wait();
  Typed all(own.type(), own.size() * ranks());
  const std::int64_t rows = own.size() / columns;
  each_row(rows * ranks() / seq_len_, [&](std::int64_t from, std::int64_t to) {
    host::copy(all.at(to * columns),
               given_[static_cast<std::size_t>(from / rows)].at(from % rows * columns), columns);
  });
  all_.arrive_and_wait();
  return all;
}

Typed Slices::scatter(std::int64_t rank, const Typed& addends, std::int64_t columns) {
  Typed by_rank(addends.type(), addends.size()), by_position = addends;
  each_row(addends.size() / columns / seq_len_, [&](std::int64_t to, std::int64_t from) {
    host::copy(by_rank.at(to * columns), by_position.at(from * columns), columns);
  });
  return sum_of_parts(rank, by_rank);
}

std::vector<Typed> Slices::share(std::int64_t rank, const Typed& own) {
  given_[static_cast<std::size_t>(rank)] = own;
  all_.arrive_and_wait();
  std::vector<Typed> all = given_;
  all_.arrive_and_wait();
  return all;
}

Typed Slices::sum_of_parts(std::int64_t rank, const Typed& by_rank) {
  Typed sum(by_rank.type(), by_rank.size());
  given_[static_cast<std::size_t>(rank)] = by_rank;
  all_.arrive_and_wait();
  std::vector<Typed> parts = given_;
  fold(parts, program::Algorithm::ring, 0, sum.size(), sum);
  Typed own(sum.type(), sum.size() / ranks());
  host::copy(own.at(), sum.at(rank * own.size()), own.size());
  all_.arrive_and_wait();
  return own;
}

}  // namespace tests
