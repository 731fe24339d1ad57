// Matrices in 8 bits on an emulated grid, or a GPU: casts against exec/host bit by bit, products
// through the order in which a library finds their operands.
#include "exec/host/f8.hpp"

#include "exec/cuda/api/stored_matrix.hpp"
#include "exec/host/kernels.hpp"
#include "tests/unit/cuda/support.hpp"

using namespace cuda_tests;
using planner::F8Matrix;
using planner::F8Operand;
using planner::F8Scaling;
namespace host = exec::host;

namespace {

F8Matrix matrix(F8Operand operand, bool by_columns, std::int64_t groups, std::int64_t rows,
                std::int64_t columns) {
  return {F8Scaling::tensorwise, operand, by_columns, groups, rows, columns};
}

// Codes of a matrix, and the view that kernels take.
struct Codes {
  explicit Codes(const F8Matrix& m) : of(m), bytes(DType::u8, m.bytes().value()) {}
  View view() { return {bytes.view().data, DType::f8, &of}; }
  F8Matrix of;
  Buffer bytes;
};

// One matrix by rows and by columns.
struct BothOrders {
  BothOrders(F8Operand operand, std::int64_t groups, std::int64_t rows, std::int64_t columns)
      : by_rows(matrix(operand, false, groups, rows, columns)),
        by_columns(matrix(operand, true, groups, rows, columns)) {}
  Codes by_rows, by_columns;
};

BothOrders cast(Buffer& values, F8Operand operand, std::int64_t rows, std::int64_t columns) {
  BothOrders codes(operand, 1, rows, columns);
  host::cast_to_f8(codes.by_rows.view(), values);
  host::cast_to_f8(codes.by_columns.view(), values);
  return codes;
}

void check_casts(Device& device, Buffer& values, F8Operand operand, std::int64_t groups,
                 std::int64_t rows, std::int64_t columns) {
  BothOrders expected(operand, groups, rows, columns);
  host::cast_to_f8(expected.by_rows.view(), values);
  host::cast_to_f8(expected.by_columns.view(), values);
  for (const bool together : {true, false}) {
    BothOrders found(operand, groups, rows, columns);
    const View views[] = {found.by_rows.view(), found.by_columns.view()};
    const cuda::Queue q = device.queue();
    if (together) {
      cuda::cast_to_f8(q, views, values);
    } else {
      for (const View& one : views) cuda::cast_to_f8(q, std::span(&one, 1), values);
    }
    device.wait();
    CAPTURE(static_cast<int>(operand), groups, rows, columns, together);
    CHECK(found.by_rows.bytes == expected.by_rows.bytes);
    CHECK(found.by_columns.bytes == expected.by_columns.bytes);
  }
}

struct CastCell { std::int64_t groups, rows, columns; };
// Less than a tile and several; rows that columns of codes cannot be written in sixteens of.
constexpr CastCell kCastCells[] = {
    {1, 16, 16}, {3, 33, 48}, {2, 64, 80}, {1, 130, 272}, {1, 1, 32}};

}  // namespace

TEST_CASE("matrices are cast to 8 bits on the grid as on the host, in either order and in both") {
  Random r(71);
  Device device;
  for (const DType type : kTypes)
    for (const CastCell& c : kCastCells)
      for (const F8Operand operand : {F8Operand::input, F8Operand::gradient}) {
        Values v;
        for (std::int64_t i = 0; i < c.groups * c.rows * c.columns; ++i)
          v.push_back(r() * std::exp2(r() * 12));
        Buffer values(type, v);
        check_casts(device, values, operand, c.groups, c.rows, c.columns);
      }
}

TEST_CASE("a matrix of zeros has the scale 1, and one with an infinity becomes NaN") {
  Device device;
  Buffer values = zeros(DType::bf16, 64 * 32);
  check_casts(device, values, F8Operand::weight, 1, 64, 32);
  values.put_at(77, std::numeric_limits<double>::infinity());
  Codes found(matrix(F8Operand::input, false, 1, 64, 32));
  const View view = found.view();
  cuda::cast_to_f8(device.queue(), std::span(&view, 1), values);
  device.wait();
  std::vector<float> read(64 * 32);
  host::load_f8(found.view(), 64 * 32, read.data());
  CHECK(std::ranges::all_of(read, [](float x) { return std::isnan(x); }));
}

