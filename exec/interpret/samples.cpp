// What load actions bring: samples of the data, made on the thread that issues actions. While a
// device works at a step, the first samples of the next one are made, so that it need not wait.
#include "exec/interpret/interpreter.hpp"

#include "exec/host/convert.hpp"

namespace exec {

using program::Action;
using program::Call;

// Sample order: data ranks take contiguous pieces of the global batch, micro-batches ascend in it.
std::int64_t Interpreter::first_sample(const Call& call) const {
  const program::Program& p = context_.program;
  const std::int64_t data =
      (p.mesh.coordinates(rank_).data - class_.first_replica) / p.mesh.context;
  const std::int64_t m = class_.schedule.micro_batches;
  const std::int64_t before = class_.micro_batches_before + data * m;
  // Passes of later steps may be among this one's.
  const std::int64_t step =
      class_.schedule.flushes ? step_index_ : context_.first + call.micro_batch / m;
  return step * p.global_batch + (before + call.micro_batch % m) * p.samples;
}

// This rank's tokens of a sample.
void Interpreter::load_tokens(std::int64_t sample, int shift, std::span<std::int32_t> into) {
  if (kernels_.slice.ranks == 1) return context_.data.tokens(sample, shift, into);
  std::vector<std::int32_t> all(static_cast<std::size_t>(context_.program.seq_len));
  context_.data.tokens(sample, shift, all);
  for (const program::RowRun& run : kernels_.slice.runs())
    std::copy_n(all.begin() + run.position, run.rows, into.begin() + run.row);
}

void Interpreter::make_samples(const Action& a, std::int64_t first, const Operand& into,
                               std::vector<std::byte>& samples) {
  const program::Program& p = context_.program;
  const std::int64_t per_sample = into.elements / p.samples;
  std::vector<double> row(static_cast<std::size_t>(per_sample));
  samples.resize(static_cast<std::size_t>(into.bytes().value()));
  const host::View all{samples.data(), into.type};
  for (std::int64_t s = 0; s < p.samples; ++s) {
    const host::View at = all.at(s * per_sample);
    const auto [input, ahead] = program::Load::of(a.op);
    if (into.type == core::DType::i32) {
      const std::span<std::int32_t> tokens(static_cast<std::int32_t*>(at.data), row.size());
      if (input == program::Input::types)
        context_.data.types(tokens);
      else if (context_.spec.vocab == 0)
        context_.data.labels(first + s, tokens);
      else
        load_tokens(first + s, input == program::Input::targets ? ahead : 0, tokens);
      continue;
    }
    if (input == program::Input::features)
      context_.data.features(first + s, row);
    else
      context_.data.feature_targets(first + s, row);
    host::cast(at, {row.data(), core::DType::f64}, per_sample);
  }
}

void Interpreter::load(const Action& a, const Call& call, const Operand& into) {
  const std::int64_t first = first_sample(call);
  auto next = next_.begin();
  while (next != next_.end() && next->action != &a) ++next;
  const bool is_first = class_.schedule.flushes && call.micro_batch == 0;
  if (is_first && next == next_.end() && !backend_->on_host())
    next = next_.insert(next, {&a, into, -1, {}});
  const bool made = next != next_.end() && next->first == first;
  if (!made) make_samples(a, first, into, samples_);
  if (is_first && next != next_.end()) next->wanted = first + context_.program.global_batch;
  const std::byte* const from = made ? next->samples.data() : samples_.data();
  if (repeating_) return backend_->refill(into, from);
  backend_->load(a.stream, into, from);
}

void Interpreter::make_next_samples() {
  if (step_index_ + 1 == context_.steps) return;
  for (NextSamples& n : next_) {
    make_samples(*n.action, n.wanted, n.into, n.samples);
    n.first = n.wanted;
  }
}

}  // namespace exec
