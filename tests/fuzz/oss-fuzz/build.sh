#!/bin/bash -eu
# Run by OSS-Fuzz: its compiler, flags and engine come in the environment. Libraries of the system
# go beside the targets, which find them there.
cmake -G Ninja -S . -B "$WORK/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPLANNER_CUDA=OFF \
  -DPLANNER_MPI=OFF -DPLANNER_FUZZ=ON "-DPLANNER_FUZZ_ENGINE=$LIB_FUZZING_ENGINE"
ninja -C "$WORK/build" fuzzers
for folder in tests/fuzz/corpus/*/; do
  target=$(basename "$folder")
  cp "$WORK/build/bin/fuzz_$target" "$OUT/"
  zip -q -j "$OUT/fuzz_${target}_seed_corpus.zip" "$folder"/*
  ldd "$OUT/fuzz_$target" | awk '/=> \/.*(fmt|yaml|nlopt|openblas|gfortran|quadmath)/ {print $3}' |
    xargs -r cp -t "$OUT/"
done
