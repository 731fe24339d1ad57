// The host as a Backend: every call is done when it returns.

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <new>

#include "core/clock.hpp"
#include "exec/host/f8.hpp"
#include "exec/host/kernels.hpp"
#include "exec/host/matrix_codes.hpp"
#include "exec/interpret/backend.hpp"

namespace exec {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

class HostBackend final : public Backend {
 public:
  HostBackend(const program::RankClass& rank_class, std::int64_t samples)
      : workspace_(static_cast<std::size_t>(workspace_bytes(rank_class, samples).value() + 64)) {}
  ~HostBackend() override {
    for (const auto& [range, bytes] : ranges_) munmap(range, bytes);
  }

  // Pages appear when they are touched, so an unused tail costs nothing.
  std::byte* reserve(std::size_t bytes) override {
    const std::size_t mapped = std::max<std::size_t>(bytes, 4096);
    void* range = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) throw std::bad_alloc();
    // Of 2 MiB where the kernel has them: a step walks all of it, and 512 times fewer pages are
    // made at the start. Advice: refused, it changes nothing.
    if (mapped >= kHugePage) madvise(range, mapped, MADV_HUGEPAGE);
    ranges_.emplace_back(range, mapped);
    return static_cast<std::byte*>(range);
  }
  std::byte* reserve_host(std::size_t bytes) override { return reserve(bytes); }
  std::byte* scratch(Stream stream, std::size_t bytes) override {
    std::vector<std::byte>& s = scratch_[static_cast<std::size_t>(stream)];
    if (s.size() < bytes) s.resize(bytes);
    return s.data();
  }
  void write(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void read(void* to, const void* from, std::size_t bytes) override { write(to, from, bytes); }

  void run(const program::Action& action, const models::Operator& op,
           std::span<const Operand> args, const KernelContext& context) override {
    const core::Bytes size(static_cast<std::int64_t>(workspace_.size()));
    run_kernel(action, op, args, context, host::Workspace(workspace_.data(), size));
  }
  void load(Stream, const Operand& to, const void* from) override {
    write(to.data, from, static_cast<std::size_t>(to.bytes().value()));
  }
  void zero(Stream, const Operand& what) override { host::fill_zero(view(what), what.elements); }
  void cast(Stream, const Operand& from, const Operand& to) override {
    host::cast(view(to), view(from), to.elements);
  }
  void cast_to_f8(Stream, const Operand& from, std::span<const Operand> to) override {
    for (const Operand& one : to) host::cast_to_f8(view(one), view(from));
  }
  void add_into(Stream, const Operand& from, const Operand& into) override {
    host::add_into(view(into), view(from), into.elements);
  }
  void add_columns(Stream, const Operand& from, const Operand& into, std::int64_t rows) override {
    const std::int64_t width = from.elements / rows, columns = into.elements / rows;
    for (std::int64_t row = 0; row < rows; ++row)
      host::add_into(view(into).at((row + 1) * columns - width), view(from).at(row * width), width);
  }
  void dequantise(Stream, planner::Quantization kind, const Operand& codes,
                  const Operand& matrix) override {
    host::decode_matrix(kind, codes.data, view(matrix), matrix.elements, codes.elements);
  }
  void update(Stream, const Update& u) override {
    host::update(u.kind, u.hyper, u.step, u.parameters, u.slots);
  }
  void add_squares(Stream, host::View x, std::int64_t n, double* sum) override {
    *sum += host::sum_of_squares(x, n);
  }
  void step_loss_scale(Stream, host::LossScaleState* state, const double* squares,
                       const host::LossScaleRule& rule) override {
    *state = host::stepped(*state, std::sqrt(*squares), rule);
  }
  void copy(Stream, const RowCopy& c) override {
    for (std::size_t r = 0; r < c.rows && c.width > 0; ++r)
      std::memcpy(c.to + r * c.to_pitch, c.from + r * c.from_pitch, c.width);
  }
  MessageMemory& messages(Stream) override { return host_message_memory(); }

  double mark(Stream) override { return core::steady_seconds(); }

 private:
  std::vector<std::pair<void*, std::size_t>> ranges_;
  std::vector<std::byte> workspace_;
  std::array<std::vector<std::byte>, program::kStreams> scratch_;
};

}  // namespace

std::unique_ptr<Backend> host_backend(const program::RankClass& rank_class, std::int64_t samples) {
  return std::make_unique<HostBackend>(rank_class, samples);
}

}  // namespace exec
