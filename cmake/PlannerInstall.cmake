# What `cmake --install` puts where, in components that `cpack` packs (PlannerPack.cmake):
#
#   runtime      lib/planner/planner and planner-exec, bin/planner (a link), manual page, completions,
#                documents, schemas, examples, list of contents. Data files are inside the program
#   mpi          lib/planner/planner-exec-mpi
#   cuda         lib/planner/planner-exec-cuda, libplanner-nccl.so, planner-probe
#   development  static libraries, headers, planner-config.cmake
#   libraries    shared libraries of the build machine that a bare one may lack; packed in archives alone
#
# Binaries find each other in their own folder, and libraries there by RPATH: the installed tree may be
# moved whole.
include_guard(GLOBAL)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(private ${CMAKE_INSTALL_LIBDIR}/planner)
set(documents ${CMAKE_INSTALL_DATADIR}/doc/planner)

# ---- programs -------------------------------------------------------------------------------

# planner_install_program(target component [command]): a command is linked to from bin.
function(planner_install_program target component)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN")
  # Libraries in that folder find each other there, too.
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
  install(TARGETS ${target} RUNTIME_DEPENDENCY_SET planner_dependencies
    RUNTIME DESTINATION ${private} COMPONENT ${component}
    LIBRARY DESTINATION ${private} COMPONENT ${component})
  if(ARGC GREATER 2)
    file(RELATIVE_PATH up /${CMAKE_INSTALL_BINDIR} /${private})
    set(link ${CMAKE_BINARY_DIR}/links/${ARGV2})
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/links)
    file(CREATE_LINK ${up}/${ARGV2} ${link} SYMBOLIC)
    install(FILES ${link} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
  endif()
endfunction()

planner_install_program(planner_binary runtime planner)
planner_install_program(planner_exec runtime)
if(TARGET planner_exec_mpi)
  # MPI's libraries must be those of the machine's mpirun: they are never packed.
  set_target_properties(planner_exec_mpi PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS planner_exec_mpi RUNTIME DESTINATION ${private} COMPONENT mpi)
endif()
if(TARGET planner_exec_cuda)
  # The toolkit's libraries stay where they are: beside the binaries, in its folder, or as the loader finds
  # them.
  set_target_properties(planner_exec_cuda planner-probe PROPERTIES
    INSTALL_RPATH "$ORIGIN;${CUDAToolkit_LIBRARY_DIR}")
  install(TARGETS planner_exec_cuda planner-probe planner_nccl_plugin
    RUNTIME DESTINATION ${private} COMPONENT cuda LIBRARY DESTINATION ${private} COMPONENT cuda)
endif()

# ---- what planner says of itself ------------------------------------------------------------

# file of the build folder, its place, the words that print it
find_program(PLANNER_GZIP gzip)
mark_as_advanced(PLANNER_GZIP)
set(pages
  "man/planner.1|${CMAKE_INSTALL_MANDIR}/man1|help --man"
  "completions/planner|${CMAKE_INSTALL_DATADIR}/bash-completion/completions|completion bash"
  "completions/_planner|${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions|completion zsh"
  "completions/planner.fish|${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d|completion fish")
set(printed)
foreach(page IN LISTS pages)
  string(REPLACE "|" ";" page "${page}")
  list(GET page 0 file)
  list(GET page 1 place)
  list(GET page 2 words)
  separate_arguments(words)
  set(file ${CMAKE_BINARY_DIR}/pages/${file})
  get_filename_component(folder ${file} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${file} COMMAND planner_binary ${words} > ${file}
    DEPENDS planner_binary VERBATIM)
  if(file MATCHES "\\.1$" AND PLANNER_GZIP)  # as Debian wants manual pages
    add_custom_command(OUTPUT ${file}.gz COMMAND ${PLANNER_GZIP} -9 -n -k -f ${file} DEPENDS ${file})
    string(APPEND file .gz)
  endif()
  list(APPEND printed ${file})
  install(FILES ${file} DESTINATION ${place} COMPONENT runtime)
endforeach()
add_custom_target(planner_pages ALL DEPENDS ${printed})

install(FILES README.md CHANGELOG.md docs/cli.md docs/model_files.md docs/references.md
  DESTINATION ${documents} COMPONENT runtime)
install(DIRECTORY docs/guide docs/examples docs/schemas DESTINATION ${documents} COMPONENT runtime)
# One text of all licences: this project's, and that of the library inside its pages.
set(licences ${CMAKE_BINARY_DIR}/pages/copyright)
file(READ LICENSE own)
file(READ reports/html/vendor/LICENSE echarts)
file(CONFIGURE OUTPUT ${licences} CONTENT
  "planner is under the Apache License 2.0, the first text below. Its report pages contain Apache
ECharts, whose licence and notices are the second.\n\n@own@\n\n@echarts@" @ONLY)
foreach(component IN ITEMS runtime mpi cuda development)  # each a package of its own
  set(of_runtime)
  if(NOT component STREQUAL "runtime")
    string(REGEX REPLACE "elopment$" "" of_runtime -${component})
  endif()
  install(FILES ${licences} DESTINATION ${documents}${of_runtime} COMPONENT ${component})
endforeach()

# What the programs are made of, read from what was linked and compiled.
set(programs)
foreach(target planner_binary planner_exec planner_exec_mpi planner_exec_cuda)
  if(TARGET ${target})
    list(APPEND programs "\"$<TARGET_FILE:${target}>\"")
  endif()
endforeach()
list(JOIN programs " " programs)
# It appears whole: another install may be copying it.
install(CODE "string(RANDOM LENGTH 16 name)
  set(list \"${CMAKE_BINARY_DIR}/pages/sbom.cdx.json\")
  execute_process(COMMAND bash \"${CMAKE_SOURCE_DIR}/cmake/sbom.sh\" \"${CMAKE_SOURCE_DIR}\"
    \"${CMAKE_BINARY_DIR}\" \"${PROJECT_VERSION}\" ${programs}
    OUTPUT_FILE \"\${list}.\${name}\" COMMAND_ERROR_IS_FATAL ANY)
  file(RENAME \"\${list}.\${name}\" \"\${list}\")" COMPONENT runtime)
install(FILES ${CMAKE_BINARY_DIR}/pages/sbom.cdx.json DESTINATION ${documents} COMPONENT runtime)

# ---- libraries ------------------------------------------------------------------------------

# What links planner::planner needs; the arrows of docs/decisions/0001 hold in there, too.
set(libraries core ops models hw_profiles question strategy stage program lowering cost engine chakra
  evaluate plan search)
install(TARGETS ${libraries} planner EXPORT planner-targets
  ARCHIVE DESTINATION ${private}/static COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/planner)
foreach(target IN LISTS libraries)
  get_target_property(folder ${target} SOURCE_DIR)
  file(RELATIVE_PATH below ${CMAKE_SOURCE_DIR} ${folder})
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/planner/${below}
    COMPONENT development FILES_MATCHING PATTERN "*.hpp" REGEX "/(data|zoo|nodes|fabrics|frameworks)$" EXCLUDE)
endforeach()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/planner)
configure_package_config_file(cmake/planner-config.cmake.in ${CMAKE_BINARY_DIR}/planner-config.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/planner-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(EXPORT planner-targets NAMESPACE planner:: DESTINATION ${package} COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/planner-config.cmake ${CMAKE_BINARY_DIR}/planner-config-version.cmake
  DESTINATION ${package} COMPONENT development)

# Those that every machine with a C++ program of the same age has stay out: a newer driver's libraries
# need its own.
install(RUNTIME_DEPENDENCY_SET planner_dependencies PRE_EXCLUDE_REGEXES "^lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s)\\.so"
  "^ld-linux" LIBRARY DESTINATION ${private} COMPONENT libraries EXCLUDE_FROM_ALL)
# With the licences of what comes along.
install(CODE "execute_process(COMMAND bash \"${CMAKE_SOURCE_DIR}/cmake/licences.sh\"
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${private}\"
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${documents}/licences\" COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT libraries EXCLUDE_FROM_ALL)
include(PlannerPack)
