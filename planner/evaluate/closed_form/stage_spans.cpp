// The spans of a stage: buckets that gradients are reduced in, or units, with the shards of each.
#include <algorithm>

#include "planner/evaluate/closed_form/stage_form.hpp"
#include "planner/stage/buckets.hpp"

namespace planner::closed_form {
namespace {

void add_span(Spans& spans, std::int64_t elements, std::int64_t count) {
  if (elements == 0) return;
  const auto same = std::ranges::find(spans, elements, &SpanCount::elements);
  if (same == spans.end())
    spans.push_back({elements, count});
  else
    same->count += count;
}

// StageLayout::divide_by_bucket, by counts.
class Buckets {
 public:
  // begins: with the stage's first bucket.
  Buckets(std::int64_t cap, core::DType type, bool divide, bool begins = true)
      : cap_(cap), type_(type), divide_(divide), begins_(begins) {
    spans.reserve(4);                  // as many as there usually are
  }

  void add(const std::vector<std::int64_t>& tensors) {
    for (std::int64_t n : tensors) {
      open_ += n;
      const bool first = begins_ && spans.empty();
      if (divide_ && stage::bucket_is_full(open_, type_, cap_, first)) close();
    }
  }
  // `times` layers. What is open at their ends soon repeats; from then on each adds the same.
  void add(const std::vector<std::int64_t>& tensors, std::int64_t times) {
    for (std::int64_t i = 0; i < times; ++i) {
      before_ = spans;
      const std::int64_t open = open_;
      add(tensors);
      if (before_.empty() || open_ != open) continue;
      for (std::size_t s = 0; s < spans.size(); ++s)
        spans[s].count += (times - i - 1) *
                          (spans[s].count - (s < before_.size() ? before_[s].count : 0));
      return;
    }
  }
  void close() {
    if (open_ > 0) add_span(spans, open_, 1);
    open_ = 0;
  }

  Spans spans;

 private:
  std::int64_t cap_, open_ = 0;
  core::DType type_;
  bool divide_, begins_;
  Spans before_;                       // the layer that is added
};

}  // namespace

void StageForm::make_spans(const Pieces& pieces) {
  if (manner().reduces) {
    spans_.front().reserve(4);
    each_run([&](std::size_t kind, std::int64_t layers) {
      for (std::size_t g = 0; g < kUnitGroups.size(); ++g)
        add_span(spans_[g], layer_elements_[kind][g], layers);
    });
    for (const UnitKind u : {UnitKind::final, UnitKind::embeddings, UnitKind::tied})
      add_span(spans_.front(), unit(u).elements, 1);
    add_span(spans_[kExperts], final_experts_, 1);
  } else {
    make_buckets(pieces);
  }
  for_spans([&](const Spans& spans, UnitGroup group) {
    const std::int64_t n = parts(group.experts);
    for (const auto& [elements, count] : spans)
      sizes_.add_span(stage::shard_of(elements, n), group.f8, count);
  });
}

void StageForm::make_buckets(const Pieces& pieces) {
  const Strategy& s = *s_->strategy;
  const core::DType gradient = s_->recipe.gradient;
  const bool several = s.pipeline > 1;
  Buckets buckets(s.bucket_bytes, gradient, communicates_);
  const auto tied = [&] {  // alone where it is on two stages
    if (unit(UnitKind::tied).elements == 0) return;
    if (several) buckets.close();
    buckets.add({unit(UnitKind::tied).elements});
    if (several) buckets.close();
  };
  if (last_) buckets.add(pieces.epilogue_parameters);
  if (last_ && !first_) tied();
  const Spans head = buckets.spans;    // buckets that close there
  each_run([&](std::size_t kind, std::int64_t layers) {
    buckets.add(pieces.layers[kind].parameters.front(), layers);
  });
  Spans row = buckets.spans;
  for (std::size_t i = 0; i < head.size(); ++i) row[i].count -= head[i].count;
  std::erase_if(row, [](const SpanCount& span) { return span.count == 0; });
  if (first_) buckets.add(pieces.prologue_parameters);
  if (first_) tied();
  buckets.close();
  spans_.front() = std::move(buckets.spans);
  for (std::size_t g = 1; g < kUnitGroups.size(); ++g) {
    if (kUnitGroups[g].experts && experts_ == 0) continue;
    Buckets apart(s.bucket_bytes, gradient, communicates_, false);
    if (last_ && g == kExperts) apart.add(pieces.epilogue_expert_parameters);
    each_run([&](std::size_t kind, std::int64_t layers) {
      apart.add(pieces.layers[kind].parameters[g], layers);
    });
    apart.close();
    spans_[g] = std::move(apart.spans);
  }
  if (!staged_) return;
  const core::DType wire = stage::reduce_type(*s_->job, s_->recipe);
  const auto largest = [&](const Spans& spans) {
    return spans.empty()
               ? 0
               : core::bytes_of(std::ranges::max_element(spans, {}, &SpanCount::elements)->elements,
                                wire).value();
  };
  const bool travel = experts_ > 0 && s_->experts.front().size > 1;
  const std::int64_t of_experts =
      travel ? std::max(largest(spans_[kExperts]), largest(spans_[kF8Experts])) : 0;
  const std::int64_t apart = std::max(largest(spans_[kF8]), of_experts);
  largest_staging_ = std::max(largest(spans_.front()), apart);
  head_staging_ = largest(head);
  row_staging_ = std::max(largest(row), apart);
}

}  // namespace planner::closed_form
