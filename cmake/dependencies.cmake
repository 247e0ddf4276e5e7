# The parts that are not ours, each with its reason. scripts/bootstrap.sh installs their Debian packages.
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)  # profiles, workloads, --json
find_package(fmt 9 REQUIRED)               # messages and tables; header-only, so that the tool needs no shared library
find_package(CLI11 2.1 REQUIRED)           # command line
if(XSTAGE_TESTS)
  find_package(GTest REQUIRED)                    # tests
  find_package(Python3 COMPONENTS Interpreter REQUIRED)  # checks of the compile log and of result files
endif()
if(XSTAGE_BENCH)
  find_package(benchmark REQUIRED)  # nanoseconds of one model evaluation
endif()
