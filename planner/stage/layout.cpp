#include "planner/stage/layout.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "planner/stage/buckets.hpp"
#include "planner/stage/f8_weights.hpp"
#include "planner/stage/prologue.hpp"

namespace planner::stage {
namespace {

using models::Parameter;
using models::Segment;
using program::PlacedParameter;

class Layouter {
 public:
  explicit Layouter(const Stage& stage) : stage_(stage), graph_(*stage.graph) {}

  StageLayout run() {
    const auto layers = static_cast<std::size_t>(stage_.layers);
    const bool experts = stage_.divides_experts();
    layout_.units.resize(layers * static_cast<std::size_t>(stage_.unit_groups()));
    layout_.layer_offset.resize(layout_.units.size());
    layout_.frozen_layer_offset.resize(layers);
    layout_.templates.resize(graph_.templates.size());
    layout_.prologue.resize(graph_.prologue.parameters.size());
    layout_.epilogue.resize(graph_.epilogue.parameters.size());
    layout_.parameters.reserve(parameter_count());
    if (stage_.last) place_epilogue();
    for (int l = stage_.layers - 1; l >= 0; --l) place_layer(l);
    if (stage_.first) place_prologue();
    if (stage_.last && experts) place_final_experts();
    for (int l = stage_.layers - 1; l >= 0 && experts; --l) place_group(l, true, false);
    layout_.f8_offset = trained_;
    for (const bool of_experts : {false, true})
      for (int l = stage_.layers - 1; l >= 0; --l)
        if (stage_.policy.weights_f8 && (experts || !of_experts)) place_group(l, of_experts, true);
    layout_.trained_elements = trained_;
    layout_.frozen_elements = frozen_;
    divide();
    return std::move(layout_);
  }

 private:
  std::size_t parameter_count() const {
    std::size_t count = graph_.prologue.parameters.size() + graph_.epilogue.parameters.size();
    for (int l = 0; l < stage_.layers; ++l) count += layer_segment(l).parameters.size();
    return count;
  }

  const Segment& layer_segment(int l) const { return graph_.templates[stage_.template_of(l)]; }

  // By parameter of a local layer.
  std::vector<bool> read_in_f8_of(int l) const {
    const Segment& segment = layer_segment(l);
    if (!stage_.policy.weights_f8) return std::vector<bool>(segment.parameters.size(), false);
    return read_in_f8(segment);
  }

  // Indices of a segment's parameters in flat order: those whose gradients are summed over the
  // tensor ranks first, so that they are one range; within each kind in gradient-ready order.
  static std::vector<std::size_t> flat_order(const Segment& segment) {
    std::vector<std::size_t> order;
    for (const bool partial : {true, false})
      for (std::size_t i = segment.parameters.size(); i-- > 0;) {
        const Parameter& p = segment.parameters[i];
        if ((p.trainable && p.tensor_partial) == partial) order.push_back(i);
      }
    return order;
  }

  // Operators of a graph have names of their own, whichever layer or part they are in.
  std::string layer_path(int l, const Parameter& p) const {
    if (graph_.spec.family == models::Family::graph) return p.name;
    return "h." + std::to_string(stage_.global_layer(l)) + "." + p.name;
  }

  static bool lies_apart(const Parameter& p) { return p.trainable && p.data_ways > 1; }

  // Appends a parameter to its flat space; returns its place with offsets from the space's start.
  ParameterPlace place(const Parameter& p, std::string path, int unit, bool tied_copy = false) {
    std::int64_t& at = p.trainable ? trained_ : frozen_;
    ParameterPlace where{.trained = p.trainable, .unit = unit, .offset = at};
    layout_.parameters.push_back({p, std::move(path), p.trainable, at, tied_copy});
    if (p.trainable)
      unit_of_.push_back(unit), span_parameters_.push_back(layout_.parameters.size() - 1);
    if (p.trainable && p.tensor_partial)
      layout_.units[static_cast<std::size_t>(unit)].partial += p.elements;
    at += p.elements;
    return where;
  }

  int open_unit(std::string name, SegmentKind ready) {
    layout_.units.push_back({.name = std::move(name), .offset = trained_, .frozen_offset = frozen_,
                             .ready = ready});
    return static_cast<int>(layout_.units.size()) - 1;
  }
  // Closes the unit: sets its size and the places' offsets within it.
  void close_unit(int unit, std::vector<ParameterPlace*> places) {
    Unit& u = layout_.units[static_cast<std::size_t>(unit)];
    u.elements = trained_ - u.offset;
    u.frozen_elements = frozen_ - u.frozen_offset;
    for (ParameterPlace* p : places)
      p->unit_offset = p->offset - (p->trained ? u.offset : u.frozen_offset);
  }

