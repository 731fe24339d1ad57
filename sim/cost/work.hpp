#pragma once
// Internal: what kind of work an operator is (models/ops).

#include "models/graph.hpp"

namespace cost {

inline models::ops::WorkOf work_of(const models::Operator& op) {
  return models::ops::schema(op.kind).work.by;
}

inline bool is_matrix_product(models::ops::WorkOf work) {
  using models::ops::WorkOf;
  return work == WorkOf::product || work == WorkOf::dense || work == WorkOf::adapter ||
         work == WorkOf::expert_product;
}

}  // namespace cost
