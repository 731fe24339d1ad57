#include "sim/program/trace_text.hpp"

#include <utility>

#include <fmt/format.h>

namespace program {

static std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out;
}

std::string TraceText::microseconds(std::int64_t picoseconds) {
  return fmt::format("{}.{:06}", picoseconds / 1'000'000, picoseconds % 1'000'000);
}

void TraceText::begin_rank(int rank, const RankClass& k) {
  rank_ = rank;
  event(fmt::format(R"("ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}, {}"}})",
                    rank, rank, escaped(k.name)));
  event(fmt::format(R"("ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}})",
                    rank, rank));
  thread(kPassThread, "passes");
  for (int s = 0; s < kStreams; ++s) {
    const auto stream = static_cast<Stream>(s);
    if (uses(k, stream)) thread(thread_of(stream), name(stream));
  }
}

void TraceText::thread(int number, std::string_view name) {
  event(fmt::format(R"("ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}})",
                    rank_, number, name));
}

void TraceText::slice(int thread, std::string_view name, std::string_view category,
                      std::int64_t start, std::int64_t finish, std::string_view args) {
  if (finish <= start) return;
  event(fmt::format(
      R"("ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}})",
      escaped(name), category, rank_, thread, microseconds(start), microseconds(finish - start),
      args));
}

void TraceText::memory(std::int64_t at, const TermBytes& level) {
  std::string args;
  for (std::size_t t = 0; t < kTerms; ++t)
    args += fmt::format(R"({}"{}":{})", t == 0 ? "" : ",", name(static_cast<Term>(t)),
                        level[t].value());
  event(fmt::format(R"("ph":"C","name":"live bytes","pid":{},"ts":{},"args":{{{}}})", rank_,
                    microseconds(at), args));
}

void TraceText::event(std::string_view body) {
  if (written_++ > 0) text_ += ",\n";
  text_ += '{';
  text_ += body;
  text_ += '}';
}

std::string TraceText::finish() {
  text_ += "\n]}\n";
  return std::move(text_);
}

std::string transfer_name(const Action& a, const Transfer& t) {
  const bool collective = a.kind == ActionKind::collective;
  return fmt::format("{} {}", collective ? name(t.collective) : name(a.kind), name(t.what));
}

std::string action_name(const RankClass& k, const Action& a) {
  if (a.kind >= ActionKind::collective) return transfer_name(a, k.transfers[a.op]);
  const bool of_operator = a.kind == ActionKind::forward || a.kind == ActionKind::input_gradient ||
                           a.kind == ActionKind::weight_gradient;
  return of_operator ? fmt::format("{} {}", name(a.kind), k.operators[a.op].name)
                     : std::string(name(a.kind));
}

}  // namespace program