  void place_epilogue() {
    const Segment& segment = graph_.epilogue;
    std::vector<ParameterPlace*> own;
    const int unit = open_unit("final", SegmentKind::epilogue);
    for (const std::size_t i : flat_order(segment)) {
      const Parameter& p = segment.parameters[i];
      if (!p.tied_to.empty() || lies_apart(p)) continue;
      layout_.epilogue[i] = place(p, p.name, unit);
      own.push_back(&layout_.epilogue[i]);
    }
    close_unit(unit, own);
    final_unit_ = unit;
    if (stage_.first) return;  // tied weights are the prologue's own
    for (std::size_t i = 0; i < segment.parameters.size(); ++i) {
      const Parameter& p = segment.parameters[i];
      if (p.tied_to.empty()) continue;
      const int tied = open_unit("tied", SegmentKind::epilogue);
      layout_.epilogue[i] = place(p, p.tied_to, tied, true);
      close_unit(tied, {&layout_.epilogue[i]});
      tied_unit_ = tied;
    }
  }

  // Of modules for multi-token prediction.
  void place_final_experts() {
    const Segment& segment = graph_.epilogue;
    if (std::ranges::none_of(segment.parameters, lies_apart)) return;
    std::vector<ParameterPlace*> own;
    const int unit = open_unit("experts", SegmentKind::epilogue);
    layout_.units.back().expert_ways = stage_.mesh.expert_data_ranks();
    layout_.units.back().beside = final_unit_;
    for (const std::size_t i : flat_order(segment)) {
      const Parameter& p = segment.parameters[i];
      if (!lies_apart(p)) continue;
      layout_.epilogue[i] = place(p, p.name, unit);
      own.push_back(&layout_.epilogue[i]);
    }
    close_unit(unit, own);
  }

  void place_layer(int l) {
    const Segment& segment = layer_segment(l);
    const std::size_t at = static_cast<std::size_t>(l);
    Unit& unit = layout_.units[at];
    unit = {.name = "layer", .offset = trained_, .frozen_offset = frozen_, .layer = l};
    layout_.layer_offset[at] = trained_;
    layout_.frozen_layer_offset[at] = frozen_;
    std::vector<ParameterPlace>& places = layout_.templates[stage_.template_of(l)];
    places.assign(segment.parameters.size(), {});
    const std::vector<bool> f8 = read_in_f8_of(l);
    for (const std::size_t i : flat_order(segment)) {
      const Parameter& p = segment.parameters[i];
      if (lies_apart(p) || f8[i]) continue;
      if (is_quantised(stage_.quantization, p.trainable, p.shape)) {
        places[i] = {.trained = false, .quantised = true, .unit = l,
                     .offset = unit.quantised_bytes};
        const std::string path = layer_path(l, p);
        layout_.quantised.push_back({{p, path, false, unit.quantised_bytes, false}, l});
        unit.quantised_bytes += quantised_bytes(stage_.quantization, p.shape).value();
        unit.decoding_bytes += decoding_bytes(stage_.quantization, p.shape).value();
        continue;
      }
      ParameterPlace where = place(p, layer_path(l, p), l);
      where.offset -= p.trainable ? layout_.layer_offset[at] : layout_.frozen_layer_offset[at];
      where.unit_offset = where.offset;
      places[i] = where;
    }
    unit.elements = trained_ - unit.offset;
    unit.frozen_elements = frozen_ - unit.frozen_offset;
  }

  // A layer's experts that differ from rank to rank, or what is read in 8 bits, of these or of the
  // others.
  void place_group(int l, bool experts, bool in_f8) {
    const Segment& segment = layer_segment(l);
    const int shift = stage_.unit_shift(experts, in_f8);
    const int index = shift + l;
    const auto at = static_cast<std::size_t>(index);
    Unit& unit = layout_.units[at];
    unit = {.name = in_f8 ? "f8" : "experts", .offset = trained_, .frozen_offset = frozen_,
            .layer = l, .expert_ways = experts ? stage_.mesh.expert_data_ranks() : 1,
            .f8 = in_f8, .beside = l};
    layout_.layer_offset[at] = trained_;
    std::vector<ParameterPlace>& places = layout_.templates[stage_.template_of(l)];
    const std::vector<bool> f8 = read_in_f8_of(l);
    for (const std::size_t i : flat_order(segment)) {
      const Parameter& p = segment.parameters[i];
      if (lies_apart(p) != experts || f8[i] != in_f8) continue;
      places[i] = place(p, layer_path(l, p), index);
      places[i].f8 = in_f8;
      places[i].unit_shift = shift;
      places[i].offset -= unit.offset;
      places[i].unit_offset = places[i].offset;
    }
    unit.elements = trained_ - unit.offset;
  }

