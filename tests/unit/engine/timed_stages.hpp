#pragma once
// The two-stage program of the checker's tests, with shapes that take time.

#include "tests/unit/program/two_stages.hpp"

namespace engine_test {

inline program::Program two_stages(int data, std::int64_t micro_batches = 5) {
  program::Mesh mesh;
  mesh.data = data;
  mesh.pipeline = 2;
  program::Program p =
      program_test::program_of({program_test::StageBuilder(0, micro_batches).k,
                                program_test::StageBuilder(1, micro_batches).k},
                               mesh);
  for (program::RankClass& k : p.classes) {
    models::Operator& linear = k.operators.front();
    linear.rows = 4096;
    linear.n = k.stage == 0 ? 512 : 640;
    linear.k = 512;
    linear.groups = 1;
  }
  return p;
}

}  // namespace engine_test
