# xstage_tool: the command `xstage`. xstage_cli: its verbs, for the tests as well.
include(cmake/fingerprints.cmake)

file(GLOB cli_sources CONFIGURE_DEPENDS src/cli/*.cpp)
list(FILTER cli_sources EXCLUDE REGEX "/(main|bench[a-z_]*)\\.cpp$")
add_library(xstage_cli STATIC ${cli_sources})  # all verbs but `bench`, so that tests can run them in process
xstage_unity(xstage_cli)
target_include_directories(xstage_cli PUBLIC src)
target_link_libraries(xstage_cli
  PUBLIC xstage xstage_cuda_node CLI11::CLI11
  PRIVATE nlohmann_json::nlohmann_json fmt::fmt-header-only)

# The verb `bench`, or what says that this build has none. Object libraries: xstage_cli asks them for the verb, and they
# ask xstage_cli for tables and exit codes.
add_library(xstage_cli_without_bench OBJECT src/cli/bench_unavailable.cpp)
target_link_libraries(xstage_cli_without_bench PUBLIC xstage_cli)
if(XSTAGE_OPERATORS)
  file(GLOB cli_bench_sources CONFIGURE_DEPENDS src/cli/bench*.cpp)
  list(FILTER cli_bench_sources EXCLUDE REGEX "/bench_unavailable\\.cpp$")
  if(XSTAGE_HAVE_CUDA)
    list(FILTER cli_bench_sources EXCLUDE REGEX "/bench_without_cuda\\.cpp$")
  endif()
  add_library(xstage_cli_bench OBJECT ${cli_bench_sources})
  xstage_unity(xstage_cli_bench)
  target_link_libraries(xstage_cli_bench
    PUBLIC xstage_cli xstage_bench $<TARGET_NAME_IF_EXISTS:xstage_bench_cuda>
    PRIVATE nlohmann_json::nlohmann_json fmt::fmt-header-only)
endif()

add_executable(xstage_tool src/cli/main.cpp)
# The binary stands alone (build/release/xstage): it is carried to GPU machines without its build folder.
set_target_properties(xstage_tool PROPERTIES OUTPUT_NAME xstage RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_link_libraries(xstage_tool PRIVATE
  $<IF:$<BOOL:${XSTAGE_OPERATORS}>,xstage_cli_bench,xstage_cli_without_bench> xstage_cli xstage_fingerprints
  xstage_portable_binary)
install(TARGETS xstage_tool COMPONENT tool)
