// The kernel tests of tests/unit/cuda on a GPU, through the real interface: the kernels that nvcc
// compiled, the products of cuBLASLt. Buffers of the tests are pinned memory, which kernels read
// and write in its place. Exit 77 where no GPU answers, with the reason.

#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#endif
#include <cstdio>
#include <memory_resource>

#include "exec/cuda/runtime/cuda_api.hpp"
#include "tests/unit/cuda/support.hpp"

namespace {

namespace cuda = exec::cuda;

class Pinned final : public std::pmr::memory_resource {
 public:
  explicit Pinned(cuda::Api& api) : api_(api) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t) override {
    return api_.allocate_pinned(bytes > 0 ? bytes : 1);
  }
  void do_deallocate(void* memory, std::size_t, std::size_t) override {
    api_.release_pinned(memory);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
  cuda::Api& api_;
};

}  // namespace

std::unique_ptr<cuda::Api> cuda_tests::open_device() { return cuda::open_cuda(); }

int main(int count, char** arguments) {
  std::unique_ptr<cuda::Api> api;
  try {
    api = cuda::open_cuda();
  } catch (const cuda::DeviceFailure& failure) {
    std::printf("skipped: %s\n", failure.what());
    return 77;
  }
  Pinned pinned(*api);
  std::pmr::set_default_resource(&pinned);
  const int code = Catch::Session().run(count, arguments);
  std::pmr::set_default_resource(nullptr);
  return code;
}