  // Everything but the token embedding first: the embedding's gradient, when tied, is the last.
  void place_prologue() {
    const Segment& segment = graph_.prologue;
    if (segment.parameters.empty()) return;
    const std::string tied = tied_table(graph_);
    std::vector<ParameterPlace*> own;
    const int rest = open_unit("embeddings", SegmentKind::prologue);
    for (const std::size_t i : flat_order(segment)) {
      if (segment.parameters[i].name == tied) continue;
      layout_.prologue[i] = place(segment.parameters[i], segment.parameters[i].name, rest);
      own.push_back(&layout_.prologue[i]);
    }
    close_unit(rest, own);
    for (std::size_t i = 0; i < segment.parameters.size(); ++i) {
      if (segment.parameters[i].name != tied) continue;
      const int unit = open_unit("tied", SegmentKind::prologue);
      layout_.prologue[i] = place(segment.parameters[i], tied, unit);
      close_unit(unit, {&layout_.prologue[i]});
      tied_unit_ = unit;
      if (stage_.last) alias_tied(layout_.prologue[i]);
    }
  }

  void alias_tied(const ParameterPlace& where) {
    for (std::size_t i = 0; i < graph_.epilogue.parameters.size(); ++i)
      if (!graph_.epilogue.parameters[i].tied_to.empty()) layout_.epilogue[i] = where;
  }

  void divide() {
    if (stage_.sharded_gradients() || trained_ == 0)
      divide_by_unit();
    else
      divide_by_bucket();
    const bool several = stage_.tied_apart();
    for (std::size_t s = 0; s < layout_.spans.size(); ++s)
      if (several && tied_unit_ >= 0 && layout_.spans[s].elements > 0 &&
          layout_.span_ready[s] == tied_unit_ &&
          layout_.spans[s].offset == layout_.units[static_cast<std::size_t>(tied_unit_)].offset)
        layout_.tied_span = static_cast<int>(s);
    finish_spans();
  }

  void divide_by_unit() {
    for (std::size_t u = 0; u < layout_.units.size(); ++u) {
      const Unit& unit = layout_.units[u];
      layout_.spans.push_back({unit.offset, unit.elements, 0, 0, 0, unit.expert_ways});
      layout_.span_ready.push_back(static_cast<int>(u));
    }
  }

  // Buckets of whole tensors in gradient-ready order (buckets.hpp). Data-parallel degree 1 needs
  // one bucket alone. Tied embeddings of several stages keep one of their own, alike on both.
  void divide_by_bucket() {
    const bool communicates = stage_.communicates();
    const auto tied_alone = stage_.tied_apart() ? tied_unit_ : -1;
    program::Span open{0, 0, 0, 0, 0};
    int ready = -1;
    bool f8 = false;
    const auto close = [&] {
      if (open.elements > 0) layout_.spans.push_back(open), layout_.span_ready.push_back(ready);
      open = {open.offset + open.elements, 0, 0, 0, 0, open.expert_ways};
    };
    for (std::size_t i = 0; i < span_parameters_.size(); ++i) {
      const auto& p = layout_.parameters[span_parameters_[i]];
      const int unit = unit_of_[i];
      const Unit& of = layout_.units[static_cast<std::size_t>(unit)];
      if (unit == tied_alone || of.expert_ways != open.expert_ways || of.f8 != f8) close();
      open.expert_ways = of.expert_ways;
      f8 = of.f8;
      open.elements += p.parameter.elements;
      ready = unit;
      const bool full = bucket_is_full(open.elements, stage_.recipe.gradient,
                                       stage_.strategy->bucket_bytes, layout_.spans.empty());
      if (unit == tied_alone || (communicates && full)) close();
    }
    close();
  }

  // Shards of what is read in 8 bits lie behind the others.
  void finish_spans() {
    for (const bool f8 : {false, true}) {
      if (f8) layout_.f8_shard_offset = layout_.shard_elements;
      for (std::size_t s = 0; s < layout_.spans.size(); ++s)
        if (layout_.in_f8(static_cast<int>(s)) == f8) finish(layout_.spans[s]);
    }
  }

  void finish(program::Span& s) {
    const int parts = stage_.parts(s.expert_ways);
    s.shard_elements = shard_of(s.elements, parts);
    s.shard_offset = layout_.shard_elements;
    s.scale_offset = layout_.scale_elements;
    layout_.shard_elements += s.shard_elements;
    layout_.scale_elements += StateSizes::scales_of(s.shard_elements);
  }

  const Stage& stage_;
  const models::ModelGraph& graph_;
  StageLayout layout_;
  std::int64_t trained_ = 0, frozen_ = 0;
  int tied_unit_ = -1, final_unit_ = -1;
  std::vector<std::size_t> span_parameters_;  // trained parameters in flat order
  std::vector<int> unit_of_;                  // their units
};

}  // namespace

bool Stage::divides_experts() const {
  const auto divided = [](const Parameter& p) { return p.trainable && p.data_ways > 1; };
  if (last && std::ranges::any_of(graph->epilogue.parameters, divided)) return true;
  std::vector<bool> asked(graph->templates.size(), false);
  for (int l = 0; l < layers; ++l) {
    const std::size_t t = template_of(l);
    if (asked[t]) continue;
    asked[t] = true;
    if (std::ranges::any_of(graph->templates[t].parameters, divided)) return true;
  }
  return false;
}

StageLayout lay_out(const Stage& stage) { return Layouter(stage).run(); }

}  // namespace planner::stage
