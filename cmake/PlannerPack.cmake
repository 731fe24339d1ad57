# `cpack` in the build folder: an archive that runs where it is unpacked, and packages for Debian.
#
#   planner-VERSION-SYSTEM.tar.gz   all components, with the shared libraries that a bare machine lacks
#   planner_VERSION_ARCH.deb        what plans and runs on the host; planner-mpi, planner-cuda and
#                                   planner-dev beside it. Depends is what dpkg-shlibdeps finds
#
# cpack -G TGZ or -G DEB makes one of them.
include_guard(GLOBAL)

set(PLANNER_MAINTAINER "planner developers <planner@example.org>" CACHE STRING
  "Maintainer that packages name: set your own when you publish them")

set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME planner)
set(CPACK_PACKAGE_CONTACT ${PLANNER_MAINTAINER})
set(CPACK_PACKAGE_VENDOR planner)
# Descriptions begin with a line that stands alone.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "plan, simulate and run the training of large models")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION_SUMMARY}
Given a model, GPUs and a job, planner predicts memory, communication and time
of every sensible training strategy and picks one. It can run that strategy on
the host, and compares the run with its prediction.")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_FILE_NAME
  planner-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
string(TOLOWER ${CPACK_PACKAGE_FILE_NAME} CPACK_PACKAGE_FILE_NAME)
set(CPACK_STRIP_FILES ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/PackOptions.cmake)

set(CPACK_COMPONENTS_ALL runtime development)
if(TARGET planner_exec_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
if(TARGET planner_exec_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME planner)
# The same version of the planner: its binaries speak to each other.
set(same "planner (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "planner-mpi, planner-dev")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME planner-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "${same}, openmpi-bin")
set(CPACK_COMPONENT_MPI_DESCRIPTION "run plans of planner over MPI
Runs the plans of planner as one process for each rank, started by mpirun.")
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME planner-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "${same}")
# Its libraries come with NVIDIA's toolkit, of which the package database need not know.
set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS OFF)
set(CPACK_COMPONENT_CUDA_DESCRIPTION "run plans of planner on NVIDIA GPUs
Runs the plans of planner on GPUs. It needs the libraries of the CUDA toolkit
that it was built with.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME planner-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libfmt-dev, libboost-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "planner as a C++ library (development files)
Static libraries, headers, and the files by which find_package(planner) finds
them. An example is in the package planner.")
include(CPack)
