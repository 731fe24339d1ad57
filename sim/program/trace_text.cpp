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

static std::string microseconds(std::int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

static std::string text_of(const TraceArgs& args) {
  std::string text;
  for (const TraceArg& arg : args) {
    if (arg.name.empty()) continue;
    if (!text.empty()) text += ',';
    if (const auto* number = std::get_if<std::int64_t>(&arg.value))
      text += fmt::format(R"("{}":{})", arg.name, *number);
    else
      text += fmt::format(R"("{}":"{}")", arg.name, escaped(std::get<1>(arg.value)));
  }
  return text;
}

void TraceText::begin_rank(int rank, const RankClass& k) {
  rank_ = rank;
  has_term_ = {};
  for (const Buffer& buffer : k.buffers) has_term_[static_cast<std::size_t>(buffer.term)] = true;
  event(fmt::format(R"("ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}, {}"}})",
                    rank, rank, escaped(k.name)));
  event(fmt::format(R"("ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}})",
                    rank, rank));
  thread(kPassThread, "passes");
  for (int s = 0; s < kStreams; ++s) {
    const auto stream = static_cast<Stream>(s);
    if (uses(k, stream)) thread(stream_thread(stream), name(stream));
  }
}

void TraceText::thread(int number, std::string_view name) {
  event(fmt::format(R"("ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}})",
                    rank_, number, name));
}

void TraceText::slice(const TraceSlice& s) {
  if (s.finish <= s.start) return;
  const std::int64_t start = s.start / kPicosecondsPerNanosecond;
  const std::int64_t finish = s.finish / kPicosecondsPerNanosecond;
  event(fmt::format(
      R"("ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}})",
      escaped(s.name), s.category, rank_, s.thread, microseconds(start),
      microseconds(finish - start), text_of(s.args)));
  if (s.message) message(s);
}

void TraceText::message(const TraceSlice& s) {
  const bool sends = s.message->sends;
  event(fmt::format(
      R"("ph":"{}","name":"message","cat":"flow","id":{},"pid":{},"tid":{},"ts":{}{})",
      sends ? "s" : "f", message_ids_(*s.message), rank_, s.thread,
      microseconds(s.start / kPicosecondsPerNanosecond), sends ? "" : R"(,"bp":"e")"));
}

void TraceText::memory(std::int64_t at, const TermBytes& level) {
  std::string args;
  for (std::size_t t = 0; t < kTerms; ++t)
    if (has_term_[t])
      args += fmt::format(R"({}"{}":{})", args.empty() ? "" : ",", name(static_cast<Term>(t)),
                          level[t].value());
  event(fmt::format(R"("ph":"C","name":"live bytes","pid":{},"ts":{},"args":{{{}}})", rank_,
                    microseconds(at / kPicosecondsPerNanosecond), args));
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
