// The one translation unit that includes cuDNN's frontend: it compiles for more than a minute.
#include "exec/cuda/runtime/cudnn_attention.hpp"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "exec/cuda/api/failure.hpp"

// What the frontend looks its symbols up in.
void* cudnn_frontend::cudnn_dlhandle = nullptr;

namespace exec::cuda {
namespace {

namespace fe = cudnn_frontend;
namespace graph = cudnn_frontend::graph;
using Tensor = std::shared_ptr<graph::Tensor_attributes>;  // as the frontend gives them

constexpr const char* kLibrary = "libcudnn.so.9";
// Of the CUDA that this is built with; the frontend alone would take any it finds.
const std::string kRuntime = "libcudart.so." + std::to_string(CUDART_VERSION / 1000);

enum Id : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv };

// Four extents and the elements between two along each: samples, heads, rows, elements.
struct Layout {
  std::vector<std::int64_t> extents, strides;
};
Layout rows(const AttentionPart& p, std::int64_t heads, std::int64_t row, std::int64_t head) {
  return {{p.samples, heads, p.seq, head}, {p.seq * row, head, row, 1}};
}
Layout statistics(const AttentionPart& p) {
  return {{p.samples, p.heads, p.seq, 1}, {p.heads * p.seq, p.seq, 1, 1}};
}

Tensor input(graph::Graph& g, Id id, const char* name, const Layout& l) {
  return g.tensor(
      graph::Tensor_attributes().set_name(name).set_uid(id).set_dim(l.extents).set_stride(
          l.strides));
}
void output(const Tensor& t, Id id, const Layout& l) {
  t->set_output(true).set_uid(id).set_dim(l.extents).set_stride(l.strides);
}

// The first line of what the frontend says, which tells its callers one by one.
std::string words(const std::string& message) { return message.substr(0, message.find('\n')); }

class CudnnAttention final : public AttentionLibrary {
 public:
  explicit CudnnAttention(cudnnHandle_t handle) : handle_(handle) {
    const std::size_t v = fe::detail::get_backend_version();
    name_ = "cuDNN " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
            std::to_string(v % 100);
  }
  ~CudnnAttention() override {
    plans_.clear();
    fe::detail::destroy_handle(handle_);
  }

  std::string name() const override { return name_; }
  Prepared prepare(const AttentionPart& part) override;
  void run(const AttentionPart& part, const AttentionPlaces& at, void* workspace,
           StreamOf* stream) override;

 private:
  struct Plan {
    Prepared prepared;
    std::unique_ptr<graph::Graph> graph;
  };
  Plan make(const AttentionPart& part);
  Plan refusing(const std::string& why) const { return {{0, name_ + ": " + words(why)}, nullptr}; }

