// Machines with GPUs of several kinds: which column of figures a stage takes.
#include <algorithm>

#include "core/check.hpp"
#include "hw_profiles/mixed.hpp"
#include "planner/evaluate/closed_form/evaluator.hpp"
#include "planner/evaluate/schedule_algebra.hpp"
#include "planner/evaluate/stage_kinds.hpp"

namespace planner::closed_form {

void Evaluator::use_kinds(const Question& question) {
  mixed_ = question.machine.mixed.get();
  const std::size_t kinds = mixed_->kinds.size();
  PLANNER_CHECK(questions_.size() == 1 && kinds <= kMachines, "one machine of a few kinds");
  if (2 * kinds <= kMachines)
    for (const cost::Machine& m : mixed_->kinds) machines_.push_back(&m);
  for (const cost::Machine& m : mixed_->apart) machines_.push_back(&m);
  of_kinds_.resize(kinds);
}

// Where all columns are taken by the kinds, each has the links between kinds alone.
std::size_t Evaluator::column_of(std::size_t kind, bool apart) const {
  return apart && machines_.size() > mixed_->kinds.size() ? kind + mixed_->kinds.size() : kind;
}

const hw_profiles::Profile& Evaluator::profile_of(std::size_t column) const {
  if (mixed_ == nullptr) return questions_[column].profile;
  return hw_profiles::profile_of_kind(questions_.front().profile, column % mixed_->kinds.size());
}

std::size_t Evaluator::column_of_stage(std::int64_t stage) const {
  if (mixed_ == nullptr) return 0;
  const cost::KindsOfRanks kinds = planner::kinds_of_stage(questions_.front(), strategy_, stage);
  return column_of(kinds.slowest, kinds.first != kinds.last);
}

void Evaluator::add_whole(AtMicroBatch& at) const {
  for (std::size_t r = 0; r < roles_.size(); ++r) {
    RoleFigures& of = at.roles[r];
    of.time[kWhole] = of.time[roles_[r].column];
    of.chunks[kWhole] = of.chunks[roles_[r].column];
  }
  if (strategy_.pipeline > 1)
    at.messages[kWhole] = messages_over(message_of_links(at, kWhole), strategy_.virtual_stages);
}

// Of a stage on GPUs of several kinds, on the kind where it takes the greatest share.
std::int64_t Evaluator::scaled(std::int64_t held, const Role& role, const AtMicroBatch& known,
                               std::size_t column) const {
  const std::size_t many = mixed_->kinds.size();
  std::size_t first = column % many, last = first;
  if (column == kWhole) {
    const cost::KindsOfRanks kinds =
        planner::kinds_of_stage(questions_.front(), strategy_, role.stage);
    first = kinds.first, last = kinds.last;
  }
  const auto usable = [](const hw_profiles::Profile& p) {
    return static_cast<double>(p.gpu.usable.value());
  };
  double most = 0;
  for (std::size_t kind = first; kind <= last; ++kind) {
    const std::size_t own = column_of(kind, first != last);
    most = std::max(most, static_cast<double>(held + role.beside[own] + known.attention[own]) *
                              (usable(questions_.front().profile) / usable(profile_of(own))));
  }
  return static_cast<std::int64_t>(most);
}

}  // namespace planner::closed_form
