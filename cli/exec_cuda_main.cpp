// `planner-exec-cuda`: the same command line with what runs a plan on a GPU (docs/decisions/0002).
// `planner exec --backend cuda` and `planner calibrate --backend cuda` hand over to it, and it
// hands all else back; it is built where a CUDA toolkit is found.

#include "cli/cuda_runner.hpp"
#include "exec/cuda/runtime/cuda_api.hpp"

int main(int count, char** arguments) {
  return cli::run_planner_on_gpu(count, arguments, [](const cli::DeviceChoice& choice) {
    return choice.named ? exec::cuda::open_cuda(*choice.named)
                        : exec::cuda::open_cuda_of_rank(choice.local_rank);
  });
}
