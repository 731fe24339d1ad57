#include <vector>

#include "core/random.hpp"
#include "exec/interpret/initialise.hpp"
#include "tests/catch.hpp"

namespace {

// The second of two tensor ranks' columns of [rows, 2 x columns].
program::PlacedParameter half_of(std::int64_t rows, std::int64_t columns) {
  program::PlacedParameter placed;
  models::Parameter& p = placed.parameter;
  p.shape = {rows, columns};
  p.full_shape = {rows, 2 * columns};
  p.elements = rows * columns;
  p.split_axis = 1;
  placed.path = "h.3.attn.out.weight";
  return placed;
}

}  // namespace

TEST_CASE("first values are those of their place in the whole tensor, drawn whole or in pieces") {
  const std::int64_t rows = 611, columns = 733;  // more than a thread's part, at odd places
  const program::PlacedParameter placed = half_of(rows, columns);
  for (const bool f64 : {false, true}) {
    const std::vector<double> whole = exec::initial_values(placed, 7, 1, f64);
    const core::Random random(7, exec::stream_of(placed.path));
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const std::int64_t full = i / columns * 2 * columns + columns + i % columns;
      const double exact = 0.02 * random.normal(static_cast<std::uint64_t>(full));
      wrong += whole[static_cast<std::size_t>(i)] != (f64 ? exact : static_cast<float>(exact));
    }
    CHECK(wrong == 0);
    const std::int64_t cuts[] = {0, 1, 131'071, 262'145, 262'145, rows * columns};
    std::vector<double> pieces;
    for (std::size_t i = 0; i + 1 < std::size(cuts); ++i) {
      std::vector<double> piece(static_cast<std::size_t>(cuts[i + 1] - cuts[i]), -1.0);
      exec::initial_values(placed, 7, 1, f64, 0, cuts[i], piece);
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    CHECK(pieces == whole);
  }
}
