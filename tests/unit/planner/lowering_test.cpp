// What each strategy adds to a Program and takes from it, by hand: bytes kept, calls, payloads. The
// model is gpt2-1.5b (48 layers, h = 1600, 25 heads) unless a test says otherwise.
#include "planner/lowering/lower.hpp"

#include "planner/question/quantization.hpp"
#include "sim/program/replay.hpp"
#include "sim/program/traffic.hpp"
#include "tests/catch.hpp"
#include "tests/unit/planner/soundness.hpp"

using namespace planner;
using namespace planner_test;
using program::Term;

namespace {

constexpr std::int64_t kLayers = 48, kHidden = 1600;

// Entry of one kind of traffic; all zero where there is none.
program::TrafficEntry entry(const program::Program& p, program::Traffic what,
                            std::string_view collective) {
  for (const program::TrafficEntry& e : program::traffic(p))
    if (e.what == what && e.collective == collective) return e;
  return {};
}

std::int64_t stored_weights(const program::Program& p) {
  const auto replay = program::replay(p.classes[0]);
  return replay.terms[static_cast<std::size_t>(Term::weights)].value();
}

Job lora_job(std::int64_t batch, const char* quantization = "none") {
  Job job = job_of(batch);
  job.lora_rank = 16;
  job.quantization = quantization;
  return job;
}

// Rank 16 on q, k, v, o: 4 x 16 x (h + h) elements per layer.
constexpr std::int64_t kAdapters = 4 * 16 * 2 * kHidden;
// Norms and biases of a layer: 4 h + 3 h + h + 4 h + h; matrices: 12 h^2.
constexpr std::int64_t kVectors = 13 * kHidden, kMatrices = 12 * kHidden * kHidden;
constexpr std::int64_t kTokens = 50'257 * kHidden, kPositions = 1024 * kHidden;

}  // namespace

TEST_CASE("codes, scales and centroids of a frozen matrix are counted to the byte") {
  CHECK(quantised_bytes(Quantization::int8, {4800, 1600}).value() == 7'680'000 + 4 * 4800);
  // 120,000 blocks of 64; 468.75 blocks of 256 of those: 469 f32.
  CHECK(quantised_bytes(Quantization::nf4, {4800, 1600}).value() == 3'840'000 + 120'000 + 4 * 469);
  // 60,000 groups of 128, an f16 scale and half a byte of zero point each.
  CHECK(quantised_bytes(Quantization::gptq, {4800, 1600}).value() == 3'840'000 + 120'000 + 30'000);
  CHECK(quantised_bytes(Quantization::two_factor, {4800, 1600}).value() == 3'840'000 + 2 * 4 * 4);
  CHECK(quantised_bytes(Quantization::nf4, {1, 3}).value() == 2 + 1 + 4);  // rounded up
}

TEST_CASE("a quantised base keeps embeddings, norms and biases in 16 bit, beside the adapters") {
  Strategy s;
  s.grad_accum = 2;
  const std::int64_t rest = kTokens + kPositions + kLayers * kVectors + 2 * kHidden;
  const std::int64_t others = 2 * rest + 2 * kLayers * kAdapters;
  CHECK(stored_weights(sound(lora_job(2), s)) == others + 2 * kLayers * kMatrices);
  // qkv, proj, fc and mlp.proj in turn.
  const std::int64_t nf4 = (3'840'000 + 120'000 + 4 * 469) + (1'280'000 + 40'000 + 4 * 157) +
                           2 * (5'120'000 + 160'000 + 4 * 625);
  CHECK(stored_weights(sound(lora_job(2, "nf4"), s)) == others + kLayers * nf4);
  const std::int64_t int8 = kMatrices + 4 * (4800 + 1600 + 6400 + 1600);
  CHECK(stored_weights(sound(lora_job(2, "int8"), s)) == others + kLayers * int8);
  const std::int64_t factors = kMatrices / 2 + 4 * 32;
  CHECK(stored_weights(sound(lora_job(2, "two_factor"), s)) == others + kLayers * factors);
}

TEST_CASE("a quantised matrix is decoded for one action at a time") {
  Strategy s;
  s.checkpoint = Checkpoint::every_k;
  s.checkpoint_every = 1;
  const auto peaks = program::replay(sound(lora_job(1, "nf4"), s).classes[0]).peaks;
  // The greatest: fc or mlp.proj, 4 h^2 in 16 bit.
  CHECK(peaks[static_cast<std::size_t>(Term::communication)].value() ==
        2 * 4 * kHidden * kHidden);
  Job inference = job_of(1);
  inference.mode = Mode::inference;
  inference.quantization = "nf4";
  const auto once = program::replay(sound(inference, Strategy{}).classes[0]).peaks;
  CHECK(once[static_cast<std::size_t>(Term::communication)].value() == 2 * 4 * kHidden * kHidden);
}

TEST_CASE("inference sends no gradients, and pipelines of any schedule hold one micro-batch") {
  Job inference = job_of(4);
  inference.mode = Mode::inference;
  for (const bool overlap : {true, false})
    for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::gpipe}) {
      Strategy s;
      s.data = 2;
      s.pipeline = 2;
      s.schedule = schedule;
      s.grad_accum = 2;
      s.overlap = overlap;
      const program::Program p = sound(inference, s);
      CHECK(entry(p, program::Traffic::gradients, "all_reduce").count == 0);
      for (const program::RankClass& k : p.classes)
        CHECK(program::replay(k).peaks[static_cast<std::size_t>(Term::gradients)].value() == 0);
    }
}

