#include "core/parallel.hpp"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

namespace core {

int usable_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

void for_each_index(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  const std::size_t most = threads > 0 ? static_cast<std::size_t>(threads)
                                       : static_cast<std::size_t>(usable_threads());
  if (most == 1 || count < 2) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::vector<std::exception_ptr> thrown(count);
  boost::asio::thread_pool pool(std::min(most, count));
  for (std::size_t i = 0; i < count; ++i)
    boost::asio::post(pool, [&, i] {
      try {
        work(i);
      } catch (...) {
        thrown[i] = std::current_exception();
      }
    });
  pool.join();
  for (const std::exception_ptr& e : thrown)
    if (e) std::rethrow_exception(e);
}

}  // namespace core
