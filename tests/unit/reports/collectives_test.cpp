// Files of timed collectives: what a row means, what is not predicted and why, and the scores.

#include "reports/validate/collectives.hpp"

#include <cmath>

#include "core/json.hpp"
#include "tests/catch.hpp"

namespace {

using namespace reports::validation;

constexpr const char* kTimedHeader =
    "id,gpu,topology,n_gpus,nodes,collective,bytes,time_us,algbw_GBps,busbw_GBps,place,source,"
    "note\n";

CollectiveScores timed(const std::string& rows) {
  auto read = score_collectives(kTimedHeader + rows, "c.csv");
  REQUIRE(read.ok());
  return std::move(read).value();
}

std::string skipped_for(const std::string& row) {
  const CollectiveScores s = timed(row);
  REQUIRE(s.rows.empty());
  REQUIRE(s.skipped.size() == 1);
  return s.skipped.front().reason;
}

}  // namespace

TEST_CASE("a timed collective is predicted on the GPU, network and bridge that its row names") {
  const CollectiveScores s = timed(
      "a,A100-SXM4 80GB,NVSwitch,8,1,all_reduce,17179869184,127997,,,,,\n"
      "b,H200,NVSwitch NVLink4,8,1,all_gather,17179869184,,,361.4,,,\n"
      "c,H100-PCIe 80GB,\"2 GPUs, NVLink bridge\",2,1,all_reduce,1073741824,9306.7,,,,,\n"
      "d,B200,EFA v4 8x400Gb/s,32,4,all_reduce,17179869184,87181.8,,,,,\n"
      "e,B200,EFA v4 8x200Gb/s,32,4,all_reduce,17179869184,87181.8,,,,,\n"
      "f,A100-PCIe,PCIe,2,1,sendrecv,1048576,100,,,,,\n"
      "g,H200 SXM 96GB,NVSwitch,8,1,all_reduce,1048576,100,,,,,\n"
      "h,H20 SXM,NVSwitch,8,1,all_reduce,1048576,100,,,,,\n"
      "i,RTX 3090 Ti,PCIe,2,1,all_reduce,1048576,100,,,,,\n");
  REQUIRE(s.rows.size() == 9);
  CHECK(s.rows[0].gpu == "a100-sxm-80g");
  CHECK(s.rows[0].choice == "ring Simple");
  CHECK(std::abs(s.rows[0].relative_error()) < 0.02);
  CHECK(s.rows[1].gpu == "h200-sxm-141g");
  CHECK(std::abs(s.rows[1].relative_error()) < 0.02);  // its time from the bus bandwidth
  CHECK(std::abs(s.rows[1].measured - 17.179869184 * 7 / 8 / 361.4) < 1e-9);
  CHECK(s.rows[2].gpu == "h100-pcie-80g");
  CHECK(std::abs(s.rows[2].relative_error()) < 0.05);  // over the bridge, not the host
  CHECK(std::abs(s.rows[3].relative_error()) < 0.1);
  CHECK(std::abs(s.rows[4].predicted / s.rows[3].predicted - 2) < 0.1);  // half the network
  CHECK(s.rows[5].gpu == "a100-pcie-80g");
  CHECK(s.rows[5].choice == "message");
  CHECK(s.rows[6].gpu == "h200-sxm-141g");  // not an H20, whatever memory it says
  CHECK(s.rows[7].gpu == "h20-sxm-96g");
  CHECK(s.rows[8].gpu == "rtx3090ti");
}

