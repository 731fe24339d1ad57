#pragma once
// CollectiveLibrary: NCCL, or what else has its binary interface, opened while running. A table of
// the functions that are called here. It stays open until the process ends: its threads may
// outlive every communicator. Thread-safe after it is opened.

#include <optional>
#include <string>

#include "exec/cuda/nccl/abi.hpp"

namespace exec::cuda {

struct CollectiveLibrary {
  std::string path;                    // as the loader found it
  int version = 0;                     // 22809

  nccl::Result (*get_unique_id)(nccl::UniqueId*) = nullptr;
  nccl::Result (*comm_init_rank_config)(nccl::Comm*, int ranks, nccl::UniqueId, int rank,
                                        nccl::Config*) = nullptr;
  nccl::Result (*comm_split)(nccl::Comm, int colour, int key, nccl::Comm*,
                             nccl::Config*) = nullptr;
  nccl::Result (*comm_finalize)(nccl::Comm) = nullptr;
  nccl::Result (*comm_destroy)(nccl::Comm) = nullptr;
  nccl::Result (*comm_abort)(nccl::Comm) = nullptr;
  nccl::Result (*comm_get_async_error)(nccl::Comm, nccl::Result*) = nullptr;
  const char* (*get_error_string)(nccl::Result) = nullptr;
  const char* (*get_last_error)(nccl::Comm) = nullptr;
  nccl::Result (*all_reduce)(const void*, void*, std::size_t, nccl::Type, nccl::Op, nccl::Comm,
                             nccl::Stream) = nullptr;
  nccl::Result (*reduce_scatter)(const void*, void*, std::size_t, nccl::Type, nccl::Op, nccl::Comm,
                                 nccl::Stream) = nullptr;
  nccl::Result (*all_gather)(const void*, void*, std::size_t, nccl::Type, nccl::Comm,
                             nccl::Stream) = nullptr;
  nccl::Result (*broadcast)(const void*, void*, std::size_t, nccl::Type, int root, nccl::Comm,
                            nccl::Stream) = nullptr;
  nccl::Result (*send)(const void*, std::size_t, nccl::Type, int peer, nccl::Comm,
                       nccl::Stream) = nullptr;
  nccl::Result (*recv)(void*, std::size_t, nccl::Type, int peer, nccl::Comm,
                       nccl::Stream) = nullptr;
  nccl::Result (*group_start)() = nullptr;
  nccl::Result (*group_end)() = nullptr;

  // Since 2.19; null in older ones. All or none.
  nccl::Result (*mem_alloc)(void**, std::size_t) = nullptr;
  nccl::Result (*mem_free)(void*) = nullptr;
  nccl::Result (*comm_register)(nccl::Comm, void*, std::size_t, void** handle) = nullptr;
  nccl::Result (*comm_deregister)(nccl::Comm, void* handle) = nullptr;
  bool registers() const { return mem_alloc != nullptr; }

  // Since 2.27; null in older ones. Both or none.
  nccl::Result (*comm_window_register)(nccl::Comm, void*, std::size_t, void** window,
                                       int flags) = nullptr;
  nccl::Result (*comm_window_deregister)(nccl::Comm, void* window) = nullptr;
  bool has_windows() const { return comm_window_register != nullptr; }
};

struct OpenedCollectives {
  std::optional<CollectiveLibrary> library;
  // Why there is none: what was expected, what was found, what to do about it.
  std::string expected, found, fix;
};

inline constexpr const char* kCollectiveLibraryName = "libnccl.so.2";

// path: a file, or a name for the loader to find; empty: kCollectiveLibraryName.
OpenedCollectives open_collectives(const std::string& path);

// "2.28.9" of 22809.
std::string nccl_version_text(int version);

}  // namespace exec::cuda
