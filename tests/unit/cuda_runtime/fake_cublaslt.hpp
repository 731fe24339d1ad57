#pragma once
// What exec/cuda/runtime/products.cpp calls, played on the host as cublasLt.h states it:
// column-major matrices, leading dimensions, transposes, epilogues. An algorithm holds for what its
// heuristic was asked with: a matrix or a bias that lies worse is refused, where the library would
// fault.

#include <vector>

namespace fake_cublaslt {

inline int heuristics = 0;             // asked so far
inline bool has_epilogues = true;      // else nothing is found for any but the plain one
inline bool has_products = true;       // else nothing is found at all
inline std::vector<float> times{1};    // milliseconds that a product takes by each algorithm
inline std::vector<int> ran;           // the algorithm of each product so far
inline bool capturing = false, has_memory = true;

}  // namespace fake_cublaslt
