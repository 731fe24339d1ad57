#!/usr/bin/env bash
# What run_cuda.sh needs, in one folder, for a machine with a GPU that has neither this tree nor its
# libraries: binaries, the libraries beside the C and C++ runtimes, the scripts. There:
#   bundle/gpu/run_cuda.sh bundle/bin measured
# CUDA's own libraries come from that machine's toolkit or PyTorch. TARGET.tar.xz is the same folder, a
# quarter of its size. usage: bundle.sh BIN_FOLDER TARGET
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1
target=$2
mkdir -p "$target/bin" "$target/gpu"
cp -r "$here"/*.sh "$here"/*.py "$here/families" "$target/gpu/"
for name in planner planner-exec planner-exec-cuda libplanner-nccl.so gpu_kernels gpu_attention gpu_products; do
  cp "$bin/$name" "$target/bin/"
  strip "$target/bin/$name"
  ldd "$bin/$name"
done | awk '/=> \// {print $3}' | sort -u |
  grep -Ev '/(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda|cudart|cublas|cublasLt)|ld-linux[^/]*)\.so' |
  while read -r library; do cp -L "$library" "$target/bin/"; done
XZ_OPT=-1T0 tar -C "$(dirname "$target")" -cJf "$target.tar.xz" "$(basename "$target")"
du -sh "$target" "$target.tar.xz"
