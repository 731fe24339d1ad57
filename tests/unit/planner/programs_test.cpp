// The Programs of the zoo, as a digest for each model: whether a change leaves them as they are. A
// change that means to alter them rewrites tests/golden/programs.txt (UPDATE_GOLDEN=1), and its
// commit says which Programs change and why.
#include <bit>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "tests/unit/planner/zoo_programs.hpp"

namespace {

// FNV-1a over the bytes of numbers and texts.
class Digest {
 public:
  template <class... T>
  void add(const T&... values) {
    (one(values), ...);
  }
  template <class Things, class Add>
  void each(const Things& things, Add&& add_thing) {
    one(things.size());
    for (const auto& thing : things) add_thing(thing);
  }
  std::uint64_t value() const { return value_; }

 private:
  template <class T>
  void one(const T& value) {
    if constexpr (std::is_floating_point_v<T>)
      bytes(std::bit_cast<std::uint64_t>(value));
    else if constexpr (std::is_convertible_v<T, std::string>)
      each(std::string(value), [&](char c) { bytes(static_cast<std::uint64_t>(c)); });
    else if constexpr (requires { value.begin(); })
      each(value, [&](const auto& v) { one(v); });
    else
      bytes(static_cast<std::uint64_t>(value));
  }
  void bytes(std::uint64_t word) {
    for (int i = 0; i < 8; ++i) {
      value_ ^= (word >> (8 * i)) & 255;
      value_ *= 1'099'511'628'211ULL;
    }
  }
  std::uint64_t value_ = 14'695'981'039'346'656'037ULL;
};

void add(Digest& d, const models::Operator& o) {
  d.add(o.name, o.kind, o.inputs, o.outputs, o.parameters, o.saved, o.rows, o.n, o.k, o.parts,
        o.heads, o.kv_heads, o.head_dim, o.groups, o.activation, o.scale, o.column_offsets,
        o.origins, o.causal, o.alibi, o.keys, o.ring_step, o.ring_steps, o.reduce_max,
        o.flops_forward.value(), o.flops_input_gradient.value(), o.flops_weight_gradient.value(),
        o.elements_forward, o.elements_backward, o.parameter_elements);
}

void add(Digest& d, const program::EventRef& e) {
  d.add(e.event, e.instance, e.index, e.layer_shift, e.micro_batch_shift);
}

void add(Digest& d, const program::Routine& routine) {
  d.each(routine, [&](const program::Call& c) { d.add(c.block, c.layer, c.micro_batch); });
}

void add(Digest& d, const program::PassRoutines& passes) {
  for (const program::Routine* r : {&passes.forward, &passes.backward, &passes.last_backward,
                                    &passes.weight_gradient, &passes.last_weight_gradient})
    add(d, *r);
}

void add(Digest& d, const program::RankClass& k) {
  d.add(k.name, k.layers);
  d.each(k.buffers, [&](const program::Buffer& b) {
    d.add(b.name, b.term, b.type, b.elements, b.extent, b.slots, b.share, b.persistent, b.host);
  });
  d.each(k.events, [&](const program::Event& e) { d.add(e.name, e.extent, e.slots); });
  d.each(k.operators, [&](const models::Operator& o) { add(d, o); });
  d.each(k.transfers, [&](const program::Transfer& t) {
    d.add(t.collective, t.algorithm, t.what, t.group, t.reduce, t.wire_type, t.tag, t.overlapped,
          t.beside, t.columns, t.key_columns, t.to_heads);
  });
  d.each(k.views, [&](const program::View& v) {
    d.add(v.buffer, v.instance, v.layer_shift, v.index, v.micro_batch_shift, v.range, v.offset,
          v.elements);
  });
  d.each(k.waits, [&](const program::Wait& w) {
    add(d, w.on);
    d.add(w.may_precede);
  });
  d.each(k.signals, [&](const program::EventRef& e) { add(d, e); });
  d.each(k.actions, [&](const program::Action& a) {
    d.add(program::name(a.kind), a.stream, a.flags, a.arg_count, a.wait_count, a.op, a.signal,
          a.first_arg, a.first_wait);
  });
  d.each(k.blocks, [&](const program::Block& b) { d.add(b.name, b.first, b.last); });
  add(d, static_cast<const program::PassRoutines&>(k));
  for (const program::Routine* r : {&k.begin, &k.end, &k.finish}) add(d, *r);
  d.each(k.later_chunks, [&](const program::PassRoutines& c) { add(d, c); });
}

}  // namespace

TEST_CASE("the Programs of the zoo are as they were") {
  std::map<std::string, Digest> digests;
  planner_test::for_zoo_programs(
      6, [&](const std::string& model, const planner::Job&, const planner::Strategy& s,
             const program::Program& p) {
        Digest& d = digests[model];
        d.add(to_text(s));
        d.each(p.classes, [&](const program::RankClass& k) { add(d, k); });
      });
  std::string text;
  for (const auto& [model, digest] : digests)
    text += fmt::format("{:<20} {:016x}\n", model, digest.value());
  const std::string path = std::string(PLANNER_GOLDEN) + "/programs.txt";
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::stringstream golden;
  golden << std::ifstream(path).rdbuf();
  CHECK(golden.str() == text);
}
