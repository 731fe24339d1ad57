#include "planner/evaluate/communicators.hpp"
#include "planner/evaluate/closed_form/evaluator.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/keys.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner::closed_form {

Evaluator::Evaluator(const std::vector<Question>& questions)
    : questions_(questions), figures_(questions.size()) {
  PLANNER_CHECK(!questions.empty(), "an evaluator without a question");
  const Question& q = questions.front();
  if (q.machine.mixed) use_kinds(q);
  else
    for (const Question& question : questions) machines_.push_back(&question.machine);
  structure_.job = &q.job;
  structure_.strategy = &strategy_;
  structure_.policy = policy_of(q);
  structure_.recipe = *resolve_recipe(q.job.recipe, q.job.precision);
  structure_.optimizer = optimizer(q.job.optimizer);
  structure_.machines = machines_;
  structure_.transfers = &transfers_;
}

// Pieces hold what is exchanged with expert and context ranks that follow the tensor ranks.
bool Evaluator::covers(const Strategy& s) const {
  const Job& job = questions_.front().job;
  const bool schedule = has_formula(s.schedule);
  const bool checkpoint = s.checkpoint != Checkpoint::memory_poor &&
                          s.checkpoint != Checkpoint::selective_op;
  const bool exchanges = s.expert > 1 || s.context > 1;
  return job.mode != Mode::inference && schedule && checkpoint &&
         !(exchanges && stride_of(s, Degree::data) != s.tensor) &&
         s.batch_norm == BatchNorm::local &&  // else layers wait for all data ranks
         s.grad_sync != GradSync::parameter_server && !s.tp_overlap && !s.expert_overlap &&
         !s.offloads("params") && !s.offloads("activations");
}

// Chunk by chunk.
bool Evaluator::second_is_fullest(const Strategy& s) const {
  const auto p = static_cast<std::size_t>(s.pipeline);
  for (std::size_t first = 0; first + p <= s.stages.size(); first += p)
    for (std::size_t i = 2; i + 1 < p; ++i)
      if (s.stages[first + i] > s.stages[first + 1]) return false;
  return true;
}

bool Evaluator::prepare(const Strategy& resolved, const models::ModelGraph& graph) {
  if (!covers(resolved)) return false;
  std::optional<Pieces>& known = pieces(resolved, graph);
  const bool any = rows_.several() || mixed_ != nullptr || second_is_fullest(resolved);
  return known && any && take(resolved, *known);
}

std::optional<Pieces>& Evaluator::pieces(const Strategy& s, const models::ModelGraph& graph) {
  const PiecesKey key{&graph, within_layer(s), splits_backward(s.schedule), s.loss_chunks,
                      s.expert_dispatch};
  if (latest_ != nullptr && latest_->first == key) return latest_->second;
  auto found = pieces_.find(key);
  if (found == pieces_.end()) {
    const Question& q = questions_.front();
    const stage::Policy policy = stage::policy_of(q.job, q.profile.framework);
    found = pieces_.emplace(key, Pieces::of(graph, q.job, policy, s, machines_)).first;
  }
  if (found->second) rows_.take(graph.layer_template);
  latest_ = &*found;
  return latest_->second;
}

const Forms* Evaluator::forms(const Strategy& s, const models::ModelGraph& graph,
                              std::int64_t micro_batch) {
  if (!covers(s)) return nullptr;
  std::optional<Pieces>& of = pieces(s, graph);
  return of ? &of->at(micro_batch) : nullptr;
}

std::int64_t Evaluator::counted(const Strategy& s) const {
  const bool counts = s.checkpoint == Checkpoint::every_k && s.pipeline > 1 &&
                      structure_.policy.one_in_k;
  return counts ? s.checkpoint_every : 1;
}

// Pieces that differ in the checkpoint alone are of one graph, and so are the units of a stage.
bool Evaluator::same_forms(const Strategy& s) const {
  return current_ != nullptr && same_but_stages(KeyShapes::stage, s, strategy_) &&
         splits_backward(s.schedule) == splits_backward(strategy_.schedule) &&
         counted(s) == counted(strategy_) &&
         (s.schedule == strategy_.schedule ||
          (flushes(s.schedule) && flushes(strategy_.schedule)));  // versions of weights
}