TEST_CASE("ZeRO-3 divides a frozen base and gathers it as it gathers what trains") {
  Strategy s;
  s.data = 2;
  s.sharding = Sharding::zero3;
  s.shard_group = 2;
  const program::Program p = sound(lora_job(2), s);
  const std::int64_t rest = kTokens + kPositions + kLayers * kVectors + 2 * kHidden;
  CHECK(stored_weights(p) == rest + kLayers * (kMatrices + kAdapters));  // 2 bytes, half of each
  // Layers and the tied table twice (forward, backward); positions and the last norm once.
  const auto gathers = entry(p, program::Traffic::parameters, "all_gather");
  const std::int64_t layer = kMatrices + kVectors + kAdapters;
  CHECK(gathers.payload.value() ==
        2 * (2 * kLayers * layer + 2 * kTokens + kPositions + 2 * kHidden));
  CHECK(gathers.count == 2 * 2 * kLayers + 2 + 1 + 1);  // adapters and base apart
  const auto scatters = entry(p, program::Traffic::gradients, "reduce_scatter");
  CHECK(scatters.payload.value() == 2 * kLayers * kAdapters);  // the base has no gradient

  const program::Program q = sound(lora_job(2, "nf4"), s);
  const std::int64_t nf4 = (3'840'000 + 120'000 + 4 * 469) + (1'280'000 + 40'000 + 4 * 157) +
                           2 * (5'120'000 + 160'000 + 4 * 625);
  CHECK(stored_weights(q) == rest + kLayers * (kAdapters + nf4 / 2));
  CHECK(entry(q, program::Traffic::parameters, "all_gather").payload.value() ==
        2 * kLayers * (2 * kVectors + 2 * kAdapters + nf4) +
            2 * (2 * kTokens + kPositions + 2 * kHidden));
  s.overlap = false;
  sound(lora_job(2, "nf4"), s);
  s.checkpoint = Checkpoint::every_k;
  s.checkpoint_every = 3;
  s.pipeline = 2;
  s.schedule = Schedule::one_f_one_b;
  s.data = s.shard_group = 2;
  s.grad_accum = 4;
  sound(lora_job(8, "int8"), s);
}

namespace {

// gpt2-124m: 12 layers, h = 768, 12 heads; four tensor ranks, one sample of 1024 tokens.
constexpr std::int64_t kSmallLayers = 12, kSmallHidden = 768, kRanks = 4, kSeq = 1024;
constexpr std::int64_t kBoundary = 2 * kSeq * kSmallHidden;  // X: bytes of all rows

Strategy small_tensor(bool sequence) {
  Strategy s;
  s.tensor = kRanks;
  s.sequence_parallel = sequence;
  return s;
}

}  // namespace

TEST_CASE("sequence parallelism gathers and scatters rows where tensor ranks summed them") {
  const program::Program p = sound(job_of(1), small_tensor(true), "gpt2-124m");
  // Per layer: two gathers forward, two again for the weight gradients, two of gradients; the head
  // gathers once, the embeddings' gradient once.
  const auto gathers = entry(p, program::Traffic::sequence, "all_gather");
  CHECK(gathers.count == 6 * kSmallLayers + 2);
  CHECK(gathers.payload.value() == (6 * kSmallLayers + 2) * kBoundary);
  CHECK(gathers.wire.value() == (6 * kSmallLayers + 2) * kBoundary / 4 * 3);
  const auto scatters = entry(p, program::Traffic::sequence, "reduce_scatter");
  CHECK(scatters.count == 4 * kSmallLayers + 2);
  CHECK(scatters.payload.value() == (4 * kSmallLayers + 2) * kBoundary);
  // Two norms (gamma, beta) and two biases a layer, the last norm, the positions; once a step.
  const auto partial = entry(p, program::Traffic::sequence, "all_reduce");
  CHECK(partial.count == kSmallLayers + 2);
  CHECK(partial.payload.value() == 2 * kSmallHidden * (6 * kSmallLayers + 2 + 1024));
  CHECK(entry(p, program::Traffic::tensor, "all_reduce").count == 0);
}

TEST_CASE("sequence parallelism divides what tensor ranks kept alike") {
  const std::int64_t whole = kept(sound(job_of(1), small_tensor(false), "gpt2-124m"));
  const std::int64_t rows = kept(sound(job_of(1), small_tensor(true), "gpt2-124m"));
  // Per layer and token: its input, both norms' outputs and the middle, 4 x 2 h; four f32
  // statistics. And the last layer's output.
  CHECK(whole - rows ==
        kSeq * 3 / 4 * (kSmallLayers * (8 * kSmallHidden + 16) + 2 * kSmallHidden));
}

TEST_CASE("sequence parallelism is sound beside sharding, stages and recomputation") {
  for (Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3})
    for (Checkpoint c : {Checkpoint::none, Checkpoint::every_k, Checkpoint::selective})
      for (bool overlap : {true, false}) {
        Strategy s = small_tensor(true);
        s.data = 2;
        s.pipeline = 2;
        s.schedule = Schedule::one_f_one_b;
        s.sharding = z;
        s.shard_group = z == Sharding::none ? 1 : 2;
        s.checkpoint = c;
        s.checkpoint_every = c == Checkpoint::every_k ? 2 : 0;
        s.grad_accum = 3;
        s.overlap = overlap;
        const program::Program p = sound(job_of(6), s, "gpt2-124m");
        const auto sent = entry(p, program::Traffic::pipeline, "send");
        CHECK(sent.payload.value() == 3 * kBoundary / kRanks);
      }
  for (const char* model : {"llama2-7b", "gpt-neox-20b", "mpt-7b"})
    sound(job_of(1), small_tensor(true), model);
}

