#include "cli/points.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/kept_output.hpp"
#include "cli/process.hpp"
#include "core/code.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/parse_units.hpp"
#include "reports/front.hpp"
#include "sim/program/collective.hpp"

namespace cli {
namespace {

using reports::FigureUnit;
using reports::Subject;

constexpr std::size_t kFrontShown = 8;

const reports::Figure& figure(std::string_view key) {
  for (const reports::Figure& f : reports::figures())
    if (f.key == key) return f;
  PLANNER_CHECK(false, "no such figure");
  return reports::figures().front();
}
std::string shown(const Subject& s, std::string_view key) {
  const reports::Figure& f = figure(key);
  return reports::figure_text(f.value(s), f.unit);
}

// Columns of their own, and the first words of a label.
bool is_of_every_point(std::string_view setting) {
  constexpr std::array<std::string_view, 4> kAlways{"gpu", "gpus", "seq", "global-batch"};
  return std::ranges::find(kAlways, setting) != kAlways.end();
}

std::string label_of(std::int64_t gpus, std::string_view gpu, std::int64_t batch,
                     std::int64_t seq_len, const Settings& settings) {
  std::string text = fmt::format("{} x {}, {} x {}", gpus, gpu, batch, seq_len);
  for (const auto& [name, value] : settings)
    if (!is_of_every_point(name)) text += fmt::format(", {} {}", name, value);
  return text;
}

core::Json points_json(const Points& p) {
  return core::Json::object(
      {{"schema", "sweep/1"},
       {"said", p.said},
       {"answer", p.answer ? core::Json(static_cast<std::int64_t>(*p.answer)) : core::Json()},
       {"points", reports::subjects_json(p.points)},
       {"front", reports::subjects_json(p.front)}});
}

// "csv", "md", else "": what a file's name asks for.
std::string_view form_of(const std::string& name) {
  if (name.ends_with(".csv")) return "csv";
  return name.ends_with(".md") ? "md" : "";
}

std::string in_form(std::string_view form, const Points& points) {
  if (form == "csv") return reports::subjects_csv(points.points);
  if (form == "md") return reports::subjects_markdown(points.points);
  return points_text(points, page_style());
}

}  // namespace

void add_points_output(OptionSet& set, PointsOutput& options) {
  add_output_options(set, options.output, "the points (sweep/1; .csv or .md by its name)");
  set.text("--format", options.format, "NAME", "of standard output: text, csv, md (text)");
}

core::Status check_points_output(const PointsOutput& options) {
  core::Problems problems;
  if (const core::Status target = check_output(options.output); !target.ok())
    problems = target.problems();
  const std::string format = options.format.value_or("text");
  if (format != "text" && format != "csv" && format != "md")
    problems.push_back({"--format", "text, csv or md", fmt::format("\"{}\"", format), ""});
  if (problems.empty()) return core::Done{};
  return problems;
}

core::Result<Subject> plan_point(PlanOptions options, bool hosts,
                                 std::vector<Subject>* contenders, const Settings& settings) {
  options.top.emplace(1, '0');
  auto requests = requests_of(options);
  if (!requests.ok()) return requests.problems();
  planner::Request& request = requests->front();
  request.hosts = hosts;
  request.fewer = false;
  request.brief = contenders == nullptr;
  request.gpu_given = true;  // no other machine is asked about
  const core::Result<planner::Plan> plan = planner::make_plan(request);
  if (!plan.ok()) return plan.problems();
  const std::string label = label_of(plan->gpus, reports::gpu_label(plan->profile, plan->gpus),
                                     plan->job.global_batch, plan->job.seq_len, settings);
  if (contenders != nullptr)
    for (Subject& s : reports::contenders_of(*plan, label)) contenders->push_back(std::move(s));
  Subject s = reports::chosen_of(*plan, label);
  s.settings = settings;
  return s;
}

Subject refused_point(const PlanOptions& options, const core::Problems& problems,
                      const Settings& settings) {
  const auto requests = requests_of(options);
  PLANNER_CHECK(requests.ok(), "a point whose options are wrong");
  const planner::Request& r = requests->front();
  Subject s;
  s.model = r.model.name;
  s.gpu = reports::gpu_label(r.profile, r.gpus);
  s.gpus = r.gpus;
  s.seq_len =
      r.job.seq_len > 0 ? r.job.seq_len : planner::default_seq_len(r.model, r.job);
  s.global_batch = r.job.global_batch > 0
                       ? r.job.global_batch
                       : planner::default_global_batch(r.model, r.job, r.gpus);
  s.label = label_of(s.gpus, s.gpu, s.global_batch, s.seq_len, settings);
  s.settings = settings;
  s.reason = core::to_text(problems.front());
  s.refused = true;
  return s;
}

namespace {

// A column of the table of points.
struct PointColumn {
  reports::Column column;
  std::function<std::string(const Subject&)> cell;
};

std::vector<PointColumn> question_columns(const std::vector<Subject>& points) {
  std::vector<PointColumn> all;
  for (std::size_t i = 0; !points.empty() && i < points.front().settings.size(); ++i)
    if (const std::string& name = points.front().settings[i].first; !is_of_every_point(name))
      all.push_back({{name, reports::Align::left},
                     [i](const Subject& s) { return s.settings[i].second; }});
  all.push_back({{"gpu", reports::Align::left}, [](const Subject& s) { return s.gpu; }});
  all.push_back({{"GPUs"}, [](const Subject& s) { return std::to_string(s.gpus); }});
  all.push_back({{"seq"}, [](const Subject& s) { return std::to_string(s.seq_len); }});
  all.push_back({{"batch"}, [](const Subject& s) { return std::to_string(s.global_batch); }});
  return all;
}

std::vector<PointColumn> answer_columns(const std::vector<Subject>& points) {
  std::vector<PointColumn> all;
  const auto add = [&](std::string title, const char* key) {
    all.push_back({{std::move(title)}, [key](const Subject& s) { return shown(s, key); }});
  };
  const auto any = [&](auto has) { return std::ranges::any_of(points, has); };
  add("step", "step_seconds");
  add("tokens/s", "tokens_per_second");
  add("mfu", "mfu");
  add("memory", "device_bytes");
  const auto risk = [](const Subject& s) {
    return s.candidate ? reports::percent_text(s.candidate->uncertainty.out_of_memory) : "-";
  };
  if (any([](const Subject& s) {
        return s.candidate && s.candidate->uncertainty.out_of_memory >= planner::kHardlyRisky;
      }))
    all.push_back({{"oom"}, risk});
  if (any([](const Subject& s) { return s.training.has_value(); })) {
    add("train", "training_seconds");
    add("USD", "cost_usd");
    add("energy", "energy_joules");
  } else if (any([](const Subject& s) { return s.token_usd.has_value(); })) {
    add("USD per M tokens", "usd_per_million_tokens");
  }
  return all;
}

std::string table_text(const std::vector<Subject>& points, const std::vector<PointColumn>& columns,
                       reports::TextStyle style) {
  std::vector<reports::Column> titles;
  for (const PointColumn& c : columns) titles.push_back(c.column);
  reports::Table table(std::move(titles));
  for (const Subject& s : points) {
    std::vector<std::string> cells;
    for (const PointColumn& c : columns) cells.push_back(c.cell(s));
    table.add(std::move(cells));
  }
  return table.text(style);
}

// One table with the strategies where they have room, else one of figures and one of strategies.
std::string tables_text(const std::vector<Subject>& points, reports::TextStyle style) {
  constexpr int kRoomOfStrategy = 32;  // columns
  std::vector<PointColumn> asked = question_columns(points);
  std::vector<std::string> same;
  if (points.size() > 1)
    std::erase_if(asked, [&](const PointColumn& c) {
      const std::string first = c.cell(points.front());
      const bool varies = std::ranges::any_of(
          points, [&](const Subject& s) { return c.cell(s) != first; });
      if (!varies) same.push_back(fmt::format("{} {}", c.column.title, first));
      return !varies;
    });
  std::vector<PointColumn> figures = asked;
  for (PointColumn& c : answer_columns(points)) figures.push_back(std::move(c));
  const PointColumn strategy{{"strategy", reports::Align::left}, &reports::summary_text};
  std::string text;
  if (!same.empty())
    text = reports::wrapped(fmt::format("All points: {}.", fmt::join(same, ", ")), 0, 2, style);
  const std::string alone = table_text(points, figures, style);
  if (reports::widest_line(alone) + kRoomOfStrategy <= style.width) {
    figures.push_back(strategy);
    return text + table_text(points, figures, style);
  }
  asked.push_back(strategy);
  return text + alone + '\n' + table_text(points, asked, style);
}

}  // namespace

std::string points_text(const Points& p, reports::TextStyle style) {
  std::string text = tables_text(p.points, style) +
                     reports::front_text(p.front, kFrontShown, style) +
                     reports::prices_text(p.points, style);
  if (!p.said.empty()) text += '\n' + reports::wrapped(p.said, 0, 2, style);
  return text + reports::next_steps_text(p.next, style);
}

std::vector<reports::NextStep> next_of(const PlanOptions& point, const PointsOutput& output) {
  const std::optional<std::string>& out = output.output.out;
  std::vector<reports::NextStep> steps{
      {command_of(point) + " --out plan.json", "plans it in full"}};
  if (!out)
    steps.push_back({"--out sweep.json", "keeps the points, for planner report"});
  else if (form_of(*out).empty())
    steps.push_back({core::code("planner report {} --out page.html", core::Code::shell(*out)),
                     "draws the points"});
  return steps;
}

core::Status deliver_points(const PointsOutput& options, const Points& points) {
  const std::string machine = fmt::format("{}\n", core::dump(points_json(points)));
  const OutputOptions& output = options.output;
  const WriteInProgress whole;
  if (output.out) {
    const std::string_view form = form_of(*output.out);
    const core::Status written = core::write_atomically(
        *output.out, form.empty() ? machine : in_form(form, points));
    if (!written.ok()) return written;
  }
  const auto page = [&] { return in_form(options.format.value_or("text"), points); };
  if (!output.json) return write_stdout(page());
  if (KeptOutput* kept = kept_output()) kept->page = page();
  return write_stdout(machine);
}

}  // namespace cli