bool Evaluator::take(const Strategy& s, Pieces& pieces) {
  const bool forms = same_forms(s), stages = forms && s.stages == strategy_.stages;
  const bool routines = stages && s.checkpoint == strategy_.checkpoint &&
                        s.recompute_modules == strategy_.recompute_modules &&
                        s.checkpoint_every == strategy_.checkpoint_every &&
                        interleaves(s.schedule) == interleaves(strategy_.schedule);
  if (!stages) strategy_ = s;
  strategy_.checkpoint = s.checkpoint;
  strategy_.checkpoint_every = s.checkpoint_every;
  strategy_.recompute_modules = s.recompute_modules;
  strategy_.schedule = s.schedule;
  strategy_.virtual_stages = s.virtual_stages;
  current_ = &pieces;
  if (routines) return true;
  known_count_ = 0;
  shared_.forget_passes();
  if (!stages) {
    if (!number_kinds()) {
      current_ = nullptr;              // nothing to share with the next structure
      return false;
    }
    if (!forms) {
      forms_.clear();
      shared_.forget();
      make_places();
    }
    make_roles();
  }
  for (Role& role : roles_) role.form->record_passes(shared_);
  if (stages) return true;
  const bool tight =
      std::ranges::all_of(roles_, [](const Role& role) { return role.form->is_tight(); });
  if (!tight) current_ = nullptr;      // nothing to share with the next structure
  return tight;
}

void Evaluator::make_places() {
  structure_.gradients.clear();
  structure_.replicas.clear();
  structure_.embedding.clear();
  structure_.tensor.clear();
  structure_.pipeline.clear();
  structure_.experts.clear();
  links_.clear();
  const std::int64_t data = stride_of(strategy_, Degree::data);
  const std::int64_t pipeline = stride_of(strategy_, Degree::pipeline);
  const bool sharded = strategy_.sharding != Sharding::none;
  const std::int64_t group = sharded ? strategy_.shard_group : strategy_.data_ranks();
  for (const cost::Machine* m : machines_) {
    const std::int64_t n = m->gpus_per_node;
    structure_.gradients.push_back(cost::place_of(0, group, data, n));
    if (const std::int64_t ways = strategy_.expert_data_ranks(); ways > 1)
      structure_.experts.push_back(cost::place_of(0, group / ways, data * ways, n));
    structure_.replicas.push_back(
        cost::place_of(0, strategy_.data_ranks() / group, data * group, n));
    structure_.tensor.push_back(
        cost::place_of(0, strategy_.tensor, stride_of(strategy_, Degree::tensor), n));
    structure_.pipeline.push_back(cost::place_of(0, strategy_.pipeline, pipeline, n));
    structure_.embedding.push_back(cost::place_of(0, 2, (strategy_.pipeline - 1) * pipeline, n));
    links_.push_back(links_of(pipeline, n));
  }
}

// Whether rank r of a pipeline sends to the next one over the network.
bool Evaluator::crosses(std::int64_t r, std::int64_t stride, std::int64_t per_node) const {
  const std::int64_t p = strategy_.pipeline;
  if (stride * p <= per_node) return false;
  return per_node % stride != 0 || r * stride / per_node != (r + 1) % p * stride / per_node;
}

Evaluator::Links Evaluator::links_of(std::int64_t stride, std::int64_t per_node) const {
  const std::int64_t p = strategy_.pipeline;
  Links links{.inside = p - 1};
  if (stride * p <= per_node) return links;
  bool before = links.back_across = crosses(p - 1, stride, per_node);
  for (std::int64_t r = 0; r + 1 < p; ++r) {
    const bool now = crosses(r, stride, per_node);
    links.across += now;
    links.ring_pair = std::max(links.ring_pair, before + now);
    if (r > 0) links.pair = std::max(links.pair, before + now);
    before = now;
  }
  links.ring_pair = std::max(links.ring_pair, before + links.back_across);
  links.inside -= links.across;
  return links;
}

bool Evaluator::number_kinds() {
  kinds_.clear();
  if (!rows_.several()) return true;
  std::int64_t first = 0;
  for (const std::int64_t layers : strategy_.stages) {
    kinds_.push_back(rows_.row(first, layers));
    first += layers;
    if (kinds_.back() >= KindRows::kMost) return false;
  }
  return true;
}

