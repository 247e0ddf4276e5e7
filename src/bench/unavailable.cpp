// Stands in for src/bench/cuda in builds without nvcc.

#include "bench/gemm_bench.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

GemmBenchOutcome run_gemm_bench(const GemmBenchOptions& /*options*/, const GemmBenchObserver& /*observer*/) {
  throw DeviceError(
      "this build has no CUDA support, which a benchmark needs: install the CUDA toolkit (nvcc) and rebuild");
}

}  // namespace xstage::bench
