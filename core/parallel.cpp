#include "core/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "core/call.hpp"

namespace core {

int usable_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

void for_each_index(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  const std::size_t most = std::min(
      count, static_cast<std::size_t>(threads > 0 ? threads : usable_threads()));
  if (most < 2) {
    for (std::size_t i = 0; i < count; ++i) {
      stop_point();
      work(i);
    }
    return;
  }
  std::vector<std::exception_ptr> thrown(count);
  std::atomic<std::size_t> next{1};    // the first is the caller's
  const auto do_piece = [&](std::size_t i) {
    try {
      stop_point();
      work(i);
    } catch (...) {
      thrown[i] = std::current_exception();
    }
  };
  const auto take_pieces = [&, call = current_call()] {
    const CallScope scope(call);
    for (std::size_t i = next++; i < count; i = next++) do_piece(i);
  };
  {
    std::vector<std::jthread> others;  // joined at the end of this block
    others.reserve(most - 1);
    // The system may refuse a thread: those that are there, this one at least, do all pieces.
    try {
      while (others.size() + 1 < most) others.emplace_back(take_pieces);
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
    do_piece(0);
    take_pieces();
  }
  for (const std::exception_ptr& e : thrown)
    if (e) std::rethrow_exception(e);
}

}  // namespace core