std::vector<stage::ChunkShape> Evaluator::chunks_of(std::size_t rank) const {
  const std::vector<std::int64_t>& stages = strategy_.stages;
  const auto p = static_cast<std::size_t>(strategy_.pipeline);
  const std::int64_t every = counted(strategy_);
  std::vector<stage::ChunkShape> chunks;
  chunks.reserve((stages.size() - rank + p - 1) / p);
  std::int64_t before = 0;
  for (std::size_t place = rank; place < stages.size(); place += p) {
    chunks.push_back({place == 0, place + 1 == stages.size(), stages[place], before % every,
                      kinds_of(place)});
    before += stages[place];
  }
  return chunks;
}

const Evaluator::Formed& Evaluator::form_of(std::size_t rank) {
  std::vector<stage::ChunkShape> chunks = chunks_of(rank);
  const std::int64_t versions = 1 + schedule_of(strategy_, static_cast<int>(rank), 1).delay;
  for (const Formed& known : forms_)
    if (known.form->is_of(chunks, versions)) return known;
  Formed& formed = forms_.emplace_back();
  formed.form = std::make_unique<StageForm>(structure_, *current_, rows_, std::move(chunks),
                                            shared_, versions);
  const program::Mesh mesh = mesh_of(strategy_);
  for (std::size_t i = 0; i < machines_.size(); ++i)
    formed.beside[i] = overhead_bytes(mesh, formed.form->groups(), profile_of(i)).value();
  return formed;
}

void Evaluator::make_roles() {
  roles_.clear();
  const std::vector<std::int64_t>& stages = strategy_.stages;
  const auto p = static_cast<std::size_t>(strategy_.pipeline);
  const auto add = [&](std::size_t rank) {
    const int stage = static_cast<int>(rank);
    const Formed& formed = form_of(rank);
    Role& role = roles_.emplace_back();
    role.form = formed.form.get();
    role.stage = stage;
    std::ranges::copy(formed.beside, role.beside.begin());
    role.column = column_of_stage(stage);
    role.beside[kWhole] = role.beside[role.column];
  };
  // Ranks further on hold less, but more gradients that wait for a weight pass: of a row of equal
  // ranks the first or the last holds most.
  const bool split = splits_backward(strategy_.schedule), apart = by_rank();
  const auto differ = [&](std::size_t a, std::size_t b) {
    for (std::size_t first = 0; first < stages.size(); first += p)
      if (stages[first + a] != stages[first + b] || kinds_of(first + a) != kinds_of(first + b))
        return true;
    return column_of_stage(static_cast<std::int64_t>(a)) !=
           column_of_stage(static_cast<std::int64_t>(b));
  };
  middle_layers_ = 0;
  runs_.clear();
  for (std::size_t place = 0; place < stages.size(); ++place) {
    if (place % p == 0 || place % p + 1 == p) continue;
    middle_layers_ += stages[place];
    const std::int64_t kinds = kinds_of(place);
    const std::size_t column = column_of_stage(static_cast<std::int64_t>(place % p));
    if (runs_.empty() || runs_.back().layers != stages[place] || runs_.back().kinds != kinds ||
        runs_.back().column != column)
      runs_.push_back({stages[place], kinds, 0, column});
    ++runs_.back().ranks;
  }
  add(0);
  for (std::size_t rank = 1; rank + 1 < p; ++rank) {
    const bool own = (split || apart) && differ(rank, rank - 1);
    if (rank == 1 || own || (split && (rank + 2 == p || differ(rank, rank + 1)))) {
      add(rank);
      roles_.back().times = apart ? 0 : rank == 1 ? middle_layers_ : 0;
      roles_.back().parts = apart ? 1 : roles_.back().form->layers();
    }
    if (apart) ++roles_.back().times;
  }
  if (p > 1) add(p - 1);
}

