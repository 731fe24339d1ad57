#include "tests/property/reference_rules.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/host/matrix_codes.hpp"
#include "exec/interpret/initialise.hpp"

namespace tests {

namespace host = exec::host;

static bool ends_with(const std::string& text, const char* end) { return text.ends_with(end); }
bool is_vector(const std::string& path) {
  return ends_with(path, "bias") || path.find("ln_") != std::string::npos ||
         path.find("_norm.") != std::string::npos || path.find(".norm.") != std::string::npos;
}

SampleSizes sample_sizes(const models::ModelSpec& spec, std::int64_t seq_len) {
  const bool classes = spec.loss == models::Loss::cross_entropy;
  if (spec.family == models::Family::chain)
    return {false, classes, spec.widths.front(), classes ? 1 : spec.widths.back()};
  if (spec.family == models::Family::graph) {
    const models::Shape result = models::analyse(spec.graph).output_shape;
    const std::int64_t n = models::elements_of(result);
    return {false, classes, models::elements_of(spec.graph.input_shape),
            classes ? n / result.back() : n};
  }
  if (spec.variants.token_features > 0)
    return {false, false, seq_len * spec.variants.token_features, spec.hidden};
  return {true, true, seq_len, seq_len};
}

// He et al. 2015: sqrt(2 / inputs of an element of the result).
static double graph_stddev(const models::ModelSpec& spec, const std::string& path,
                           std::int64_t elements) {
  for (const models::OperatorSpec& op : spec.graph.operators)
    if (path == op.name + ".weight")
      return std::sqrt(2.0 / (static_cast<double>(elements) / static_cast<double>(op.width)));
  return 0;
}

models::Parameter describe(const models::ModelSpec& spec, const std::string& path,
                           std::int64_t elements) {
  models::Parameter p;
  p.elements = elements;
  p.shape = p.full_shape = {elements};
  p.decays = !is_vector(path);
  p.init = models::Init::normal;
  p.init_stddev = 0.02;
  if (ends_with(path, "bias") || ends_with(path, "lora_b")) p.init = models::Init::zero;
  if (is_vector(path) && ends_with(path, "weight")) p.init = models::Init::one;
  if (ends_with(path, "proj.weight"))
    p.init_stddev = 0.02 / std::sqrt(2.0 * static_cast<double>(spec.layers));
  if (spec.family == models::Family::graph && p.init == models::Init::normal)
    p.init_stddev = graph_stddev(spec, path, elements);
  if (spec.family == models::Family::chain && p.init == models::Init::normal) {
    const auto layer = static_cast<std::size_t>(std::stoi(path.substr(2)));
    p.init_stddev = 1.0 / std::sqrt(static_cast<double>(spec.widths[layer]));
  }
  return p;
}

void fold(std::vector<Typed>& parts, program::Algorithm a, std::int64_t offset,
          std::int64_t n, Typed& sum) {
  const int group = static_cast<int>(parts.size());
  const std::int64_t each = program::padded(n, group) / group;
  for (int c = 0; c < group; ++c) {
    const std::int64_t begin = std::min(c * each, n), count = std::min(each, n - begin);
    const std::int64_t at = offset + begin;
    const program::ReductionOrder order = program::reduction_order(a, group, c);
    for (const program::ReductionStep& s : order.steps)
      host::reduce_into(parts[static_cast<std::size_t>(s.into)].at(at),
                        parts[static_cast<std::size_t>(s.from)].at(at), host::ReduceOp::sum, count);
    host::copy(sum.at(at), parts[static_cast<std::size_t>(order.result)].at(at), count);
  }
}

void fold_shards(std::vector<Typed>& parts, const program::RankClass& layout, Typed& sum) {
  for (const program::Span& s : layout.spans)
    for (std::int64_t begin = 0; begin < s.elements; begin += s.shard_elements)
      fold(parts, program::Algorithm::ring, s.offset + begin,
           std::min(s.shard_elements, s.elements - begin), sum);
}

Typed rounded_to_codes(const models::ModelSpec& spec, const planner::Job& job,
                       const program::PlacedParameter& placed, std::uint64_t seed) {
  const program::PlacedParameter own{describe(spec, placed.path, placed.parameter.elements),
                                     placed.path};
  const auto kind = *planner::quantization_from_name(job.quantization);
  const std::vector<double> exact = exec::initial_values(own, seed, 0, false);
  const std::vector<float> values(exact.begin(), exact.end());
  const std::int64_t bytes = planner::quantised_bytes(kind, placed.parameter.shape).value();
  std::vector<std::byte> codes(static_cast<std::size_t>(bytes));
  host::encode_matrix(kind, values, placed.parameter.shape, codes.data());
  Typed frozen(planner::resolve_recipe(job.recipe, job.precision)->compute,
               own.parameter.elements);
  host::decode_matrix(kind, codes.data(), frozen.at(), own.parameter.elements, bytes);
  return frozen;
}

void load(MicroBatch& batch, const exec::DataSource& data, std::int64_t first) {
  const SampleSizes sizes = sample_sizes(*batch.spec, batch.seq_len);
  const std::int64_t in = sizes.in, out = sizes.out;
  batch.inputs = {sizes.tokens ? core::DType::i32 : batch.activation, batch.samples * in};
  batch.targets = {sizes.classes ? core::DType::i32 : batch.activation, batch.samples * out};
  for (std::int64_t i = 0; i < batch.samples; ++i) {
    const auto tokens = [&](Typed& to, std::int64_t n, int shift) {
      data.tokens(first + i, shift, {static_cast<std::int32_t*>(to.at(i * n).data),
                                      static_cast<std::size_t>(n)});
    };
    const auto reals = [&](Typed& to, std::int64_t n, auto fill) {
      std::vector<double> row(static_cast<std::size_t>(n));
      fill(row);
      host::cast(to.at(i * n), {row.data(), core::DType::f64}, n);
    };
    if (sizes.tokens) {
      tokens(batch.inputs, in, 0);
      tokens(batch.targets, out, 1);
      continue;
    }
    reals(batch.inputs, in, [&](auto& row) { data.features(first + i, row); });
    if (sizes.classes)
      data.labels(first + i, {static_cast<std::int32_t*>(batch.targets.at(i * out).data),
                              static_cast<std::size_t>(out)});
    else
      reals(batch.targets, out, [&](auto& row) { data.feature_targets(first + i, row); });
  }
}

void open_slots(const planner::Job& job, const planner::Recipe& recipe, std::int64_t n,
                std::vector<Typed>& slots, std::vector<Typed>& scales) {
  const planner::Optimizer& o = planner::optimizer(job.optimizer);
  for (int i = 0; i < o.first_moments + o.second_moments; ++i) {
    const core::DType type = i < o.first_moments ? recipe.first_moment : recipe.second_moment;
    slots.emplace_back(o.quantised ? core::DType::u8 : type, n);
    if (o.quantised) scales.emplace_back(core::DType::f32, n);  // more than enough
  }
}

host::LossScaleState next_loss_scale(const host::LossScaleState& state, const planner::Job& job,
                                     std::vector<Typed>& gradients) {
  double norm = 1;
  for (Typed& flat : gradients)
    if (!std::isfinite(host::sum_of_squares(flat.at(), flat.size())))
      norm = std::numeric_limits<double>::infinity();
  return host::stepped(state, norm,
                       host::loss_scale_rule(planner::loss_scale_of(job), 0,
                                             exec::default_hyper(job.optimizer)));
}

}  // namespace tests
