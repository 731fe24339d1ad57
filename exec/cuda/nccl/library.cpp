#include "exec/cuda/nccl/library.hpp"

#include <dlfcn.h>

#include <fmt/format.h>

namespace exec::cuda {
namespace {

const char* loader_error() {
  const char* const text = ::dlerror();
  return text != nullptr ? text : "no reason given";
}

// The file that a function of the library lies in.
std::string file_of(const void* function, const std::string& otherwise) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : otherwise;
}

class Reader {
 public:
  explicit Reader(void* handle) : handle_(handle) {}

  template <class Function>
  void read(const char* name, Function& into) {
    into = reinterpret_cast<Function>(::dlsym(handle_, name));
    if (into == nullptr && missing_.empty()) missing_ = name;
  }
  template <class Function>
  bool has(const char* name, Function& into) {
    into = reinterpret_cast<Function>(::dlsym(handle_, name));
    return into != nullptr;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* handle_;
  std::string missing_;
};

std::string read_table(void* handle, CollectiveLibrary& l) {
  Reader r(handle);
  r.read("ncclGetUniqueId", l.get_unique_id);
  r.read("ncclCommInitRankConfig", l.comm_init_rank_config);
  r.read("ncclCommSplit", l.comm_split);
  r.read("ncclCommFinalize", l.comm_finalize);
  r.read("ncclCommDestroy", l.comm_destroy);
  r.read("ncclCommAbort", l.comm_abort);
  r.read("ncclCommGetAsyncError", l.comm_get_async_error);
  r.read("ncclGetErrorString", l.get_error_string);
  r.read("ncclGetLastError", l.get_last_error);
  r.read("ncclAllReduce", l.all_reduce);
  r.read("ncclReduceScatter", l.reduce_scatter);
  r.read("ncclAllGather", l.all_gather);
  r.read("ncclBroadcast", l.broadcast);
  r.read("ncclSend", l.send);
  r.read("ncclRecv", l.recv);
  r.read("ncclGroupStart", l.group_start);
  r.read("ncclGroupEnd", l.group_end);
  const bool registers =
      r.has("ncclMemAlloc", l.mem_alloc) && r.has("ncclMemFree", l.mem_free) &&
      r.has("ncclCommRegister", l.comm_register) && r.has("ncclCommDeregister", l.comm_deregister);
  if (!registers) l.mem_alloc = nullptr;
  const bool windows = registers && r.has("ncclCommWindowRegister", l.comm_window_register) &&
                       r.has("ncclCommWindowDeregister", l.comm_window_deregister);
  if (!windows) l.comm_window_register = nullptr;
  return r.missing();
}

OpenedCollectives refused(std::string found, std::string fix) {
  return {std::nullopt,
          fmt::format("NVIDIA's communication library, NCCL {} or newer",
                      nccl_version_text(nccl::kLeastVersion)),
          std::move(found), std::move(fix)};
}

}  // namespace

std::string nccl_version_text(int version) {
  // Before 2.9 the hundreds were the minor version.
  if (version < 10000)
    return fmt::format("{}.{}.{}", version / 1000, version % 1000 / 100, version % 100);
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

OpenedCollectives open_collectives(const std::string& path) {
  constexpr const char* kInstall =
      "install libnccl2 or the NCCL of the CUDA toolkit, or name its file with --nccl PATH";
  const std::string name = path.empty() ? kCollectiveLibraryName : path;
  ::dlerror();
  // Local: other libraries of the process must not find these names by chance.
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return refused(loader_error(), kInstall);
  CollectiveLibrary library;
  nccl::Result (*get_version)(int*) = nullptr;
  get_version = reinterpret_cast<decltype(get_version)>(::dlsym(handle, "ncclGetVersion"));
  if (get_version == nullptr)
    return refused(name + ", which has no function ncclGetVersion", kInstall);
  library.path = file_of(reinterpret_cast<const void*>(get_version), name);
  const nccl::Result status = get_version(&library.version);
  if (status != nccl::kSuccess)
    return refused(fmt::format("{}, whose ncclGetVersion answers {}", library.path,
                               static_cast<int>(status)),
                   kInstall);
  if (library.version < nccl::kLeastVersion)
    return refused(fmt::format("{} in {}", nccl_version_text(library.version), library.path),
                   kInstall);
  const std::string missing = read_table(handle, library);
  if (!missing.empty())
    return refused(fmt::format("{} {}, which has no function {}", library.path,
                               nccl_version_text(library.version), missing),
                   kInstall);
  return {std::move(library), "", "", ""};
}

}  // namespace exec::cuda
