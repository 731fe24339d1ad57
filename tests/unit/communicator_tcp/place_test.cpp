#include "exec/communicator/tcp/place.hpp"

#include <map>

#include "tests/catch.hpp"

using exec::Place;

namespace {

using Set = std::map<std::string, std::string>;

exec::Variables of(const Set& set) {
  return [set](const char* name) -> std::optional<std::string> {
    const auto at = set.find(name);
    return at == set.end() ? std::nullopt : std::optional<std::string>(at->second);
  };
}

Place place(const Set& set) {
  const auto found = exec::place_from(of(set));
  UNSCOPED_INFO((found.ok() ? std::string() : core::to_text(found.problems())));
  REQUIRE(found.ok());
  REQUIRE(found->has_value());
  return **found;
}

std::string problem(const Set& set) {
  const auto found = exec::place_from(of(set));
  REQUIRE_FALSE(found.ok());
  return core::to_text(found.problems());
}

Set with(Set set, const Set& more) {
  for (const auto& [name, value] : more) set[name] = value;
  return set;
}

const Set kTorch{{"RANK", "3"},
                 {"WORLD_SIZE", "8"},
                 {"LOCAL_RANK", "1"},
                 {"LOCAL_WORLD_SIZE", "2"},
                 {"MASTER_ADDR", "node0"},
                 {"MASTER_PORT", "4000"},
                 {"PLANNER_SECRET", "s"}};
const Set kSlurm{{"SLURM_PROCID", "5"},
                 {"SLURM_STEP_NUM_TASKS", "8"},
                 {"SLURM_LOCALID", "1"},
                 {"SLURM_JOB_ID", "12345"},
                 {"SLURM_STEP_NODELIST", "gpu[03-05,9],big1"},
                 {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"},
                 {"PLANNER_SECRET", "s"}};

}  // namespace

TEST_CASE("a process without a launcher's variables is no rank") {
  for (const Set& set : {Set{}, Set{{"MASTER_ADDR", "x"}}, Set{{"RANK", ""}},
                         // A script under sbatch: what srun starts has a step.
                         Set{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}}) {
    CHECK_FALSE(exec::has_place(of(set)));
    CHECK_FALSE(exec::place_from(of(set))->has_value());
  }
}

TEST_CASE("torchrun's and Kubernetes' variables are understood") {
  const Place p = place(kTorch);
  CHECK(p.rank == 3);
  CHECK(p.size == 8);
  CHECK(p.local_rank == 1);
  CHECK(p.local_size == 2);
  CHECK(p.address == "node0");
  CHECK(p.port == 4000);
  CHECK(p.secret == "s");
  CHECK(p.patience == 60);
}

TEST_CASE("where torchrun's agent listens itself, ranks meet at the next port") {
  const Set agent = with(kTorch, {{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                  {"TORCHELASTIC_RUN_ID", "run"}});
  CHECK(place(agent).port == 4001);
  CHECK(place(agent).job == "run");
  CHECK(place(with(agent, {{"PLANNER_PORT", "5"}})).port == 5);
  CHECK(place(with(kTorch, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).port == 4000);
}

TEST_CASE("srun's variables are understood, and rank 0 is on its first host") {
  const Place p = place(kSlurm);
  CHECK(p.rank == 5);
  CHECK(p.size == 8);
  CHECK(p.address == "gpu03");
  CHECK(p.port == 20000 + 2345);
  CHECK(p.job == "12345");
  CHECK(place(with(kSlurm, {{"SLURM_STEP_NODELIST", ""}})).address == "10.0.0.1");
  CHECK(place(with(kSlurm, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "9"}})).address == "a");
}

TEST_CASE("mpirun's variables are understood, on one machine without an address") {
  const Set one{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"},
                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  CHECK(place(one).address == "127.0.0.1");
  CHECK(place(one).port == 29500);
  CHECK(problem(with(one, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}})).find("MASTER_ADDR: expected the "
                                                                       "machine of rank 0") == 0);
}

TEST_CASE("the first host of a list is found in each of Slurm's ways to write it") {
  CHECK(exec::first_host("a") == "a");
  CHECK(exec::first_host("a,b") == "a");
  CHECK(exec::first_host("n[003-010,012]") == "n003");
  CHECK(exec::first_host("n[7]") == "n7");
  CHECK(exec::first_host("n[1,4]-ib,other") == "n1-ib");
  CHECK(exec::first_host("n[1") == "n1");
  CHECK(exec::first_host("") == "");
}

TEST_CASE("a launcher's variables that cannot be are named") {
  CHECK(problem({{"RANK", "1"}}).find("WORLD_SIZE: expected to be set") == 0);
  CHECK(problem({{"WORLD_SIZE", "2"}}).find("RANK: expected to be set") == 0);
  CHECK(problem(with(kTorch, {{"RANK", "8"}})).find("RANK: expected a rank below 8, found 8") == 0);
  CHECK(problem(with(kTorch, {{"RANK", "-1"}})).find("RANK: expected a whole number") == 0);
  CHECK(problem(with(kTorch, {{"RANK", "3x"}})).find("RANK: expected a whole number") == 0);
  CHECK(problem(with(kTorch, {{"MASTER_PORT", "0"}})).find("MASTER_PORT: expected") == 0);
  CHECK(problem(with(kTorch, {{"MASTER_PORT", "70000"}})).find("MASTER_PORT: expected") == 0);
}

TEST_CASE("ranks that others can reach need a secret, those of one machine do not") {
  CHECK(problem(with(kTorch, {{"PLANNER_SECRET", ""}})).find("PLANNER_SECRET: expected") == 0);
  for (const char* here : {"127.0.0.1", "localhost", "::1"})
    CHECK(place(with(kTorch, {{"PLANNER_SECRET", ""}, {"MASTER_ADDR", here}})).secret.empty());
}
