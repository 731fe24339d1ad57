# Read by cpack for each generator: what PlannerPack.cmake cannot say for all of them.
if(CPACK_GENERATOR MATCHES "TGZ")
  list(APPEND CPACK_COMPONENTS_ALL libraries)
  set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
else()
  set(CPACK_COMPONENTS_GROUPING IGNORE)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY OFF)
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # it would come before each component's own
endif()
