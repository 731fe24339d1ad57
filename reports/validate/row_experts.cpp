#include "reports/validate/row_experts.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "models/layer_kinds.hpp"

namespace reports::validation {

void read_experts(const core::CsvRow& row, models::ModelSpec& model, core::Problems& problems) {
  const models::LayerKind dense{"dense", model.ffn_hidden, model.variants};
  models::LayerKind mixture{"mixture", model.ffn_hidden, model.variants};
  models::Variants& v = mixture.variants;
  row.optional("experts", v.experts, core::IntRange{0, models::kMaxExperts}, problems);
  if (v.experts == 0 || model.layers == 0) return;
  row.required("experts_per_token", v.experts_per_token, core::IntRange{1, models::kMaxExperts},
               problems);
  row.optional("expert_ffn", mixture.ffn_hidden, core::IntRange{1, models::kMaxWidth}, problems);
  std::int64_t first = 0, other = 0;
  row.optional("dense_layers", first, core::IntRange{0, model.layers}, problems);
  for (const std::string_view column : {"shared_experts", "mtp_layers"}) {
    row.optional(column, other, core::IntRange{0, models::kMaxLayers}, problems);
    if (std::exchange(other, 0) > 0)
      row.problem(column, "none: experts alone, and one head", "", problems);
  }
  std::vector<models::LayerKind> layers(static_cast<std::size_t>(first), dense);
  layers.resize(static_cast<std::size_t>(model.layers), mixture);
  models::set_layers(model, layers);
}

}  // namespace reports::validation
