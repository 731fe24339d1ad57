#include "exec/run/team.hpp"

#include "exec/run/pack.hpp"

namespace exec {
namespace {

void pack(Packer& p, const core::Problems& problems) {
  p.value(problems.size());
  for (const core::Problem& one : problems) {
    for (const std::string* part :
         {&one.where, &one.expected, &one.found, &one.fix, &one.statement})
      p.text(*part);
    p.value(one.kind);
  }
}

core::Problems unpack_problems(Unpacker& u) {
  core::Problems problems;
  for (auto n = u.value<std::size_t>(); n > 0; --n) {
    core::Problem one;
    for (std::string* part : {&one.where, &one.expected, &one.found, &one.fix, &one.statement})
      *part = u.text();
    one.kind = u.value<core::ProblemKind>();
    problems.push_back(std::move(one));
  }
  return problems;
}

void pack(Packer& p, const program::LibraryCalls& c) {
  p.text(c.algorithm);
  p.text(c.protocol);
  p.value(c.channels);
  p.value(c.count);
  for (const core::Bytes bytes : {c.payload, c.smallest, c.largest}) p.value(bytes);
}

program::LibraryCalls unpack_calls(Unpacker& u) {
  program::LibraryCalls c;
  c.algorithm = u.text();
  c.protocol = u.text();
  c.channels = u.value<int>();
  c.count = u.value<std::int64_t>();
  for (core::Bytes* bytes : {&c.payload, &c.smallest, &c.largest})
    *bytes = u.value<core::Bytes>();
  return c;
}

void pack(Packer& p, const RankReport& r) {
  p.value(r.terms);
  p.value(r.peaks);
  p.value(r.live);
  p.value(r.reserved);
  p.value(r.traffic.emulated_links);
  p.value(r.traffic.entries.size());
  for (const auto& [key, totals] : r.traffic.entries) {
    p.value(key);
    p.value(totals);
  }
  p.value(r.traffic.library.size());
  for (const auto& [key, calls] : r.traffic.library) {
    p.value(key);
    p.value(calls.size());
    for (const program::LibraryCalls& c : calls) pack(p, c);
  }
  p.values(r.times);
  p.values(r.loss);
  p.values(r.sent);
  p.value(r.staleness);
  p.text(r.host);
  p.text(r.device_states);
  for (const auto* bytes :
       {&r.beside.workspace, &r.beside.context, &r.beside.communicators, &r.beside.message_blocks,
        &r.beside.device})
    p.value(*bytes);
  p.value(r.loss_scale);
  p.value(r.kept.replayed);
  p.text(r.kept.refused);
}

RankReport unpack_report(Unpacker& u) {
  RankReport r;
  r.terms = u.value<program::TermBytes>();
  r.peaks = u.value<program::TermBytes>();
  r.live = u.value<core::Bytes>();
  r.reserved = u.value<core::Bytes>();
  r.traffic.emulated_links = u.value<bool>();
  for (auto n = u.value<std::size_t>(); n > 0; --n) {
    const auto key = u.value<TrafficKey>();
    r.traffic.entries[key] = u.value<TrafficTotals>();
  }
  for (auto n = u.value<std::size_t>(); n > 0; --n) {
    auto& calls = r.traffic.library[u.value<TrafficKey>()];
    for (auto m = u.value<std::size_t>(); m > 0; --m) calls.push_back(unpack_calls(u));
  }
  r.times = u.values<StepTimes>();
  r.loss = u.values<double>();
  r.sent = u.values<SentTo>();
  r.staleness = u.value<Staleness>();
  r.host = u.text();
  r.device_states = u.text();
  for (auto* bytes :
       {&r.beside.workspace, &r.beside.context, &r.beside.communicators, &r.beside.message_blocks,
        &r.beside.device})
    *bytes = u.value<std::optional<core::Bytes>>();
  r.loss_scale = u.value<std::optional<host::LossScaleState>>();
  r.kept.replayed = u.value<std::int64_t>();
  r.kept.refused = u.text();
  return r;
}

void pack(Packer& p, const StepLog& log) {
  p.value(log.which);
  p.value(log.live);
  for (const auto& stream : log.streams) p.values(stream);
  p.values(log.memory);
  p.value(log.kernels.has_value());
  if (!log.kernels) return;
  p.value(log.kernels->size());
  for (const LoggedKernel& k : *log.kernels) {
    p.value(k.stream);
    p.value(k.entry);
    p.text(k.name);
    p.value(k.start);
    p.value(k.finish);
  }
}

StepLog unpack_log(Unpacker& u) {
  StepLog log;
  log.which = u.value<program::StepOf>();
  log.live = u.value<program::TermBytes>();
  for (auto& stream : log.streams) stream = u.values<LoggedAction>();
  log.memory = u.values<LoggedMemory>();
  if (!u.value<bool>()) return log;
  log.kernels.emplace();
  for (auto n = u.value<std::size_t>(); n > 0; --n) {
    LoggedKernel k;
    k.stream = u.value<program::Stream>();
    k.entry = u.value<std::uint32_t>();
    k.name = u.text();
    k.start = u.value<double>();
    k.finish = u.value<double>();
    log.kernels->push_back(std::move(k));
  }
  return log;
}

}  // namespace

core::Problems agreed(Processes* processes, const core::Problems& mine) {
  if (processes == nullptr) return mine;
  Packer packer;
  pack(packer, mine);
  for (const std::string& one : processes->exchange(packer.take())) {
    Unpacker unpacker(one);
    core::Problems problems = unpack_problems(unpacker);
    if (!problems.empty()) return problems;
  }
  return {};
}

void share(Processes& processes, std::vector<RankReport>& reports) {
  Packer packer;
  pack(packer, reports[static_cast<std::size_t>(processes.rank())]);
  const std::vector<std::string> all = processes.exchange(packer.take());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    Unpacker unpacker(all[rank]);
    reports[rank] = unpack_report(unpacker);
  }
}

void share(Processes& processes, std::vector<StepLog>& logs) {
  Packer packer;
  pack(packer, logs[static_cast<std::size_t>(processes.rank())]);
  const std::vector<std::string> all = processes.exchange(packer.take());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    Unpacker unpacker(all[rank]);
    logs[rank] = unpack_log(unpacker);
  }
}

template <class T>
static std::vector<T> values_of_all(Processes& processes, const T& mine) {
  Packer packer;
  packer.value(mine);
  std::vector<T> values;
  for (const std::string& one : processes.exchange(packer.take()))
    values.push_back(Unpacker(one).value<T>());
  return values;
}

std::vector<std::int64_t> share(Processes& processes, std::int64_t mine) {
  return values_of_all(processes, mine);
}

std::vector<RankFile> share(Processes& processes, const RankFile& mine) {
  return values_of_all(processes, mine);
}

}  // namespace exec
