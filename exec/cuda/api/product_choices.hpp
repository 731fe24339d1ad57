#pragma once
// ProductChoices: which of the algorithms that a library proposes each matrix product takes, as
// timed on one GPU, and the file that keeps them. With the same file a run has the same bits: what
// is chosen anew in each run may differ, since times do. Values.

#include <array>
#include <map>
#include <string>

#include "core/result.hpp"
#include "exec/host/gemm.hpp"

namespace exec::cuda {

// m, n, k; leading dimensions of a, b, c; whether a and b are transposed; types of a, b, c and the
// bias (0: none); bytes that divide the addresses of a, b, c, up to 256; whether c is added to;
// what follows the sums (Products::Then); bytes that divide the addresses of a GELU's input and of
// the bias; products of a batch, and elements between its matrices a, b and c.
using ProductKey = std::array<std::int64_t, 23>;
ProductKey key_of(const host::MixedGemm& product, int then, const void* before);

struct ProductChoice {
  int proposal = 0;                    // its place among those that the library proposes
  double seconds = 0, first_seconds = 0;  // of it, and of the first
};

struct ProductChoices {
  std::string gpu, library;            // of the times; empty: of none yet
  std::map<ProductKey, ProductChoice> of;
  int added = 0;                       // since they were read
};

// schema products/2; a file that is not there has none.
core::Result<ProductChoices> read_product_choices(const std::string& path);
core::Status write_product_choices(const std::string& path, const ProductChoices& choices);

}  // namespace exec::cuda
