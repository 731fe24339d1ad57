// What the words on a plan's page mean, for a reader who meets them for the first time. The
// definitions are those of `planner explain` (reports/glossary.json).
#include <algorithm>

#include "reports/glossary.hpp"
#include "reports/html/plan_sections.hpp"

namespace reports::html {
namespace {

PageTable words_table(std::string caption) {
  return {std::move(caption), {{"word", false}, {"meaning", false}, {"source", false}}, {}, true};
}

void add_word(std::string shown, const GlossaryEntry& entry, PageTable& table) {
  std::ranges::replace(shown, '_', ' ');
  table.rows.push_back({words(std::move(shown)), words(entry.text), words(entry.source)});
}

void add_words(std::string_view kind, std::initializer_list<std::string_view> entries,
               PageTable& table) {
  for (const std::string_view word : entries)
    if (const GlossaryEntry* entry = find_entry(kind, word); entry != nullptr)
      add_word(std::string(word), *entry, table);
}

// The part as `planner explain` takes it: "every_k(1)" is every_k, "offload params" a value.
std::string asked_as(std::string part) {
  if (part.starts_with("offload ")) part[part.find(' ')] = '=';
  if (part.starts_with("no ")) part = part.substr(3);
  return part.substr(0, part.find('('));
}

}  // namespace

PageTable strategy_in_words(const planner::Plan& plan) {
  PageTable table{"What each part of this strategy means",
                  {{"part", false}, {"meaning", false}}, {}, true};
  for (const std::string& part : planner::parts_of(plan.chosen->strategy))
    if (const auto found = look_up(asked_as(part)); found.ok())
      table.rows.push_back({words(part), words(found->front()->text)});
  return table;
}

Section words_section(const planner::Plan& plan) {
  PageTable table = words_table("What the words on this page mean");
  add_words("memory term", {"weights", "gradients", "optimizer", "activations", "logits",
                            "communication", "live", "reserved", "workspace", "context",
                            "communicators", "device", "usable"}, table);
  add_words("time term", {"step", "compute", "exposed_communication", "bubble"}, table);
  add_words("throughput", {"mfu"}, table);
  add_words("word", {"rank", "stage", "payload", "busy", "pareto", "recomputation"}, table);
  add_words("recipe", {plan.job.recipe}, table);
  add_words("optimizer", {planner::optimizer(plan.job.optimizer).name}, table);
  add_words("attention", {plan.job.attention}, table);
  add_words("framework", {plan.job.framework}, table);
  for (const auto& [limit, count] : plan.rejected_per_limit)
    if (const GlossaryEntry* entry = find_entry("limit", limit); entry != nullptr)
      add_word("limit: " + limit, *entry, table);
  return {"Words", {Text{"`planner explain WORD` says more of each, with formulas and pictures."},
                    std::move(table)}};
}

}  // namespace reports::html
