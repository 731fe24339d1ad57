#include "reports/subjects_comparison.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/code.hpp"
#include "core/parse_units.hpp"
#include "core/untrusted.hpp"
#include "hw_profiles/mixed.hpp"
#include "planner/evaluate/candidate_json.hpp"
#include "reports/other_hardware.hpp"
#include "reports/price_text.hpp"

namespace reports {
namespace {

using core::Json;
using Value = std::optional<double>;
using planner::Candidate;

template <auto Member>
Value of_time(const Subject& s) {
  return s.candidate ? Value((s.candidate->time.*Member).value()) : Value();
}
template <auto Member>
Value of_memory(const Subject& s) {
  return s.candidate ? Value(static_cast<double>((s.candidate->memory.worst.*Member).value()))
                     : Value();
}
template <program::Term term>
Value of_term(const Subject& s) {
  if (!s.candidate) return {};
  return static_cast<double>(
      s.candidate->memory.worst.terms[static_cast<std::size_t>(term)].value());
}
template <auto Member>
Value of_throughput(const Subject& s) {
  return s.candidate ? Value(s.candidate->throughput.*Member) : Value();
}
template <class T>
Value measured(const std::optional<T>& value) {
  return value ? Value(static_cast<double>(value->value())) : Value();
}

Value usable(const Subject& s) {
  return s.candidate ? Value(static_cast<double>(s.candidate->memory.usable.value())) : Value();
}
Value step_low(const Subject& s) {
  return s.candidate ? Value(s.candidate->uncertainty.step_low.value()) : Value();
}
Value step_high(const Subject& s) {
  return s.candidate ? Value(s.candidate->uncertainty.step_high.value()) : Value();
}
Value measured_step(const Subject& s) {
  return s.time ? measured(s.time->step_median) : Value();
}
Value step_error(const Subject& s) {
  const Value step = measured_step(s);
  if (!step || *step == 0 || !s.candidate || s.other_hardware) return {};
  return (s.candidate->time.step.value() - *step) / *step;
}
Value wire(const Subject& s) {
  if (!s.candidate) return {};
  double sum = 0;
  for (const planner::CommunicationEntry& e : s.candidate->communication)
    sum += static_cast<double>(e.wire_per_rank.value());
  return sum;
}
Value measured_live(const Subject& s) { return s.memory ? measured(s.memory->live) : Value(); }
Value measured_device(const Subject& s) { return s.memory ? measured(s.memory->device) : Value(); }
Value training_seconds(const Subject& s) {
  return s.training ? Value(s.training->seconds.value()) : Value();
}
Value gpu_hours(const Subject& s) {
  return s.training ? Value(s.training->gpu_hours) : Value();
}
Value cost(const Subject& s) {
  return s.training && s.training->cost ? Value(s.training->cost->value()) : Value();
}
Value million_tokens(const Subject& s) {
  return s.token_usd ? Value(*s.token_usd * 1e6) : Value();
}
Value energy(const Subject& s) {
  return s.training && s.training->energy ? Value(s.training->energy->value()) : Value();
}

Subject subject_of(const planner::Plan& plan, std::string label) {
  Subject s;
  s.label = std::move(label);
  s.model = plan.model.name;
  s.gpu = gpu_label(plan.profile, plan.gpus);
  s.gpus = plan.gpus;
  s.seq_len = plan.job.seq_len;
  s.global_batch = plan.job.global_batch;
  return s;
}

// text: the price of a GPU hour in words.
void set_price(Subject& s, const hw_profiles::Gpu& gpu, std::string text) {
  if (!s.candidate) return;
  const auto token = token_price(gpu, s.gpus, s.candidate->throughput.tokens_per_second);
  if (token) s.token_usd = token->value();
  s.price = std::move(text);
}


// Exact: bytes and counts as integers, the rest with the digits that read back equal.
Json exact(const Value& value, FigureUnit unit) {
  if (!value) return Json();
  if (unit == FigureUnit::bytes) return static_cast<std::int64_t>(*value);
  return *value;
}

// The figures that some subject knows.
std::vector<const Figure*> known_figures(const std::vector<Subject>& subjects) {
  std::vector<const Figure*> known;
  for (const Figure& f : figures())
    if (std::ranges::any_of(subjects, [&](const Subject& s) { return f.value(s).has_value(); }))
      known.push_back(&f);
  return known;
}

double fastest(const std::vector<Subject>& subjects) {
  double best = INFINITY;
  for (const Subject& s : subjects)
    if (s.candidate) best = std::min(best, s.candidate->time.step.value());
  return best;
}

// A file's text on a terminal: control characters do nothing there.
std::string tame(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out;
}

std::string question_text(const Subject& s) {
  return fmt::format("{} on {} x {}, {} x {} a step", tame(s.model), s.gpus, tame(s.gpu),
                     s.global_batch, s.seq_len);
}

}  // namespace

std::string summary_text(const Subject& s) {
  if (s.candidate) return planner::to_text(s.candidate->strategy);
  return (s.refused ? "refused: " : "nothing fits: ") + s.reason;
}

const std::vector<Figure>& figures() {
  using T = program::Term;
  using U = FigureUnit;
  static const std::vector<Figure> all{
      {"step_seconds", "step", U::seconds, of_time<&planner::Time::step>},
      {"step_low_seconds", "step, low", U::seconds, step_low},
      {"step_high_seconds", "step, high", U::seconds, step_high},
      {"measured_step_seconds", "step, measured", U::seconds, measured_step},
      {"step_relative_error", "error", U::fraction, step_error},
      {"compute_seconds", "compute", U::seconds, of_time<&planner::Time::compute>},
      {"exposed_communication_seconds", "exposed communication", U::seconds,
       of_time<&planner::Time::exposed_communication>},
      {"bubble_seconds", "bubble", U::seconds, of_time<&planner::Time::bubble>},
      {"optimizer_seconds", "optimizer step", U::seconds, of_time<&planner::Time::optimizer>},
      {"communication_seconds", "communication, busy", U::seconds,
       of_time<&planner::Time::communication>},
      {"tokens_per_second", "tokens/s", U::count,
       of_throughput<&planner::Throughput::tokens_per_second>},
      {"tokens_per_second_per_gpu", "tokens/s/GPU", U::count,
       of_throughput<&planner::Throughput::tokens_per_second_per_gpu>},
      {"mfu", "mfu", U::fraction, of_throughput<&planner::Throughput::mfu>},
      {"device_bytes", "memory", U::bytes, of_memory<&planner::MemoryTerms::device>},
      {"usable_bytes", "usable", U::bytes, usable},
      {"measured_device_bytes", "memory, measured", U::bytes, measured_device},
      {"live_bytes", "live", U::bytes, of_memory<&planner::MemoryTerms::live>},
      {"measured_live_bytes", "live, measured", U::bytes, measured_live},
      {"weights_bytes", "weights", U::bytes, of_term<T::weights>},
      {"gradients_bytes", "gradients", U::bytes, of_term<T::gradients>},
      {"optimizer_bytes", "optimizer state", U::bytes, of_term<T::optimizer>},
      {"activations_bytes", "activations", U::bytes, of_term<T::activations>},
      {"logits_bytes", "logits", U::bytes, of_term<T::logits>},
      {"communication_bytes", "buffers", U::bytes, of_term<T::communication>},
      {"wire_bytes_per_rank", "sent a step", U::bytes, wire},
      {"training_seconds", "time to train", U::seconds, training_seconds},
      {"gpu_hours", "GPU hours", U::number, gpu_hours},
      {"cost_usd", "rent, USD", U::number, cost},
      {"usd_per_million_tokens", "USD per M tokens", U::number, million_tokens},
      {"energy_joules", "energy", U::energy, energy},
  };
  return all;
}

std::string figure_text(const Value& value, FigureUnit unit) {
  if (!value) return "-";
  switch (unit) {
    case FigureUnit::bytes:
      return core::to_text(core::Bytes(static_cast<std::int64_t>(*value)));
    case FigureUnit::seconds: return core::to_text(core::Seconds(*value));
    case FigureUnit::count: return core::count_text(std::llround(*value));
    case FigureUnit::fraction: return percent_text(*value);
    case FigureUnit::number: return number_text(*value);
    case FigureUnit::energy: return energy_text(*value);
  }
  return "";
}

std::string gpu_label(const hw_profiles::Profile& profile, std::int64_t gpus) {
  return profile.others.empty() ? profile.gpu.id : hw_profiles::gpus_text(profile, gpus);
}

Subject chosen_of(const planner::Plan& plan, std::string label) {
  Subject s = subject_of(plan, std::move(label));
  s.candidate = plan.chosen;
  s.training = plan.training;
  set_price(s, hw_profiles::mean_gpu(plan.profile, plan.gpus), price_text(plan.profile));
  if (plan.chosen || plan.rejected.empty()) return s;
  // A lack of memory says more than a number that does not divide.
  const auto memory = std::ranges::find(plan.rejected, "memory", &planner::Rejection::limit);
  const planner::Rejection& r =
      memory == plan.rejected.end() ? plan.rejected.front() : *memory;
  s.reason = r.fix.empty() ? r.limit : fmt::format("{}. Fix: {}", r.limit, r.fix);
  return s;
}

std::vector<Subject> candidates_of(const planner::Plan& plan) {
  std::vector<Subject> subjects;
  const auto add = [&](const Candidate& c, std::string label) {
    const bool there = std::ranges::any_of(
        subjects, [&](const Subject& s) { return s.candidate->strategy == c.strategy; });
    if (there) return;
    subjects.push_back(subject_of(plan, std::move(label)));
    subjects.back().candidate = c;
    set_price(subjects.back(), plan.profile.gpu, price_text(plan.profile));
  };
  if (plan.chosen) add(*plan.chosen, "recommended");
  for (std::size_t i = 0; i < plan.alternatives.size(); ++i)
    add(plan.alternatives[i], fmt::format("alternative {}", i + 1));
  for (std::size_t i = 0; i < plan.pareto.size(); ++i)
    add(plan.pareto[i], fmt::format("front {}", i + 1));
  return subjects;
}

std::vector<Subject> machines_of(const planner::Plan& plan) {
  std::vector<Subject> subjects;
  const bool own = std::ranges::any_of(plan.other_machines, [&](const planner::OtherMachine& m) {
    return m.gpu == plan.profile.gpu.id;
  });
  if (!own) subjects.push_back(chosen_of(plan, plan.profile.gpu.id));
  for (const planner::OtherMachine& m : plan.other_machines) {
    Subject s = subject_of(plan, m.gpu);
    s.gpu = m.gpu;
    s.candidate = m.candidate;
    if (!m.candidate) s.reason = "no feasible strategy";
    hw_profiles::Gpu gpu;
    gpu.price = m.price;
    if (m.price) set_price(s, gpu, price_text(*m.price, core::visible(m.price_source)));
    subjects.push_back(std::move(s));
  }
  return subjects;
}

Subject run_of(const exec::RunRecord& run, std::string label) {
  Subject s;
  s.label = std::move(label);
  s.model = run.model.name;
  s.gpu = run.profile.gpu.id;
  s.gpus = run.gpus;
  s.seq_len = run.job.seq_len;
  s.global_batch = run.job.global_batch;
  s.candidate = run.candidate;
  s.time = run.time;
  s.other_hardware = other_hardware(run).has_value();
  s.memory = run.memory;
  return s;
}

std::string prices_text(const std::vector<Subject>& subjects, TextStyle style) {
  std::string text;
  for (const Subject& s : subjects) {
    if (s.price.empty()) continue;
    const std::string line = wrapped(fmt::format("{}: {}", tame(s.gpu), s.price), 2, 4, style);
    if (text.find(line) == std::string::npos) text += line;
  }
  return text.empty() ? text : "\nPrices\n" + text;
}

std::string subjects_text(const std::vector<Subject>& subjects, TextStyle style) {
  Table summary({{"", Align::left}, {"step"}, {"against"}, {"memory"}, {"mfu"}, {"tokens/s"},
                 {"strategy", Align::left}});
  const double best = fastest(subjects);
  for (const Subject& s : subjects) {
    const Value step = of_time<&planner::Time::step>(s);
    summary.add({tame(s.label), figure_text(step, FigureUnit::seconds),
                 step && *step > best ? fmt::format("{:+.1f} %", 100 * (*step / best - 1)) : "-",
                 figure_text(of_memory<&planner::MemoryTerms::device>(s), FigureUnit::bytes),
                 figure_text(of_throughput<&planner::Throughput::mfu>(s), FigureUnit::fraction),
                 figure_text(of_throughput<&planner::Throughput::tokens_per_second>(s),
                             FigureUnit::count),
                 summary_text(s)});
    if (step && *step == best) summary.paint_last(Ink::good);
  }
  std::string text = painted("Side by side", Ink::heading, style) + '\n' + summary.text(style);
  std::string questions;
  for (const Subject& s : subjects)
    if (questions.find(question_text(s)) == std::string::npos)
      questions += (questions.empty() ? "" : "; ") + question_text(s);
  text += wrapped(questions, 2, 4, style);
  // As many subjects beside each other as the width takes.
  std::size_t widest = 8;
  for (const Subject& s : subjects) widest = std::max(widest, s.label.size());
  const std::size_t room = static_cast<std::size_t>(style.width) - 26;
  const std::size_t at_once = std::max<std::size_t>(1, room / (widest + 2));
  for (std::size_t first = 0; first < subjects.size(); first += at_once) {
    const std::size_t last = std::min(first + at_once, subjects.size());
    std::vector<Column> columns{{"figure", Align::left}};
    for (std::size_t i = first; i < last; ++i) columns.push_back({tame(subjects[i].label)});
    Table table(std::move(columns));
    for (const Figure* f : known_figures(subjects)) {
      std::vector<std::string> cells{std::string(f->title)};
      for (std::size_t i = first; i < last; ++i)
        cells.push_back(figure_text(f->value(subjects[i]), f->unit));
      table.add(std::move(cells));
    }
    text += '\n' + table.text(style);
  }
  return text + prices_text(subjects, style);
}

std::string subjects_csv(const std::vector<Subject>& subjects) {
  using core::Code;
  Code text = "label,model,gpu,gpus,seq_len,global_batch,strategy";
  for (const Figure& f : figures()) text += core::code(",{}", Code::own(f.key));
  text += "\n";
  for (const Subject& s : subjects) {
    Code row;
    const auto add = [&](const Code& cell) { row += core::code(",{}", cell); };
    for (const Figure& f : figures()) {
      const Json value = exact(f.value(s), f.unit);
      add(value.is_null() ? Code() : Code::json(value, 0));
    }
    text += core::code("{},{},{},{},{},{},{}{}\n", Code::csv(s.label), Code::csv(s.model),
                       Code::csv(s.gpu), s.gpus, s.seq_len, s.global_batch,
                       Code::csv(summary_text(s)), row);
  }
  return text.text();
}

std::string subjects_markdown(const std::vector<Subject>& subjects) {
  using core::Code;
  Code text;
  const auto add_row = [&](const std::string& title, const auto& cell_of) {
    Code row = core::code("| {} |", Code::markdown(title));
    for (const Subject& s : subjects) row += core::code(" {} |", Code::markdown(cell_of(s)));
    text += row + "\n";
  };
  add_row("figure", [](const Subject& s) { return s.label; });
  text += "|---|";
  for (std::size_t i = 0; i < subjects.size(); ++i) text += "---:|";
  text += "\n";
  add_row("strategy", [](const Subject& s) { return summary_text(s); });
  add_row("question", [](const Subject& s) { return question_text(s); });
  for (const Figure* f : known_figures(subjects))
    add_row(std::string(f->title),
            [&](const Subject& s) { return figure_text(f->value(s), f->unit); });
  return text.text();
}

Json subjects_json(const std::vector<Subject>& subjects) {
  Json array = Json::array();
  for (const Subject& s : subjects) {
    Json one = Json::object({{"label", s.label},
                             {"model", s.model},
                             {"gpu", s.gpu},
                             {"gpus", s.gpus},
                             {"seq_len", s.seq_len},
                             {"global_batch", s.global_batch},
                             {"feasible", s.candidate.has_value()},
                             {"summary", summary_text(s)}});
    Json settings = Json::object();
    for (const auto& [name, value] : s.settings) settings.set(name, value);
    one.set("settings", settings);
    one.set("strategy", s.candidate ? planner::to_json(s.candidate->strategy) : Json());
    for (const Figure& f : figures()) one.set(f.key, exact(f.value(s), f.unit));
    array.push_back(std::move(one));
  }
  return array;
}

}  // namespace reports
