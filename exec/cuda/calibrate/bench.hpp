#pragma once
// Bench: device memory, a stream and a workspace for one measured point after the other. Not
// thread-safe.

#include <functional>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "exec/calibrate/point_book.hpp"
#include "exec/cuda/api/api.hpp"
#include "exec/cuda/kernels/queue.hpp"
#include "exec/host/view.hpp"

namespace exec::cuda {

// Calls between two waits, so many that a wait takes little of their time.
inline constexpr int kCalls = 20;

// Device memory of one point, full of random numbers of about 1: zeros would run faster.
class Bench {
 public:
  // workspace: that a rank of a plan has; how the library's attention is called depends on it.
  Bench(Api& api, core::Bytes workspace);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Queue queue() const { return {api_, stream_, multiprocessors_, workspace_, workspace_bytes_}; }
  void wait() const { api_.synchronise(stream_); }
  std::byte* pinned() const { return pinned_; }
  static constexpr std::size_t kPinned = std::size_t{16} << 20;

  host::View real(std::int64_t n, core::DType type = core::DType::bf16);
  // What `work` gives the stream, kept to be launched as one.
  GraphHandle kept(const std::function<void(const Queue&)>& work);
  void give_back();

 private:
  static constexpr std::size_t kPattern = std::size_t{1} << 20;
  Api& api_;
  PoolHandle pool_;
  StreamHandle stream_;
  int multiprocessors_;
  std::byte* pinned_ = nullptr;
  std::byte* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  host::View bf16_, f32_;
  std::vector<void*> taken_;
  std::vector<GraphHandle> graphs_;
};

using Call = std::function<void(const Queue&)>;

// Seconds of one call; buffers live as long as the point.
double timed(PointBook& book, Bench& bench, const std::string& name,
             const std::function<Call()>& make);

}  // namespace exec::cuda
