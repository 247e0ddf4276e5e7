# xstage_bench: cells, rows, references and workloads of `xstage bench`, without CUDA. xstage_bench_cuda: what measures them;
# without nvcc src/cli/bench_without_cuda.cpp says so to whoever asks. For the tool and the tests: no library of the product
# links them.
file(GLOB bench_sources CONFIGURE_DEPENDS src/bench/*.cpp src/ops/*/bench/*.cpp)
if(XSTAGE_HAVE_CUDA)
  list(FILTER bench_sources EXCLUDE REGEX "/unavailable[a-z_]*\\.cpp$")
endif()
add_library(xstage_bench STATIC ${bench_sources})
xstage_unity(xstage_bench)
target_include_directories(xstage_bench PRIVATE src)
target_link_libraries(xstage_bench
  PUBLIC xstage_operators xstage nlohmann_json::nlohmann_json fmt::fmt-header-only)
if(NOT XSTAGE_HAVE_CUDA)
  return()
endif()

file(GLOB cuda_bench_sources CONFIGURE_DEPENDS
  src/bench/cuda/*.cpp src/bench/cuda/*.cu src/ops/*/bench/cuda/*.cpp src/ops/*/bench/cuda/*.cu)
add_library(xstage_bench_cuda STATIC ${cuda_bench_sources})
xstage_unity(xstage_bench_cuda)
target_include_directories(xstage_bench_cuda PRIVATE src)
target_include_directories(xstage_bench_cuda SYSTEM PRIVATE "${XSTAGE_CUTLASS_INCLUDE}")
target_link_libraries(xstage_bench_cuda
  PUBLIC xstage_bench xstage_kernels
  PRIVATE CUDA::cudart_static fmt::fmt-header-only Threads::Threads ${CMAKE_DL_LIBS})
xstage_cuda_settings(xstage_bench_cuda)
set_target_properties(xstage_bench_cuda PROPERTIES CUDA_ARCHITECTURES "90a-real")
target_compile_options(xstage_bench_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")
