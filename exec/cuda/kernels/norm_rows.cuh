#pragma once
// Norms of rows that a block keeps in registers: each row is read from memory once, and written
// once. A row belongs to 1 to 16 warps, a thread has two or three packs of 16 bytes of it: of
// 16-bit types that is up to 8,192 columns (forward 12,288), of f32 half as many.

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {

// Where the rows lie: `normed` rows of n elements each in a row of `columns`; heads below `first`
// have gamma[0], the others gamma[1].
struct NormRows {
  int64_t count, n;
  int64_t columns, normed, first;
  double gamma_offset = 0;             // added to gammas; 1 where there are none
  // The row of columns that normed row `row` lies in. A division of 64 bits is some 100
  // instructions on a GPU, one of 32 bits 20.
  PLANNER_DEVICE int64_t over(int64_t row) const {
    if (normed == 1) return row;
    return row <= UINT32_MAX ? static_cast<uint32_t>(row) / static_cast<uint32_t>(normed)
                             : row / normed;
  }
  PLANNER_DEVICE int64_t offset(int64_t row) const {
    const int64_t whole = over(row);
    return whole * columns + (row - whole * normed) * n;
  }
  PLANNER_DEVICE int which(int64_t row) const {
    return row - over(row) * normed < first ? 0 : 1;
  }
};

// What a norm reads and writes. mean: null where it is not centred; gammas, beta: may be absent;
// a, b: x = a + b first.
struct NormViews {
  View y, x, mean, rstd, gamma0, gamma1;
  View beta = {}, a = {}, b = {};
};
// Its gradients: dx (=|+=), and where dgamma is there dgamma += and, where it is there, dbeta +=.
struct NormGradients {
  View dx, dy, x, mean, rstd, gamma0, gamma1;
  View dgamma = {}, dbeta = {};
};

// False: rows are too long or lie at no multiples of 16 bytes, and nothing was launched.
bool norm_of_rows(const Queue& q, const char* name, const NormViews& v, const NormRows& rows,
                  double epsilon);
bool norm_gradients_of_rows(const Queue& q, const char* name, const NormGradients& v,
                            const NormRows& rows, bool accumulate);

}  // namespace exec::cuda
