#include "planner/plan/scale_down.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "models/layer_kinds.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner {
namespace {

constexpr std::int64_t kFewestTokens = 64, kFewestWords = 512, kNarrowestHead = 16;
// Words while layers and heads are still as planned: more than a file of bytes has.
constexpr std::int64_t kUsualWords = 4096;

// A job at some size on the way.
struct Size {
  models::ModelSpec model;
  Job job;
  Strategy strategy;
};

class Shrinker {
 public:
  Shrinker(const Plan& plan, const Candidate& candidate)
      : plan_(plan), planned_{plan.model, plan.job, candidate.strategy}, now_(planned_) {}

  core::Result<ScaledPlan> run() {
    // A plan from elsewhere may name a job that its model does not have, or a strategy that the job
    // does not take.
    const auto question = make_question(now_.model, now_.job, plan_.profile, plan_.gpus);
    if (!question.ok()) return question.problems();
    if (core::Problems wrong = problems_of(now_); !wrong.empty()) return wrong;
    if (!small_enough(now_)) shrink();
    core::Problems problems = problems_of(now_);
    if (problems.empty() && !small_enough(now_))
      problems.push_back({"--scale-down",
                          fmt::format("a job of at most {} for all ranks",
                                      core::to_text(kScaledBytes)),
                          core::to_text(bytes_of(now_)) + " for the smallest that keeps the plan's "
                                                          "strategy",
                          "plan fewer --gpus or a smaller model"});
    if (!problems.empty()) return problems;
    return ScaledPlan{small_plan(), figures()};
  }

 private:
  using Change = std::function<void(Size&, std::int64_t)>;

  void shrink() {
    shrink_batch();
    halve(planned_.job.seq_len, tokens_unit(), kFewestTokens,
          [](Size& s, std::int64_t tokens) { s.job.seq_len = tokens; });
    if (!models::is_transformer(planned_.model.family)) return;
    halve_words(kUsualWords);
    shrink_layers();
    halve(planned_.model.kv_heads, heads_unit(), 1, [this](Size& s, std::int64_t heads) {
      set_width(s, heads, planned_.model.heads / planned_.model.kv_heads, head_dim());
    });
    halve(planned_.model.heads / planned_.model.kv_heads, 1, 1,
          [this](Size& s, std::int64_t queries) {
            set_width(s, s.model.kv_heads, queries, head_dim());
          });
    halve(head_dim(), 2, kNarrowestHead, [this](Size& s, std::int64_t width) {
      set_width(s, s.model.kv_heads, s.model.heads / s.model.kv_heads, width);
    });
    halve_words(kFewestWords);
  }

  // One sample a micro-batch, where the strategy goes with it, and no more micro-batches than the
  // schedule's shape needs: they cost time and prove nothing further.
  void shrink_batch() {
    const Strategy& s = planned_.strategy;
    const std::int64_t least = std::min(s.grad_accum, s.pipeline > 1 ? 2 * s.pipeline : 2);
    for (std::int64_t samples = 1; samples <= s.micro_batch; samples *= 2)
      for (std::int64_t passes = least; passes <= s.grad_accum; ++passes) {
        if (s.pipeline > 1 && !schedule_takes(s.schedule, s.pipeline, passes)) continue;
        Size next = now_;
        next.strategy.shares = s.shares;
        next.strategy.micro_batch = samples;
        next.strategy.grad_accum = passes;
        for (std::int64_t& share : next.strategy.shares)  // in their proportions
          share = std::max<std::int64_t>(1, share * passes / s.grad_accum);
        next.job.global_batch = samples * next.strategy.micro_batches();
        if (!problems_of(next).empty()) break;
        now_ = std::move(next);
        return;
      }
  }

  // Two layers for each chunk of the pipeline, or two segments that are kept or computed again.
  void shrink_layers() {
    const Strategy& s = planned_.strategy;
    const std::int64_t chunks = s.pipeline * s.virtual_stages;
    const std::int64_t layers = chunks * 2 * std::max<std::int64_t>(1, s.checkpoint_every);
    if (layers < planned_.model.layers)
      try_size(layers, [](Size& size, std::int64_t count) {
        models::keep_layers(size.model, count);
        size.strategy.stages.clear();  // as even as can be
      });
  }

  void halve_words(std::int64_t least) {
    std::int64_t words = 1;
    while (2 * words < now_.model.vocab) words *= 2;  // a power of two divides as ranks do
    halve(2 * words, 1, least, [](Size& s, std::int64_t count) { s.model.vocab = count; });
  }

  // Halves `from`, held to multiples of `unit`, until the job is small enough or `least` is
  // reached. A size that the strategy cannot take is passed over.
  void halve(std::int64_t from, std::int64_t unit, std::int64_t least, const Change& change) {
    for (std::int64_t value = from / 2; value >= least && !small_enough(now_); value /= 2) {
      value = std::max(value / unit, std::int64_t{1}) * unit;
      if (value >= from) return;
      try_size(value, change);
      if (value <= unit) return;
    }
  }

  void try_size(std::int64_t value, const Change& change) {
    if (small_enough(now_)) return;
    Size next = now_;
    change(next, value);
    if (problems_of(next).empty()) now_ = std::move(next);
  }

