#pragma once
// What a calibration measures, as plain rows: the time of a point beside what the cost formulas
// need to know of it. Thread-compatible.

#include <optional>
#include <vector>

#include "exec/calibrate/point_book.hpp"
#include "models/graph.hpp"

namespace exec {

struct ProductRow {                    // of a linear layer; m x n x k as sim/cost counts them
  std::int64_t m, n, k;
  double seconds;
};
// Of the types f32, bf16 and f64, in the same order of shapes; the narrow ones are fewer.
struct Products {
  std::vector<ProductRow> f32, bf16, f64;
};
Products product_points(PointBook& book);

struct AttentionRow {
  std::int64_t seq, head_dim;
  core::Flops square;                  // of the full square, as the operator graph states it
  core::Bytes bytes;
  double seconds;
};
std::vector<AttentionRow> attention_points(PointBook& book);

// An operator's pass that sim/cost counts by its bytes.
struct TrafficRow {
  enum class Kind : std::uint8_t { elementwise, norm, loss, rotary, gated } kind;
  core::Bytes bytes;
  double seconds;
};
std::vector<TrafficRow> traffic_points(PointBook& book);

// AdamW in f32: bytes read and written, and their time.
TrafficRow update_point(PointBook& book);

// Seconds of one action of an interpreted step, kernels of next to no work included.
double action_point(PointBook& book);

struct LinkRow {
  core::Bytes payload;
  double seconds;
};
// Ring all-reduce between all ranks; none where there is one.
std::vector<LinkRow> link_points(PointBook& book);

// Products alone, and while another thread of each rank sums what makes it send so many bytes.
struct HoldRow {
  core::Bytes sent;
  double alone, beside;                // seconds
};
// REQUIRES: links of link_points, of more than one rank.
HoldRow hold_point(PointBook& book, const std::vector<LinkRow>& links);

// All of it.
struct Measured {
  int ranks = 1;
  Products products;
  TrafficRow update;
  std::vector<AttentionRow> attention;
  std::vector<TrafficRow> traffic;
  double action = 0;
  std::vector<LinkRow> links;
  std::optional<HoldRow> hold;         // of more than one rank
};

}  // namespace exec
