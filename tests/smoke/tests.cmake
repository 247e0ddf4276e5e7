# Tests of the tool as a user meets it, and of the scripts that watch the repository.
function(xstage_python_test name file)
  add_test(NAME ${name} COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/tests/smoke/${file}")
  set_tests_properties(${name} PROPERTIES LABELS smoke TIMEOUT 300)
endfunction()

xstage_python_test(scripts.write_tables write_tables_test.py)
xstage_python_test(documents documents_test.py)
xstage_python_test(comments comments_test.py)
xstage_python_test(scripts.write_output write_output_test.py)
xstage_python_test(scripts.check_ptxas check_ptxas_test.py)
xstage_python_test(scripts.check_results check_results_test.py)
xstage_python_test(scripts.fingerprints fingerprints_test.py)

# Of one build, and not of that with sanitizers: whoever links it would need their flags.
if(NOT XSTAGE_SANITIZE)
  find_program(XSTAGE_PKG_CONFIG pkg-config REQUIRED)
  add_test(NAME smoke.install
    COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/tests/smoke/install_test.py" "${PROJECT_BINARY_DIR}")
  set_tests_properties(smoke.install PROPERTIES LABELS smoke TIMEOUT 300)
endif()

# A parameter that GoogleTest cannot print gives its test a name of bytes.
function(xstage_test_names binary)
  add_test(NAME smoke.names_of_${binary}
    COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/tests/smoke/test_names_test.py" $<TARGET_FILE:${binary}>)
  set_tests_properties(smoke.names_of_${binary} PROPERTIES LABELS smoke TIMEOUT 300)
endfunction()

if(TARGET unit_tests)
  xstage_test_names(unit_tests)
endif()
if(TARGET xstage_tool)
  xstage_python_test(smoke.tool tool_test.py)
  set_tests_properties(smoke.tool PROPERTIES ENVIRONMENT "XSTAGE_TOOL=$<TARGET_FILE:xstage_tool>")
  add_test(NAME smoke.output_in_documents
    COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/scripts/write_output.py" $<TARGET_FILE:xstage_tool> --check)
  set_tests_properties(smoke.output_in_documents PROPERTIES LABELS smoke TIMEOUT 300)
  if(XSTAGE_SANITIZE)
    set_property(TEST smoke.tool APPEND PROPERTY ENVIRONMENT XSTAGE_SANITIZED=1)
  endif()
endif()
