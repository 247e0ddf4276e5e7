// Stands in for src/bench/cuda in builds without nvcc.

#include "ops/attention/bench/attention_bench.hpp"
#include "ops/gemm/bench/gemm_bench.hpp"
#include "ops/moe/bench/moe_bench.hpp"
#include "ops/ulysses/bench/ulysses_bench.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

[[noreturn]] void fail() {
  throw DeviceError(
      "this build has no CUDA support, which a benchmark needs: install the CUDA toolkit (nvcc) and rebuild");
}

}  // namespace

Outcome run_gemm_bench(const GemmBenchOptions& /*options*/, const std::vector<CellHead>& /*heads*/,
                       const Observer& /*observer*/) {
  fail();
}

Outcome run_attention_bench(const AttentionBenchOptions& /*options*/, const std::vector<CellHead>& /*heads*/,
                            const Observer& /*observer*/) {
  fail();
}

Outcome run_ulysses_bench(const UlyssesBenchOptions& /*options*/, const std::vector<CellHead>& /*heads*/,
                          const Observer& /*observer*/) {
  fail();
}

Outcome run_moe_bench(const MoeBenchOptions& /*options*/, const std::vector<CellHead>& /*heads*/,
                      const Observer& /*observer*/) {
  fail();
}

}  // namespace xstage::bench
