#include "exec/host/convert.hpp"
#include "exec/host/kernels.hpp"

namespace exec::host {
namespace {

const std::int32_t* indices(const View& v) {
  PLANNER_CHECK(v.type == core::DType::i32, "tokens are i32");
  return static_cast<const std::int32_t*>(v.data);
}

// y[0:n) += x[0:n).
template <class T>
void accumulate_row(const View& y, const View& x, std::int64_t n) {
  elementwise<T>(n, y, [](T a, T b) { return a + b; }, y, x);
}

}  // namespace

void token_embedding(View y, View wte, View tokens, std::int64_t rows, std::int64_t h,
                     TableShard shard) {
  const std::int32_t* const token = indices(tokens);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t row = token[r] - shard.first_row;
    if (row >= 0 && row < shard.rows) {
      cast(y.at(r * h), wte.at(row * h), h);
    } else {
      fill_zero(y.at(r * h), h);
    }
  }
}

void token_embedding_weight_gradient(View dwte, View dy, View tokens, std::int64_t rows,
                                     std::int64_t h, TableShard shard) {
  const std::int32_t* const token = indices(tokens);
  with_compute_type(dy.type, [&]<class T>() {
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t row = token[r] - shard.first_row;
      if (row < 0 || row >= shard.rows) continue;
      accumulate_row<T>(dwte.at(row * h), dy.at(r * h), h);
    }
  });
}

void type_embedding(View y, View x, View wtt, View types, std::int64_t rows, std::int64_t h) {
  const std::int32_t* const type = indices(types);
  for (std::int64_t r = 0; r < rows; ++r) add(y.at(r * h), x.at(r * h), wtt.at(type[r] * h), h);
}

void type_embedding_weight_gradient(View dwtt, View dy, View types, std::int64_t rows,
                                    std::int64_t h) {
  const std::int32_t* const type = indices(types);
  with_compute_type(dy.type, [&]<class T>() {
    for (std::int64_t r = 0; r < rows; ++r)
      accumulate_row<T>(dwtt.at(type[r] * h), dy.at(r * h), h);
  });
}

void position_embedding(View y, View x, View wpe, std::int64_t rows, std::int64_t h,
                        std::int64_t seq) {
  for (std::int64_t r = 0; r < rows; ++r) add(y.at(r * h), x.at(r * h), wpe.at(r % seq * h), h);
}

void position_embedding_weight_gradient(View dwpe, View dy, std::int64_t rows, std::int64_t h,
                                        std::int64_t seq) {
  with_compute_type(dy.type, [&]<class T>() {
    for (std::int64_t r = 0; r < rows; ++r) {
      accumulate_row<T>(dwpe.at(r % seq * h), dy.at(r * h), h);
    }
  });
}

}  // namespace exec::host