TEST_CASE("a row's words name the cloud's machine that has its network and GPU") {
  const std::string shape = ",16,2,all_reduce,1048576,200,,,,,\n";
  const CollectiveScores s = timed(
      "a,H100-SXM,GCP A3-mega 8x200Gb/s TCPXO" + shape + "b,H100-SXM,EFA" + shape +
      "c,H200,EFA" + shape + "d,B200,EFA v4 8x400Gb/s" + shape + "e,A100-SXM4 40GB,EFA" + shape +
      "f,A100-SXM4 80GB,NVSwitch + IB" + shape + "g,H100-SXM,2 nodes" + shape +
      "h,B200,TCPX" + shape + "i,H100-SXM,NVSwitch,8,1,all_reduce,1048576,200,,,,,\n" +
      "j,H100-SXM,2 nodes x 4 GPUs,8,2,sendrecv,1073741824,44121,,,,,\n");
  REQUIRE(s.rows.size() == 10);
  const auto network = [&](std::size_t i) { return s.rows[i].network; };
  CHECK(network(0) == "TCPXO: gcp-a3-mega");
  CHECK(network(1) == "EFA: aws-p5");
  CHECK(network(2) == "EFA: aws-p5en");
  CHECK(network(3) == "EFA: aws-p6-b200");
  CHECK(network(4) == "EFA: aws-p4d");
  CHECK(network(5) == "IB: dgx-a100, the GPU's own");
  CHECK(network(6) == "not said: dgx-h100, the GPU's own");
  CHECK(network(7) == "TCPX: hgx-b200, the GPU's own");  // none of that network has this GPU
  CHECK(network(8) == "inside a node");
  // Simple over TCPXO costs more than what a DGX H100 takes for 1 MiB.
  CHECK(s.rows[0].choice == "tree Simple");
  CHECK(s.rows[0].predicted > 1.5 * s.rows[6].predicted);
  // A message between nodes has its GPU's card alone: 1 GiB at 0.94 x 50 GB/s.
  CHECK(std::abs(s.rows[9].predicted - 1073741824 / 47e9) < 1e-4);
  CHECK(collectives_page(s, "c.csv").text().find("| EFA: aws-p5 | 1 |") != std::string::npos);
}

TEST_CASE("a timing that cannot be predicted is skipped with its reason") {
  CHECK(skipped_for("a,RTX7090,PCIe5,8,1,all_reduce,1024,10,,,,,\n") ==
        "no profile of the GPU \"RTX7090\"");
  CHECK(skipped_for("a,H100,NVSwitch,8,1,gossip,1024,10,,,,,\n") ==
        "names no known collective: gossip");
  CHECK(skipped_for("a,H100,NVSwitch,8,1,all_reduce,,,,480,,,\n") == "states no size of a message");
  CHECK(skipped_for("a,H100,NVSwitch,8,1,all_reduce,1024,,,0.00,,,\n") ==
        "states neither a time nor a bandwidth above its rounding");
  CHECK(skipped_for("a,H100,NVSwitch,8,1,all_reduce,1024,,,0.01,,,\n") ==
        "states neither a time nor a bandwidth above its rounding");
  CHECK(skipped_for("a,H100,IB with SHARP,16,2,all_reduce,1024,10,,,,,\n") ==
        "switches that reduce (SHARP) are not modelled");
  CHECK(skipped_for("a,H100,NVSwitch,16,1,all_reduce,1024,10,,,,,\n") ==
        "more GPUs on a node than the profile's node has");
}

TEST_CASE("bad cells of timed collectives are reported by line and column, the rest still scored") {
  const CollectiveScores s = timed(
      "a,H100,NVSwitch,eight,1,all_reduce,1024,10,,,,,\n"
      "b,H100,NVSwitch,9,2,all_reduce,1024,10,,,,,\n"
      "c,H100,NVSwitch,8,1,all_reduce,1024,-1,,,,,\n"
      "d,H100,NVSwitch,8,1,all_reduce,1024,10,,,,,\n");
  CHECK(s.rows.size() == 1);
  CHECK(s.skipped.size() == 3);
  REQUIRE(s.problems.size() == 3);
  CHECK(s.problems[0].where.starts_with("c.csv:2"));
  CHECK(s.problems[1].where.starts_with("c.csv:3"));
  CHECK(s.problems[2].where.starts_with("c.csv:4"));
  CHECK_FALSE(score_collectives("id,gpu\n", "c.csv").ok());
  CHECK(holds_collectives(kTimedHeader));
  CHECK_FALSE(holds_collectives("id,dataset,gpus\n"));
}

TEST_CASE("scores of collectives are grouped, and the machine form lists every row") {
  const CollectiveScores s = timed(
      "a,H100,NVSwitch,8,1,all_reduce,1024,30,,,,,\n"
      "b,H100,NVSwitch,8,1,all_reduce,2147483648,8000,,,,,\n"
      "c,RTX7090,PCIe5,8,1,all_reduce,1024,10,,,,,\n");
  const auto json = core::parse_json(to_json_text(s), "scores");
  REQUIRE(json.ok());
  CHECK(core::dump(*json->find("predicted")) == "2");
  CHECK(core::dump(*json->find("large")->find("rows")) == "1");
  const std::string text = collectives_text(s, {});
  CHECK(text.find("2 of 3 timings predicted") != std::string::npos);
  CHECK(text.find("nvls") != std::string::npos);
  CHECK(collectives_page(s, "c.csv").text().find("| h100-sxm-80g | 8 | 1 | all_reduce |") !=
        std::string::npos);
}
