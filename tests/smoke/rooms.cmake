# What `make demo` builds: no operator, no benchmark. Linked from the libraries that are there.
add_executable(tool_without_operators "${PROJECT_SOURCE_DIR}/src/cli/main.cpp")
target_link_libraries(tool_without_operators PRIVATE
  xstage_cli_without_bench xstage_cli xstage_fingerprints xstage_portable_binary)
add_test(NAME smoke.tool_without_operators_says_so COMMAND tool_without_operators bench gemm --trials 3)
set_tests_properties(smoke.tool_without_operators_says_so PROPERTIES
  LABELS smoke TIMEOUT 60 PASS_REGULAR_EXPRESSION "XSTAGE_OPERATORS=ON")

xstage_python_test(scripts.check_rooms check_rooms_test.py)
add_test(NAME repository.rules_between_rooms
  COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/scripts/check_rooms.py")