  // Heads and their width; what else is as wide as the model follows in proportion.
  void set_width(Size& s, std::int64_t kv_heads, std::int64_t queries, std::int64_t width) const {
    const models::ModelSpec& from = planned_.model;
    const std::int64_t heads = kv_heads * queries, all = from.heads * head_dim();
    const auto scaled = [&](std::int64_t planned) {
      const std::int64_t unit = 16 * planned_.strategy.tensor;
      return program::padded(std::max<std::int64_t>(planned * heads * width / all, 1), unit);
    };
    s.model.kv_heads = kv_heads;
    s.model.heads = heads;
    s.model.hidden = from.hidden == all ? heads * width : scaled(from.hidden);
    if (from.head_dim != 0) s.model.head_dim = width;
    s.model.ffn_hidden = scaled(planned_ffn({{}, 0, s.model.variants}));
    for (models::LayerKind& kind : s.model.kinds)
      kind.ffn_hidden = scaled(planned_ffn({kind.name, 0, kind.variants}));
  }

  // Of a kind of layer that is still there, in the model as planned.
  std::int64_t planned_ffn(const models::LayerView& kind) const {
    std::int64_t width = planned_.model.ffn_hidden;
    models::for_each_kind(planned_.model, [&](const models::LayerView& was) {
      const bool named = kind.name.empty() || was.name == kind.name;
      if (named && was.variants == kind.variants) width = was.ffn_hidden;
    });
    return width;
  }

  std::int64_t head_dim() const { return models::head_dim_of(planned_.model); }
  std::int64_t tokens_unit() const {
    const Strategy& s = planned_.strategy;
    return 2 * s.context * s.tensor * s.loss_chunks;
  }
  std::int64_t heads_unit() const {
    const Strategy& s = planned_.strategy;
    return s.tensor * (s.context_method == ContextMethod::exchange ? s.context : 1);
  }

  Strategy resolved(const Size& s) const { return resolve(s.model, s.job, s.strategy); }

  core::Problems problems_of(const Size& s) const {
    core::Problems problems = models::check_spec(s.model);
    if (!problems.empty()) return problems;
    return strategy_problems(s.model, s.job, resolved(s), plan_.gpus);
  }

  program::Program lowered(const Size& s) const {
    return lower_strategy(s.model, s.job, plan_.profile.framework, plan_.gpus, s.strategy)
        .value()
        .program;
  }

  // No fewer than all ranks hold.
  core::Bytes bytes_of(const Size& s) const {
    return memory_of(lowered(s), plan_.profile, false).worst.live * plan_.gpus;
  }

  bool small_enough(const Size& s) const {
    const auto question = make_question(s.model, s.job, plan_.profile, plan_.gpus);
    if (!question.ok()) return false;
    const core::Flops step = question->model_flops * static_cast<double>(s.job.global_batch);
    return step <= kScaledFlops && bytes_of(s) <= kScaledBytes;
  }

  Plan small_plan() const {
    const Question question =
        make_question(now_.model, now_.job, plan_.profile, plan_.gpus).value();
    Plan small;
    small.assumptions = plan_.assumptions;
    small.assumptions.push_back("scaled down: " + to_text(figures()));
    small.model = now_.model;
    small.parameters = question.parameters;
    small.gpus = plan_.gpus;
    small.gpus_per_node = plan_.gpus_per_node;
    small.nodes = plan_.nodes;
    small.profile = plan_.profile;
    small.job = now_.job;
    const Strategy strategy = resolved(now_);
    const auto graph = models::build_graph(
        now_.model, graph_options(now_.job, strategy, plan_.profile.framework));
    small.chosen = evaluate(question, graph.value(), strategy);
    return small;
  }

  std::vector<ScaledFigure> figures() const {
    std::vector<ScaledFigure> all;
    const auto add = [&](const char* name, std::int64_t planned, std::int64_t run) {
      if (planned != run) all.push_back({name, planned, run});
    };
    const Size &a = planned_, &b = now_;
    add("samples of a micro-batch", a.strategy.micro_batch, b.strategy.micro_batch);
    add("micro-batches", a.strategy.grad_accum, b.strategy.grad_accum);
    add("global batch", a.job.global_batch, b.job.global_batch);
    add("sequence length", a.job.seq_len, b.job.seq_len);
    add("vocabulary", a.model.vocab, b.model.vocab);
    add("layers", a.model.layers, b.model.layers);
    add("heads", a.model.heads, b.model.heads);
    add("hidden", a.model.hidden, b.model.hidden);
    add("ffn hidden", a.model.ffn_hidden, b.model.ffn_hidden);
    return all;
  }

  const Plan& plan_;
  const Size planned_;
  Size now_;
};

}  // namespace

core::Result<ScaledPlan> scale_down(const Plan& plan, const Candidate& candidate) {
  return Shrinker(plan, candidate).run();
}

std::string to_text(const std::vector<ScaledFigure>& figures) {
  std::string text;
  for (const ScaledFigure& f : figures)
    text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", f.name, f.planned, f.run);
  return text;
}

}  // namespace planner