  cudnnHandle_t handle_;
  std::string name_;
  std::mutex mutex_;                   // the stream is the handle's
  std::map<AttentionPart, Plan> plans_;
};

// Which keys a query sees. cuDNN counts a window as we do: a query sees itself and what is before
// it, so many keys in all.
template <class Attributes>
void mask(Attributes& a, const AttentionPart& p) {
  a.set_causal_mask(p.causal);
  if (p.window > 0) a.set_diagonal_band_left_bound(static_cast<int>(p.window));
}

std::unique_ptr<graph::Graph> graph_of(const AttentionPart& p) {
  auto made = std::make_unique<graph::Graph>();
  graph::Graph& g = *made;
  g.set_io_data_type(p.type == core::DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const Layout queries = rows(p, p.heads, p.row, p.head_dim),
               keys = rows(p, p.kv_heads, p.row, p.head_dim),
               values = rows(p, p.kv_heads, p.row, p.value_dim),
               out = rows(p, p.heads, p.out_row, p.value_dim);
  const auto scale = static_cast<float>(p.scale);
  const Tensor q = input(g, kQ, "q", queries), k = input(g, kK, "k", keys),
               v = input(g, kV, "v", values);
  if (!p.backward) {
    graph::SDPA_attributes asked;
    asked.set_name("attention").set_generate_stats(true).set_attn_scale(scale);
    mask(asked, p);
    const auto [o, lse] = g.sdpa(q, k, v, asked);
    output(o, kOut, out);
    output(lse, kLse, statistics(p));
    lse->set_data_type(fe::DataType_t::FLOAT);
    return made;
  }
  const Tensor o = input(g, kOut, "out", out), dout = input(g, kDout, "dout", out);
  const Tensor lse = input(g, kLse, "lse", statistics(p));
  lse->set_data_type(fe::DataType_t::FLOAT);
  graph::SDPA_backward_attributes asked;
  asked.set_name("attention_gradient")
      .set_deterministic_algorithm(p.repeats)
      .set_attn_scale(scale);
  mask(asked, p);
  const auto [dq, dk, dv] = g.sdpa_backward(q, k, v, o, dout, lse, asked);
  output(dq, kDq, queries);
  output(dk, kDk, keys);
  output(dv, kDv, values);
  return made;
}

CudnnAttention::Plan CudnnAttention::make(const AttentionPart& part) {
  if (part.type != core::DType::bf16 && part.type != core::DType::f16)
    return refusing("has attention of 16-bit types alone");
  std::unique_ptr<graph::Graph> made = graph_of(part);
  std::int64_t bytes = 0;
  fe::error_t status = made->build(handle_, {fe::HeurMode_t::A});
  if (status.is_good()) status = made->get_workspace_size(bytes);
  if (status.is_bad()) return refusing(status.get_message());
  return {{static_cast<std::size_t>(bytes), {}}, std::move(made)};
}

AttentionLibrary::Prepared CudnnAttention::prepare(const AttentionPart& part) {
  const std::scoped_lock lock(mutex_);
  const auto found = plans_.find(part);
  if (found != plans_.end()) return found->second.prepared;
  Plan plan;
  try {
    plan = make(part);
  } catch (const std::exception& e) {  // a symbol that this libcudnn lacks
    plan = refusing(e.what());
  }
  return plans_.emplace(part, std::move(plan)).first->second.prepared;
}

void CudnnAttention::run(const AttentionPart& part, const AttentionPlaces& at, void* workspace,
                         StreamOf* stream) {
  const std::scoped_lock lock(mutex_);
  const graph::Graph& g = *plans_.at(part).graph;
  std::unordered_map<std::int64_t, void*> places{
      {kQ, at.q}, {kK, at.k}, {kV, at.v}, {kOut, at.out}, {kLse, at.lse}};
  if (part.backward)
    places.insert({{kDout, at.dout}, {kDq, at.dq}, {kDk, at.dk}, {kDv, at.dv}});
  const auto fail = [&](const std::string& reason) {
    throw DeviceFailure(FailureKind::launch, name_ + " attention", reason);
  };
  try {
    if (const cudnnStatus_t set =
            fe::detail::set_stream(handle_, reinterpret_cast<cudaStream_t>(stream));
        set != CUDNN_STATUS_SUCCESS)
      fail("cudnnSetStream returned " + std::to_string(static_cast<int>(set)));
    if (fe::error_t status = g.execute(handle_, places, workspace); status.is_bad())
      fail(words(status.get_message()));
  } catch (const DeviceFailure&) {
    throw;
  } catch (const std::exception& e) {
    fail(words(e.what()));
  }
}

// Null: why is in dlerror().
void* open_library() {
  std::vector<std::string> names{kLibrary};
  if (const char* const folder = std::getenv("CUDNN_PATH"); folder != nullptr)
    for (const char* const below : {"/lib/", "/lib64/"})
      names.push_back(std::string(folder) + below + kLibrary);
  for (const std::string& name : names)
    if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr)
      return library;
  return nullptr;
}

std::string not_opened() {
  const char* const why = dlerror();
  return why != nullptr ? why : "no reason is given";
}

}  // namespace

OpenedAttention open_cudnn() {
  fe::cudnn_dlhandle = open_library();
  if (fe::cudnn_dlhandle == nullptr)
    return {nullptr, "cuDNN cannot be opened (" + not_opened() +
                         "): pip install nvidia-cudnn-cu13 (or cu12, as the driver is), and name "
                         "its folder in CUDNN_PATH or its lib in LD_LIBRARY_PATH"};
  setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", kRuntime.c_str(), 0);
  if (const char* const runtime = std::getenv("CUDNN_FRONTEND_CUDART_LIB_NAME");
      dlopen(runtime, RTLD_NOW | RTLD_LOCAL) == nullptr)
    return {nullptr, "the runtime that cuDNN's frontend calls cannot be opened (" + not_opened() +
                         "): name the folder of " + kRuntime + " in LD_LIBRARY_PATH"};
  try {
    cudnnHandle_t handle = nullptr;
    const cudnnStatus_t status = fe::detail::create_handle(&handle);
    if (status == CUDNN_STATUS_SUCCESS) return {std::make_unique<CudnnAttention>(handle), {}};
    return {nullptr, "cudnnCreate returned " + std::to_string(static_cast<int>(status)) + " (" +
                         fe::detail::get_error_string(status) +
                         "): is the driver as new as this cuDNN wants it?"};
  } catch (const std::exception& e) {
    return {nullptr, words(e.what())};
  }
}

}  // namespace exec::cuda