namespace {

// An operand as a library reads it: element (i, l) of [outer, summed], where the summed ones lie
// behind each other.
double element(const cuda::StoredMatrix& m, planner::F8Format format, std::int64_t i,
               std::int64_t l) {
  const auto* const codes = static_cast<const std::uint8_t*>(m.data);
  return static_cast<double>(from_f8(format, codes[i * m.leading + l])) *
         static_cast<double>(*m.scale);
}

// Both operands lie as cuBLASLt wants them, and stand for the product that the host computes.
void check_stored(const host::MixedGemm& g) {
  const cuda::StoredMatrix a = cuda::stored(g.a), b = cuda::stored(g.b);
  CHECK_FALSE(a.transposed);
  CHECK(b.transposed);
  Buffer expected(DType::f32, g.m * g.n);
  host::MixedGemm on_host = g;
  on_host.c = {expected, g.n};
  Scratch ws(host::mixed_gemm_workspace(DType::f32, g.m, g.n, g.k));
  host::mixed_gemm(DType::f32, on_host, ws);
  Values found;
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t j = 0; j < g.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < g.k; ++l)
        sum += element(a, g.a.view.f8->format(), i, l) * element(b, g.b.view.f8->format(), j, l);
      found.push_back(sum);
    }
  Buffer own(DType::f32, found);
  CHECK(difference(own, expected) < 1e-6);
}

constexpr std::int64_t kRows = 48, kN = 32, kK = 64;

}  // namespace

TEST_CASE("a library finds both operands with what is summed behind each other") {
  Random r(72);
  Buffer x = random(r, DType::bf16, kRows * kK), w = random(r, DType::bf16, kN * kK),
         dy = random(r, DType::bf16, kRows * kN);
  BothOrders cx = cast(x, F8Operand::input, kRows, kK), cw = cast(w, F8Operand::weight, kN, kK),
             cdy = cast(dy, F8Operand::gradient, kRows, kN);
  check_stored({.m = kRows, .n = kN, .k = kK,
                .a = {cx.by_rows.view(), kK}, .b = {cw.by_rows.view(), kK, true},
                .c = {{}, kN}});
  check_stored({.m = kRows, .n = kK, .k = kN,
                .a = {cdy.by_rows.view(), kN}, .b = {cw.by_columns.view(), kK}, .c = {{}, kK}});
  check_stored({.m = kN, .n = kK, .k = kRows,
                .a = {cdy.by_columns.view(), kN, true}, .b = {cx.by_columns.view(), kK},
                .c = {{}, kK}});
}

TEST_CASE("linear layers multiply operands in 8 bits as on the host") {
  Random r(73);
  for (const DType type : {DType::bf16, DType::f32}) {
    Device device;
    const cuda::Queue q = device.queue();
    const host::LinearShape s{kRows, kN, kK, kN, kK};
    Buffer x = random(r, DType::bf16, kRows * kK), w = random(r, DType::bf16, kN * kK),
           dy = random(r, DType::bf16, kRows * kN), bias = random(r, DType::bf16, kN);
    BothOrders cx = cast(x, F8Operand::input, kRows, kK), cw = cast(w, F8Operand::weight, kN, kK),
               cdy = cast(dy, F8Operand::gradient, kRows, kN);
    Buffer y(DType::bf16, kRows * kN), y2 = y, dx(DType::bf16, kRows * kK), dx2 = dx;
    Buffer dw = random(r, type, kN * kK), dw2 = dw;
    Scratch ws(host::mixed_gemm_workspace(DType::bf16, kRows, kK, kK));
    cuda::linear(q, y, cx.by_rows.view(), cw.by_rows.view(), bias, s, false);
    cuda::linear_input_gradient(q, dx, cdy.by_rows.view(), cw.by_columns.view(), s, false);
    cuda::linear_weight_gradient(q, dw, cdy.by_columns.view(), cx.by_columns.view(), s);
    device.wait();
    host::linear(y2, cx.by_rows.view(), cw.by_rows.view(), bias, s, false, ws);
    host::linear_input_gradient(dx2, cdy.by_rows.view(), cw.by_columns.view(), s, false, ws);
    host::linear_weight_gradient(dw2, cdy.by_columns.view(), cx.by_columns.view(), s, ws);
    check_close("y", y, y2, DType::bf16);
    check_close("dx", dx, dx2, DType::bf16);
    check_close("dw", dw, dw2, type);
  }
}
