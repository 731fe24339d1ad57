// What varies in simulate/1: steps, and the goodput of a job with failures.
#include <fmt/format.h>

#include "reports/goodput_text.hpp"
#include "reports/html/sections.hpp"

namespace reports::html {
namespace {

PageTable job_table(const Document& d) {
  PageTable table{"A job that runs for days on parts that fail", {{"what", false}, {"value"}}, {},
                  false};
  const auto row = [&](const char* what, const char* key, Unit unit) {
    table.rows.push_back({words(what), cell(d, fmt::format("/goodput/{}", key), unit)});
  };
  row("between failures of a GPU", "gpu_between_failures", Unit::seconds);
  row("between failures of the job", "job_between_failures", Unit::seconds);
  row("way to save", "saves", Unit::text);
  row("bytes of a checkpoint", "checkpoint_bytes", Unit::bytes);
  row("steps stop for a checkpoint", "save", Unit::seconds);
  row("until it counts, behind the steps", "behind", Unit::seconds);
  row("to notice a failure", "detect", Unit::seconds);
  row("to restart", "restart", Unit::seconds);
  row("nodes that stand by", "spare_nodes", Unit::count);
  row("wait for nodes after a failure", "wait", Unit::seconds);
  row("interval, steps", "interval_steps", Unit::count);
  row("goodput expected", "expected", Unit::fraction);
  row("goodput as played", "played", Unit::fraction);
  row("time saving, as played", "shares/saving", Unit::fraction);
  row("time repeating steps, as played", "shares/repeated", Unit::fraction);
  row("time restarting, as played", "shares/restarting", Unit::fraction);
  row("time waiting for nodes, as played", "shares/waiting", Unit::fraction);
  row("steps done", "steps", Unit::count);
  row("failures", "failures", Unit::count);
  row("steps lost", "lost_steps", Unit::count);
  std::erase_if(table.rows, [](const auto& cells) { return cells.back().text == "-"; });
  return table;
}

PageTable rules_table(const Document& d) {
  PageTable table{"Interval between checkpoints, by formula and by simulation",
                  {{"rule", false}, {"steps"}, {"first order"}, {"Daly"}, {"extended"},
                   {"simulated"}},
                  {}, false};
  for (std::size_t i = 0; i < count_at(d, "/goodput/rules"); ++i) {
    const std::string base = fmt::format("/goodput/rules/{}", i);
    table.rows.push_back({words(std::string(rule_words(text_at(d, base + "/rule")))),
                          cell(d, base + "/interval_steps", Unit::count),
                          cell(d, base + "/first_order", Unit::fraction),
                          cell(d, base + "/daly", Unit::fraction),
                          cell(d, base + "/expected", Unit::fraction),
                          cell(d, base + "/played", Unit::fraction)});
  }
  return table;
}

PageTable failing_table(const Document& d) {
  PageTable table{"Parts that fail",
                  {{"part", false}, {"number"}, {"one fails every"}, {"nodes taken away"},
                   {"repair"}, {"failures, as played"}},
                  {}, true};
  for (std::size_t i = 0; i < count_at(d, "/goodput/kinds"); ++i) {
    const std::string base = fmt::format("/goodput/kinds/{}", i);
    table.rows.push_back({cell(d, base + "/kind", Unit::text),
                          cell(d, base + "/parts", Unit::count),
                          cell(d, base + "/between_failures", Unit::seconds),
                          cell(d, base + "/nodes_taken", Unit::count),
                          cell(d, base + "/repair", Unit::seconds),
                          cell(d, base + "/failures", Unit::count)});
  }
  return table;
}

}  // namespace

Section variation_section(const Document& d) {
  PageTable table{"Steps with slow ranks and links", {{"what", false}, {"step"}}, {}, false};
  const std::pair<const char*, const char*> rows[] = {{"without them", "/time/step"},
                                                      {"mean", "/variation/mean"},
                                                      {"p50", "/variation/p50"},
                                                      {"p95", "/variation/p95"},
                                                      {"p99", "/variation/p99"},
                                                      {"shortest", "/variation/least"},
                                                      {"longest", "/variation/most"}};
  for (const auto& [what, pointer] : rows)
    table.rows.push_back({words(what), cell(d, pointer, Unit::seconds)});
  return {"Steps that vary",
          {Text{fmt::format("{} of {} seeded steps had a slow rank or link.",
                            cell(d, "/variation/slowed_steps", Unit::count).text,
                            cell(d, "/variation/steps", Unit::count).text),
                TextKind::lead},
           std::move(table)}};
}

Section goodput_section(const Document& d) {
  Section section{"Failures and goodput", {job_table(d)}};
  if (count_at(d, "/goodput/rules") > 0) {
    section.blocks.push_back(Text{
        "Extended is Daly's formula with what it leaves out: checkpoints that are written behind "
        "the steps, and nodes that have to be waited for."});
    section.blocks.push_back(rules_table(d));
  }
  if (count_at(d, "/goodput/kinds") > 0) section.blocks.push_back(failing_table(d));
  std::string assumed;
  for (std::size_t i = 0; i < count_at(d, "/goodput/assumed"); ++i)
    assumed += (i == 0 ? "Assumed: " : "; ") + text_at(d, fmt::format("/goodput/assumed/{}", i));
  if (!assumed.empty()) section.blocks.push_back(Text{assumed + '.'});
  return section;
}

}  // namespace reports::html
