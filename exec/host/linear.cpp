#include <algorithm>

#include "exec/host/convert.hpp"
#include "exec/host/gemm.hpp"
#include "exec/host/kernels.hpp"

namespace exec::host {
namespace {

core::Bytes largest_workspace(core::DType activation, std::int64_t rows, std::int64_t n,
                              std::int64_t k) {
  return std::max({mixed_gemm_workspace(activation, rows, n, k),
                   mixed_gemm_workspace(activation, rows, k, n),
                   mixed_gemm_workspace(activation, n, k, rows)});
}

}  // namespace

void linear(View y, View x, View w, View bias, const LinearShape& s, bool accumulate,
            Workspace ws) {
  mixed_gemm(y.type, {.m = s.rows, .n = s.n, .k = s.k,
                      .a = {x, s.ldx}, .b = {w, s.k, true}, .c = {y, s.ldy},
                      .accumulate = accumulate, .bias = bias}, ws);
}

void linear_input_gradient(View dx, View dy, View w, const LinearShape& s, bool accumulate,
                           Workspace ws) {
  mixed_gemm(dx.type, {.m = s.rows, .n = s.k, .k = s.n,
                       .a = {dy, s.ldy}, .b = {w, s.k}, .c = {dx, s.ldx},
                       .accumulate = accumulate}, ws);
}

void linear_weight_gradient(View dw, View dy, View x, const LinearShape& s, Workspace ws) {
  mixed_gemm(dy.type, {.m = s.n, .n = s.k, .k = s.rows,
                       .a = {dy, s.ldy, true}, .b = {x, s.ldx}, .c = {dw, s.k},
                       .accumulate = true}, ws);
}

core::Bytes linear_workspace(core::DType activation, const LinearShape& s) {
  return largest_workspace(activation, s.rows, s.n, s.k);
}

void bias_add(View y, View x, View b, std::int64_t rows, std::int64_t n, std::int64_t ld) {
  for (std::int64_t r = 0; r < rows; ++r) add(y.at(r * ld), x.at(r * ld), b, n);
}

void bias_gradient(View db, View dy, std::int64_t rows, std::int64_t n, std::int64_t ld) {
  with_compute_type(dy.type, [&]<class T>() {
    for_chunks(n, [&](std::int64_t c, std::int64_t m) {
      T sum[kChunk], buffer[kChunk];
      load(db.at(c), m, sum);
      for (std::int64_t r = 0; r < rows; ++r) {
        const T* const d = read(dy.at(r * ld + c), m, buffer);
        for (std::int64_t i = 0; i < m; ++i) sum[i] += d[i];
      }
      store(db.at(c), m, sum);
    });
  });
}

void lora_up(View y, View u, View b, const LoraShape& s, Workspace ws) {
  const auto groups = static_cast<std::int64_t>(s.offsets.size());
  for (std::int64_t g = 0; g < groups; ++g) {
    mixed_gemm(y.type,
               {.m = s.rows,
                .n = s.n,
                .k = s.r,
                .a = {u.at(g * s.r), groups * s.r},
                .b = {b.at(g * s.n * s.r), s.r, true},
                .c = {y.at(s.offsets[g]), s.ldy},
                .accumulate = true,
                .alpha = s.scale},
               ws);
  }
}

void lora_up_input_gradient(View du, View dy, View b, const LoraShape& s, Workspace ws) {
  const auto groups = static_cast<std::int64_t>(s.offsets.size());
  for (std::int64_t g = 0; g < groups; ++g) {
    mixed_gemm(du.type, {.m = s.rows, .n = s.r, .k = s.n,
                         .a = {dy.at(s.offsets[g]), s.ldy}, .b = {b.at(g * s.n * s.r), s.r},
                         .c = {du.at(g * s.r), groups * s.r}, .alpha = s.scale}, ws);
  }
}

void lora_up_weight_gradient(View db, View dy, View u, const LoraShape& s, Workspace ws) {
  const auto groups = static_cast<std::int64_t>(s.offsets.size());
  for (std::int64_t g = 0; g < groups; ++g) {
    mixed_gemm(dy.type,
               {.m = s.n,
                .n = s.r,
                .k = s.rows,
                .a = {dy.at(s.offsets[g]), s.ldy, true},
                .b = {u.at(g * s.r), groups * s.r},
                .c = {db.at(g * s.n * s.r), s.r},
                .accumulate = true,
                .alpha = s.scale},
               ws);
  }
}

core::Bytes lora_up_workspace(core::DType activation, const LoraShape& s) {
  return largest_workspace(activation, s.rows, s.n, s.r);
}

}  // namespace exec::host