TEST_CASE("codes of product inputs live where the inputs would, and change no call") {
  hw_profiles::Framework codes;
  codes.kept_product_input = 1;
  Job job = job_of(6);
  job.precision = core::DType::f8;
  for (const bool sequence : {false, true})
    for (const Checkpoint c : {Checkpoint::none, Checkpoint::every_k, Checkpoint::selective,
                               Checkpoint::pointwise}) {
      Strategy s = small_tensor(sequence);
      s.pipeline = 2;
      s.schedule = Schedule::one_f_one_b;
      s.checkpoint = c;
      s.checkpoint_every = c == Checkpoint::every_k ? 2 : 0;
      s.grad_accum = 6;
      const program::Program with = sound(job, s, "llama2-7b", codes);
      const program::Program without = sound(job, s, "llama2-7b");
      for (const auto what : {program::Traffic::sequence, program::Traffic::tensor}) {
        CHECK(entry(with, what, "all_gather").payload ==
              entry(without, what, "all_gather").payload);
        CHECK(entry(with, what, "all_reduce").count == entry(without, what, "all_reduce").count);
      }
      const auto computes = [](const program::Program& p) {
        return p.classes[0].forward_evaluations;
      };
      CHECK(computes(with) == computes(without));
      if (c == Checkpoint::none) CHECK(kept(with) < kept(without));
      if (c != Checkpoint::none) continue;
      Job four = job;                  // 4 bits, and 8 for 16 of them: 9/16 of a byte
      four.precision = core::DType::f4;
      const std::int64_t eight = kept(without) - kept(with);
      CHECK((kept(without) - kept(sound(four, s, "llama2-7b", codes))) * 16 == eight * 23);
    }
  Strategy split;
  split.pipeline = 2;
  split.schedule = Schedule::zb_h1;
  split.grad_accum = 6;
  CHECK(kept(sound(job, split, "llama2-7b", codes)) < kept(sound(job, split, "llama2-7b")));
}

