#include "sim/program/trace_packets.hpp"

#include <fmt/format.h>

namespace program {

using core::ProtoMessage;

namespace {

// Field numbers of protos/perfetto/trace/ in Perfetto's repository [perfetto], by file.
constexpr int kPacket = 1;             // trace.proto: Trace
namespace packet_field {               // trace_packet.proto
constexpr int kTimestamp = 8, kSequence = 10, kEvent = 11, kInterned = 12, kSequenceFlags = 13,
              kDescriptor = 60;
constexpr std::uint64_t kStateCleared = 1, kNeedsState = 2;  // SequenceFlags
}  // namespace packet_field
namespace interned_field {             // interned_data/interned_data.proto
constexpr int kCategories = 1, kNames = 2, kArgNames = 3, kArgTexts = 29;
constexpr int kId = 1, kText = 2;      // of each entry
}  // namespace interned_field
namespace event_field {                // track_event/track_event.proto
constexpr int kCategory = 3, kArgs = 4, kType = 9, kName = 10, kTrack = 11, kExtraValues = 12,
              kCounterValue = 30, kExtraTracks = 31, kFlows = 47, kEndingFlows = 48;
constexpr std::uint64_t kBegin = 1, kEnd = 2, kCounter = 4;  // Type
}  // namespace event_field
namespace annotation_field {           // track_event/debug_annotation.proto
constexpr int kName = 1, kInt = 4, kText = 17;
}  // namespace annotation_field
namespace track_field {                // track_event/track_descriptor.proto and what it has
constexpr int kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParent = 5, kCounter = 8;
constexpr int kProcessPid = 1, kProcessName = 6;
constexpr int kThreadPid = 1, kThreadTid = 2, kThreadName = 5;
constexpr int kCounterUnit = 3;
constexpr std::uint64_t kUnitBytes = 3;  // UNIT_SIZE_BYTES
}  // namespace track_field

constexpr std::uint64_t kOurSequence = 1;
// Tracks of a rank: the process, its threads, the counters of the sum and of the terms.
constexpr int kProcessTrack = 0, kFirstThread = 1, kSumTrack = kFirstThread + kTraceThreads,
              kFirstTerm = kSumTrack + 1, kTracksPerRank = 32;
static_assert(kFirstTerm + kTerms <= kTracksPerRank);

std::uint64_t nanoseconds(std::int64_t picoseconds) {
  return static_cast<std::uint64_t>(picoseconds / kPicosecondsPerNanosecond);
}

}  // namespace

TracePackets::TracePackets()
    : categories_{interned_field::kCategories}, names_{interned_field::kNames},
      arg_names_{interned_field::kArgNames}, arg_texts_{interned_field::kArgTexts} {
  ProtoMessage first;
  first.number(packet_field::kSequence, kOurSequence);
  first.number(packet_field::kSequenceFlags, packet_field::kStateCleared);
  write_packet(first);
}

std::uint64_t TracePackets::intern(Texts& texts, std::string_view text) {
  if (const auto known = texts.ids.find(text); known != texts.ids.end()) return known->second;
  const std::uint64_t id = texts.ids.size() + 1;
  texts.ids.emplace(text, id);
  ProtoMessage entry;
  entry.number(interned_field::kId, id);
  entry.text(interned_field::kText, text);
  interned_.message(texts.field, entry);
  return id;
}

// Not 0, which is Perfetto's track of the whole trace.
std::uint64_t TracePackets::track(int place) const {
  return static_cast<std::uint64_t>(rank_ + 1) * kTracksPerRank +
         static_cast<std::uint64_t>(place);
}

void TracePackets::begin_rank(int rank, const RankClass& k) {
  rank_ = rank;
  told_any_ = false;
  ProtoMessage process, descriptor;
  process.number(track_field::kProcessPid, static_cast<std::uint64_t>(rank) + 1);
  process.text(track_field::kProcessName, fmt::format("rank {}, {}", rank, k.name));
  descriptor.number(track_field::kUuid, track(kProcessTrack));
  descriptor.message(track_field::kProcess, process);
  write_descriptor(descriptor);
  thread(kPassThread, "passes");
  for (int s = 0; s < kStreams; ++s) {
    const auto stream = static_cast<Stream>(s);
    if (uses(k, stream)) thread(stream_thread(stream), name(stream));
  }
  has_term_ = {};
  for (const Buffer& buffer : k.buffers) has_term_[static_cast<std::size_t>(buffer.term)] = true;
  counter_track(kSumTrack, "live bytes");
  for (int t = 0; t < kTerms; ++t)
    if (has_term_[static_cast<std::size_t>(t)])
      counter_track(kFirstTerm + t, fmt::format("live bytes, {}", name(static_cast<Term>(t))));
}

void TracePackets::thread(int number, std::string_view name) {
  ProtoMessage thread, descriptor;
  thread.number(track_field::kThreadPid, static_cast<std::uint64_t>(rank_) + 1);
  thread.number(track_field::kThreadTid, track(kFirstThread + number));
  thread.text(track_field::kThreadName, name);
  descriptor.number(track_field::kUuid, track(kFirstThread + number));
  descriptor.message(track_field::kThread, thread);
  descriptor.number(track_field::kParent, track(kProcessTrack));
  write_descriptor(descriptor);
}

void TracePackets::counter_track(int place, std::string_view name) {
  ProtoMessage counter, descriptor;
  counter.number(track_field::kCounterUnit, track_field::kUnitBytes);
  descriptor.number(track_field::kUuid, track(place));
  descriptor.text(track_field::kName, name);
  descriptor.number(track_field::kParent, track(kProcessTrack));
  descriptor.message(track_field::kCounter, counter);
  write_descriptor(descriptor);
}

void TracePackets::slice(const TraceSlice& s) {
  if (s.finish <= s.start) return;
  // In the order of the fields, as protobuf's own library writes what is new.
  const std::uint64_t category = intern(categories_, s.category), name = intern(names_, s.name);
  for (const TraceArg& arg : s.args)
    if (!arg.name.empty()) intern(arg_names_, arg.name);
  ProtoMessage begin;
  begin.number(event_field::kCategory, category);
  add_args(begin, s.args);
  begin.number(event_field::kType, event_field::kBegin);
  begin.number(event_field::kName, name);
  begin.number(event_field::kTrack, track(kFirstThread + s.thread));
  if (s.message)
    begin.fixed(s.message->sends ? event_field::kFlows : event_field::kEndingFlows,
                message_ids_(*s.message));
  write_event(s.start, begin);
  ProtoMessage end;
  end.number(event_field::kType, event_field::kEnd);
  end.number(event_field::kTrack, track(kFirstThread + s.thread));
  write_event(s.finish, end);
}

void TracePackets::add_args(ProtoMessage& event, const TraceArgs& args) {
  for (const TraceArg& arg : args) {
    if (arg.name.empty()) continue;
    ProtoMessage a;
    a.number(annotation_field::kName, intern(arg_names_, arg.name));
    if (const auto* number = std::get_if<std::int64_t>(&arg.value))
      a.number(annotation_field::kInt, static_cast<std::uint64_t>(*number));
    else
      a.number(annotation_field::kText, intern(arg_texts_, std::get<1>(arg.value)));
    event.message(event_field::kArgs, a);
  }
}

// The sum, and beside it the terms that changed.
void TracePackets::memory(std::int64_t at, const TermBytes& level) {
  ProtoMessage event;
  event.number(event_field::kType, event_field::kCounter);
  event.number(event_field::kTrack, track(kSumTrack));
  std::array<bool, kTerms> changed{};
  for (std::size_t t = 0; t < kTerms; ++t)
    changed[t] = has_term_[t] && (!told_any_ || level[t] != told_[t]);
  for (std::size_t t = 0; t < kTerms; ++t)
    if (changed[t])
      event.number(event_field::kExtraValues, static_cast<std::uint64_t>(level[t].value()));
  event.number(event_field::kCounterValue, static_cast<std::uint64_t>(sum(level).value()));
  for (std::size_t t = 0; t < kTerms; ++t)
    if (changed[t])
      event.number(event_field::kExtraTracks, track(kFirstTerm + static_cast<int>(t)));
  told_ = level;
  told_any_ = true;
  write_event(at, event);
}

void TracePackets::write_descriptor(const ProtoMessage& descriptor) {
  ProtoMessage packet;
  packet.number(packet_field::kSequence, kOurSequence);
  packet.message(packet_field::kDescriptor, descriptor);
  write_packet(packet);
}

void TracePackets::write_event(std::int64_t at, const ProtoMessage& event) {
  ProtoMessage packet;
  packet.number(packet_field::kTimestamp, nanoseconds(at));
  packet.number(packet_field::kSequence, kOurSequence);
  packet.message(packet_field::kEvent, event);
  if (!interned_.empty()) packet.message(packet_field::kInterned, interned_);
  interned_.clear();
  packet.number(packet_field::kSequenceFlags, packet_field::kNeedsState);
  write_packet(packet);
}

void TracePackets::write_packet(const ProtoMessage& packet) {
  ProtoMessage file;
  file.message(kPacket, packet);
  file_ += file.bytes();
}

}  // namespace program
