# Finds MPI without failing when there is none.
#
# After include(PlannerMpi): PLANNER_MPI_FOUND is TRUE where PLANNER_MPI is ON and MPI was found;
# then MPI::MPI_CXX is there. planner-exec-mpi is built only where it is.
include_guard(GLOBAL)

set(PLANNER_MPI_FOUND FALSE)
if(PLANNER_MPI)
  set(MPI_CXX_SKIP_MPICXX TRUE)  # the C interface alone
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(PLANNER_MPI_FOUND TRUE)
  else()
    message(STATUS "MPI not found: planner-exec-mpi (planner exec --communicator mpi) is left out. "
                   "Install libopenmpi-dev and openmpi-bin, or pass -DMPI_HOME=..., to build it.")
  endif()
endif()
