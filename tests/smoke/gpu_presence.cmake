# Run by ctest: says in the test list why the GPU tests skip on this machine.
if(NOT EXISTS /dev/nvidiactl AND NOT EXISTS /dev/dxg)
  set(reason "no NVIDIA GPU on this machine (no /dev/nvidiactl)")
  add_test("gpu tests: ${reason}" sh -c "echo 'Skipped: ${reason}'; exit 77")
  set_tests_properties("gpu tests: ${reason}" PROPERTIES SKIP_RETURN_CODE 77 LABELS gpu)
endif()
