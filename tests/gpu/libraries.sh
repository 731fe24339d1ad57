# shellcheck shell=bash disable=SC2034,SC2154
# Sourced with `bin` set: libraries that were bundled with the binaries come first; cuBLASLt, cuDNN, the
# runtime that cuDNN's frontend calls, CUPTI and NCCL come from PyTorch's wheels where the loader does not
# find them.
export LD_LIBRARY_PATH=$bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
known=$(ldconfig -p 2>/dev/null || true)
needed=$(ldd "$bin/planner-exec-cuda")
for library in libcublasLt.so.13 libcudnn.so.9 libcudart.so.13 libcupti.so.13 libnccl.so.2; do
  if [[ $known == *"$library "* || $needed == *"$library => /"* ]]; then continue; fi
  found=$(python3 -c 'import sys, glob
print(next(iter(sorted(g for p in sys.path for g in glob.glob(p + "/nvidia/*/lib/'"$library"'"))), ""))')
  if [[ -n $found ]]; then LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$(dirname "$found"); fi
done

# The shipped profile of this card.
case $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null || true) in
  *"H100 PCIe"*) gpu=h100-pcie-80g ;;
  *H100*) gpu=h100-sxm-80g ;;
  *A100*PCI*40*) gpu=a100-pcie-40g ;;
  *A100*SXM*40*) gpu=a100-sxm-40g ;;
  *A100*PCI*) gpu=a100-pcie-80g ;;
  *A100*) gpu=a100-sxm-80g ;;
  *B200*) gpu=b200-sxm-180g ;;
  *) gpu=h200-sxm-141g ;;
esac
