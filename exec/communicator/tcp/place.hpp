#pragma once
// Place: which rank of how many this process is, and where they meet, as launchers say it in the
// environment: torchrun and Kubernetes (RANK, WORLD_SIZE, ...), mpirun (OMPI_COMM_WORLD_*) and srun
// (SLURM_*). Pure; thread-safe.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace exec {

struct Place {
  int rank = 0, size = 1;
  int local_rank = -1, local_size = -1;  // on this machine; -1: nobody said
  std::string address;                   // where rank 0 is: a name or numbers
  int port = 0;                          // where it listens
  std::string secret;                    // that all ranks share
  std::string job;                       // the launcher's name of it; empty: none
  double patience = 60;                  // seconds until all must have come
  int listener = -1;                     // rank 0: a socket that listens already
  bool followed = false;                 // by the process that started all ranks and ends them
};

// Value of a variable; nothing: not set.
using Variables = std::function<std::optional<std::string>(const char* name)>;
Variables environment_variables();

// Nothing: no launcher made this process one of several. Problems name the variable.
core::Result<std::optional<Place>> place_from(const Variables& variables);

// Whether any launcher's variables are there, sound or not.
bool has_place(const Variables& variables);

// "node003" of Slurm's "node[003-010,012],other7".
std::string first_host(std::string_view nodes);

inline constexpr const char* kLoopback = "127.0.0.1";                 // where all ranks are here

inline constexpr const char* kSecretVariable = "PLANNER_SECRET";      // any text
inline constexpr const char* kPatienceVariable = "PLANNER_RENDEZVOUS_SECONDS";
inline constexpr const char* kPortVariable = "PLANNER_PORT";          // in place of MASTER_PORT
inline constexpr const char* kListenerVariable = "PLANNER_LISTENER";  // a descriptor
inline constexpr const char* kFollowedVariable = "PLANNER_FOLLOWED";  // 1

}  // namespace exec