TEST_CASE("adapters divide like their matrices; the undivided side is summed over the ranks") {
  Job job = lora_job(1);
  const program::Program p = sound(job, small_tensor(false), "gpt2-124m");
  // Two sums forward and two backward a layer (the first layer's input needs no gradient), the
  // embeddings' forward, the head's backward; then A of q, k, v and B of o, in 16 bit.
  const auto sums = entry(p, program::Traffic::tensor, "all_reduce");
  CHECK(sums.count == 4 * kSmallLayers + 1 + kSmallLayers);
  CHECK(sums.payload.value() ==
        (4 * kSmallLayers + 1) * kBoundary + 2 * kSmallLayers * 4 * 16 * kSmallHidden);
  // A of q, k, v (3 r h) and B of o (r h) whole; B of q, k, v (3 r h) and A of o (r h) divided.
  CHECK(p.classes[0].trained_elements ==
        kSmallLayers * 4 * 16 * kSmallHidden * 5 / 4);
  for (Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
    Strategy s = small_tensor(true);
    s.data = s.shard_group = 2;
    s.sharding = z;
    job = lora_job(4, "nf4");
    s.grad_accum = 2;
    sound(job, s, "gpt2-124m");
    sound(job, s, "llama2-7b");
  }
}

TEST_CASE("schedules with chunks and split backward passes are sound, and their bound is exact") {
  const auto with = [](Schedule schedule, std::int64_t p, std::int64_t chunks, std::int64_t m) {
    Strategy s;
    s.schedule = schedule;
    s.pipeline = p;
    s.virtual_stages = chunks;
    s.micro_batch = 1;
    s.grad_accum = m;
    return s;
  };
  for (std::int64_t p : {2, 3})
    for (std::int64_t m : {1, 2, 5}) sound(job_of(m * p), with(Schedule::interleaved, p, 2, m * p));
  sound(job_of(8), with(Schedule::interleaved, 4, 3, 8));
  sound(job_of(8), with(Schedule::interleaved, 2, 7, 8));  // embeddings and head stand alone
  sound(lora_job(8), with(Schedule::interleaved, 2, 7, 8));
  Strategy recomputed = with(Schedule::interleaved, 2, 3, 64);
  recomputed.checkpoint = Checkpoint::every_k;
  recomputed.checkpoint_every = 1;
  sound(job_of(64), recomputed);
  for (std::int64_t p : {2, 3, 4})
    for (std::int64_t m : {2 * p - 1, 2 * p, 12 * p})
      for (Schedule schedule : {Schedule::zb_h1, Schedule::zb_h2})
        sound(job_of(m), with(schedule, p, 1, m));
  Strategy s = with(Schedule::zb_h1, 2, 1, 6);
  s.data = 2;
  s.sharding = Sharding::zero1;
  s.shard_group = 2;
  sound(job_of(12), s);
  s = with(Schedule::interleaved, 2, 2, 4);
  s.data = 2;
  for (std::int64_t chunks : {2, 7})
    for (Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
      s.virtual_stages = chunks;
      s.sharding = z;
      s.shard_group = 2;
      sound(job_of(8), s);
    }
}

