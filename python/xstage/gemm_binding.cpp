// gemm_reduce_scatter: plan, heap and one rank's operation.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "binding.hpp"
#include "ops/gemm/layout.hpp"
#include "plan_binding.hpp"
#include "xstage/gemm.hpp"
#include "xstage/symmetric_heap.hpp"

namespace nb = nanobind;
using namespace nanobind::literals;  // "name"_a

namespace {

namespace binding = xstage::binding;
using xstage::Gemm;
using xstage::PeerAccessHeap;
using xstage::Plan;
using xstage::gemm::Problem;

Problem reduce_scatter(std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem problem;
  problem.operation = xstage::gemm::Operation::reduce_scatter;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  return problem;
}

Plan make_plan(std::int64_t m, std::int64_t n, std::int64_t k, int world, int multiprocessors) {
  const Problem problem = reduce_scatter(m, n, k);
  xstage::gemm::check_problem(problem, world);
  return xstage::gemm::make_plan(problem, world, multiprocessors);
}

class GemmReduceScatter {
 public:
  GemmReduceScatter(PeerAccessHeap& heap, int rank, std::int64_t m, std::int64_t n, std::int64_t k,
                    std::int64_t time_out_ms, const std::optional<Plan>& plan)
      : gemm_(heap.rank(rank), reduce_scatter(m, n, k),
              plan.has_value() ? *plan
                               : make_plan(m, n, k, heap.world(), binding::multiprocessors(heap.rank(rank).device())),
              binding::checked_time_out(time_out_ms)) {}

  void launch(std::uintptr_t a, std::uintptr_t b, std::uintptr_t output, std::uintptr_t stream) {
    xstage::gemm::Operands operands;
    operands.a = reinterpret_cast<const void*>(a);
    operands.b = reinterpret_cast<const void*>(b);
    operands.output = reinterpret_cast<void*>(output);
    gemm_.launch(operands, reinterpret_cast<CUstream_st*>(stream));
  }

  void check() const { gemm_.check(); }
  [[nodiscard]] const Plan& plan() const { return gemm_.plan(); }
  [[nodiscard]] int issuers() const { return gemm_.issuers(); }

  static void reset(const std::vector<GemmReduceScatter*>& ranks) {
    binding::require_no_none(ranks);
    std::vector<Gemm*> gemms;
    for (GemmReduceScatter* rank : ranks) {
      gemms.push_back(&rank->gemm_);
    }
    Gemm::reset(gemms);
  }

 private:
  Gemm gemm_;
};

void bind_plan(nb::module_& module) {
  nb::class_<Plan> plan_class(module, "Plan",
                              "The numbers that a kernel is launched with; see include/xstage/plan.hpp.");
  binding::bind_plan_fields(plan_class, xstage::gemm::plan_fields());
  module.def("make_plan", &make_plan, "m"_a, "n"_a, "k"_a, "world"_a, "multiprocessors"_a,
             "Plan of gemm_reduce_scatter; m, n, k are of the whole problem.");
  module.def(
      "heap_bytes",
      [](std::int64_t m, std::int64_t n, std::int64_t k, int world, const Plan& plan) {
        const Problem problem = reduce_scatter(m, n, k);
        xstage::gemm::check_problem(problem, world);
        return xstage::gemm::heap_bytes(problem, plan, world);
      },
      "m"_a, "n"_a, "k"_a, "world"_a, "plan"_a, "Bytes of each rank's heap that one gemm_reduce_scatter takes.");
  module.def(
      "row_range",
      [](std::int64_t m, int rank, int world) {
        const xstage::gemm::RowRange range = xstage::gemm::row_range(m, rank, world);
        return std::make_pair(range.begin, range.count);
      },
      "m"_a, "rank"_a, "world"_a, "First row of the result that a rank owns, and how many.");
}

void bind_operation(nb::module_& module) {
  // Whatever may wait for a GPU lets other Python threads run.
  using Released = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<GemmReduceScatter>(module, "GemmReduceScatter", "One rank's gemm_reduce_scatter, in device addresses.")
      .def(nb::init<PeerAccessHeap&, int, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                    const std::optional<Plan>&>(),
           "heap"_a, "rank"_a, "m"_a, "n"_a, "k"_a, "time_out_ms"_a = 10'000, "plan"_a = nb::none(),
           nb::keep_alive<1, 2>())
      .def("launch", &GemmReduceScatter::launch, "a_pointer"_a, "b_pointer"_a, "output_pointer"_a, "stream_pointer"_a,
           Released())
      .def_prop_ro("plan", &GemmReduceScatter::plan, nb::rv_policy::copy)
      .def_prop_ro("issuers", &GemmReduceScatter::issuers)
      .def("check", &GemmReduceScatter::check)
      .def_static("reset", &GemmReduceScatter::reset, "ranks"_a, Released());
}

}  // namespace

void xstage::binding::bind_gemm(nb::module_& module) {
  bind_plan(module);
  bind_operation(module);
}
