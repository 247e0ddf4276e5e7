# GPU tests. Where they cannot run they stay in CTest's list as skipped: compiled with nvcc, each skips itself with its
# reason (GTEST_SKIP) and one more entry names it; without nvcc that entry stands for all of them.
function(xstage_skipped_test reason)
  add_test(NAME "gpu tests: ${reason}" COMMAND sh -c "echo 'Skipped: ${reason}'; exit 77")
  set_tests_properties("gpu tests: ${reason}" PROPERTIES SKIP_RETURN_CODE 77 LABELS gpu)
endfunction()

if(NOT XSTAGE_HAVE_CUDA)
  xstage_skipped_test("not built, ${XSTAGE_CUDA_ABSENT_REASON}")
  return()
endif()

# Design rule 10 on the objects of this build.
add_test(NAME repository.kernels_within_register_budgets
  COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/scripts/check_ptxas.py" "${PROJECT_BINARY_DIR}")

file(GLOB gpu_sources CONFIGURE_DEPENDS
  gpu/*.cpp gpu/*.cu "${PROJECT_SOURCE_DIR}/src/ops/*/test/gpu/*.cpp" "${PROJECT_SOURCE_DIR}/src/ops/*/test/gpu/*.cu")
if(NOT gpu_sources)
  return()
endif()
add_executable(gpu_tests ${gpu_sources})
xstage_unity(gpu_tests)
xstage_cuda_settings(gpu_tests)
set_target_properties(gpu_tests PROPERTIES CUDA_ARCHITECTURES "90a-real")
# Beside the tool, since both are carried to the GPU machine.
set_target_properties(gpu_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_include_directories(gpu_tests PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(gpu_tests PRIVATE
  xstage_bench xstage_kernels xstage_operators xstage_cuda_node xstage_device xstage xstage_portable_binary CUDA::cudart_static fmt::fmt-header-only GTest::gmock GTest::gtest_main)
gtest_discover_tests(gpu_tests DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
  PROPERTIES LABELS gpu TIMEOUT 300 RUN_SERIAL ON)
xstage_test_names(gpu_tests)
# Read by ctest itself, so that it looks at the machine that runs the tests.
set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${PROJECT_SOURCE_DIR}/tests/smoke/gpu_presence.cmake")