TEST_CASE("offloaded state leaves the device and crosses its link") {
  Strategy s;
  s.data = s.shard_group = 2;
  s.sharding = Sharding::zero3;
  const program::Program held = sound(job_of(2), s);
  const auto persistent = [](const program::Program& p) {
    return program::sum(program::persistent_terms(p.classes[0])).value();
  };
  const std::int64_t n = held.classes[0].trained_elements, loss = 8;
  for (const char* kind : {"optimizer", "params"}) {
    s.offload = {kind};
    const program::Program p = sound(job_of(2), s);
    const bool params = s.offloads("params");
    // mixed: 2 + 2 + 12 bytes per parameter, halved; what stays is in 16 bits.
    CHECK(persistent(p) - loss == (params ? 0 : 2 * n));
    // Beside the state, 16-bit gradients on their way, and 16-bit weights where they stay.
    CHECK(program::host_bytes(p.classes[0]).value() == (params ? 18 * n : 16 * n) / 2);
    // The own half of what is gathered, and of the gradients; an update sends gradients and fetches
    // weights.
    const auto gathers = entry(p, program::Traffic::parameters, "all_gather");
    CHECK(entry(p, program::Traffic::offload, "copy").payload.value() ==
          (params ? gathers.payload.value() / 2 + n : 2 * n));
  }
}

TEST_CASE("context ranks gather keys and values of the sequence, and sum their gradients") {
  Strategy s;
  s.context = 2;
  const program::Program p = sound(job_of(1), s, "gpt2-124m");
  CHECK(p.mesh.data == 2);
  // Keys and values of 1024 tokens in 16 bit; before each layer's core, and before its backward.
  const std::int64_t keys = 2 * 2 * 1024 * kSmallHidden;
  const auto gathers = entry(p, program::Traffic::context, "all_gather");
  CHECK(gathers.count == 2 * kSmallLayers);
  CHECK(gathers.payload.value() == 2 * kSmallLayers * keys);
  CHECK(entry(p, program::Traffic::context, "reduce_scatter").count == kSmallLayers);
  // Equal weights on both: their gradients are added up like those of data ranks.
  CHECK(entry(p, program::Traffic::gradients, "all_reduce").group_size == 2);
  for (Sharding z : {Sharding::zero1, Sharding::zero3}) {
    s.sharding = z;
    s.shard_group = 2;
    sound(job_of(1), s, "llama2-7b");
  }
}

TEST_CASE("tp_overlap marks the collectives of rows that stand beside a GEMM, and no others") {
  Strategy s = small_tensor(true);
  s.tp_overlap = true;
  const program::Program p = sound(job_of(1), s, "gpt2-124m");
  for (const program::Transfer& t : p.classes[0].transfers) {
    const bool rows = t.what == program::Traffic::sequence &&
                      t.collective != program::Collective::all_reduce;
    CHECK(t.overlapped == rows);
  }
}

TEST_CASE("rows of the backward pass know the product whose gradients leave time for them") {
  const auto counts = [](std::int64_t lora_rank) {
    Job job = job_of(1);
    job.lora_rank = lora_rank;
    const program::Program p = sound(job, small_tensor(true), "gpt2-124m");
    const program::RankClass& rank = p.classes[0];
    std::map<program::Collective, int> found;
    for (const program::Transfer& t : rank.transfers) {
      if (t.beside == program::kNone) continue;
      CHECK(rank.operators[t.beside].kind == models::OpKind::linear);
      CHECK(rank.operators[t.beside].k == kSmallHidden);
      ++found[t.collective];
    }
    return found;
  };
  using enum program::Collective;
  // Of the one layer template: what attention and feed-forward read; the head's gradient.
  CHECK(counts(0) == std::map<program::Collective, int>{{all_gather, 2}, {reduce_scatter, 3}});
  // Frozen weights have no gradient beside which sums could travel; q, k, v's adapter has one. Of
  // two templates: nothing before the first layer trains.
  CHECK(counts(4) == std::map<program::Collective, int>{{all_gather, 2}, {reduce_scatter, 1}});
}