const Evaluator::AtMicroBatch& Evaluator::routines(std::int64_t micro_batch,
                                                   std::int64_t grad_accum) {
  for (std::size_t i = 0; i < known_count_; ++i)
    if (known_[i].micro_batch == micro_batch && known_[i].grad_accum == grad_accum)
      return known_[i];
  const Forms& forms = current_->at(micro_batch);
  if (known_count_ == known_.size()) known_.emplace_back();
  AtMicroBatch& at = known_[known_count_++];
  at.micro_batch = micro_batch;
  at.grad_accum = grad_accum;
  at.roles.resize(roles_.size());
  shared_.clear();
  at.boundary = forms.boundary;
  std::ranges::copy(forms.attention, at.attention.begin());
  const bool lands = receives_ahead(strategy_);
  const bool interleaved = interleaves(strategy_.schedule);
  for (std::size_t r = 0; r < roles_.size(); ++r) {
    const StageForm& form = *roles_[r].form;
    RoleFigures& of = at.roles[r];
    if (interleaved)
      of.peak = form.interleaved_peak(forms, schedule_of(strategy_, roles_[r].stage, grad_accum),
                                      of.live, shared_);
    else
      form.live(forms, grad_accum, of.live, shared_);
    for (std::size_t i = 0; i < machines_.size(); ++i)
      of.time[i] = form.time(forms, i, lands, shared_);
    for (std::size_t i = 0; i < machines_.size() && plays(); ++i)
      form.chunk_passes(forms, i, lands, shared_, of.chunks[i]);
  }
  for (std::size_t i = 0; i < machines_.size() && strategy_.pipeline > 1; ++i) {
    at.messages[i] = messages(i, forms.message[i]);
    at.message[i] = forms.message[i];
  }
  if (mixed_ != nullptr) add_whole(at);
  return at;
}

std::int64_t Evaluator::near_message(const MessageTime& time) const {
  const bool paired = strategy_.pipeline == 2 && stride_of(strategy_, Degree::pipeline) == 1;
  return paired ? time.paired : time.inside;
}

std::vector<std::int64_t> Evaluator::message_of_links(const AtMicroBatch& known,
                                                      std::size_t column) const {
  const std::int64_t stride = stride_of(strategy_, Degree::pipeline);
  std::vector<std::int64_t> links;
  for (std::int64_t r = 0; r < strategy_.pipeline; ++r) {
    std::size_t own = column;
    if (column == kWhole) {            // between stages on different kinds, the links between them
      own = column_of_stage(r);
      if (own != column_of_stage((r + 1) % strategy_.pipeline))
        own = column_of(own % mixed_->kinds.size(), true);
    }
    const MessageTime& time = known.message[own];
    links.push_back(crosses(r, stride, machines_[own]->gpus_per_node) ? time.across
                                                                      : near_message(time));
  }
  return links;
}

Messages Evaluator::messages(std::size_t machine, const MessageTime& time) const {
  const Links& links = links_[machine];
  const std::int64_t near = near_message(time), far = time.across;
  const bool any = links.across > 0 || links.back_across;
  // messages_over() these links.
  const std::int64_t v = strategy_.virtual_stages, p = strategy_.pipeline;
  const int pair = v > 1 ? links.ring_pair : links.pair;
  Messages m;
  m.all = v * (links.inside * near + links.across * far) +
          (v - 1) * (links.back_across ? far : near);
  m.slowest = any ? far : near;
  m.busiest = p == 2 ? m.all / v : pair * far + (2 - pair) * near;
  return m;
}

core::Bytes Evaluator::host_bytes() const {
  std::int64_t most = 0;
  for (const Role& role : roles_) most = std::max(most, role.form->host_bytes());
  return core::Bytes(most);
}

const std::vector<Figures>& Evaluator::at(std::int64_t micro_batch, std::int64_t grad_accum) {
  strategy_.grad_accum = grad_accum;
  const AtMicroBatch& known = routines(micro_batch, grad_accum);
  held_.resize(roles_.size());
  // Buffers that messages land in, and what was sent while the next pass computes.
  const std::int64_t messages =
      receives_ahead(strategy_) + releases_late(strategy_);
  const bool interleaved = interleaves(strategy_.schedule);
  for (std::size_t r = 0; r < roles_.size(); ++r) {
    const StageForm& form = *roles_[r].form;
    const RoleFigures& of = known.roles[r];
    const std::int64_t peak =
        interleaved ? of.peak
                    : form.peak(of.live, schedule_of(strategy_, roles_[r].stage, grad_accum));
    const std::int64_t inputs = messages * form.neighbours() +
                                stage::inputs_held(structure_.policy, strategy_, form.layers());
    held_[r] = form.persistent() + inputs * known.boundary + peak;
  }
  if (mixed_ == nullptr) {
    for (std::size_t i = 0; i < figures_.size(); ++i) figures_[i] = figures_of(known, i);
    return figures_;
  }
  figures_.front() = figures_of(known, kWhole);
  for (std::size_t k = 0; k < of_kinds_.size(); ++k)
    of_kinds_[k] = figures_of(known, column_of(k, true));
  return figures_;
}

}  // namespace planner::closed_form
