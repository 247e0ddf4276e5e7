// Mixture-of-experts layer: problem, plan, heap, packing of weights and one rank's operation.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "binding.hpp"
#include "ops/moe/problem.hpp"
#include "plan_binding.hpp"
#include "xstage/moe.hpp"
#include "xstage/symmetric_heap.hpp"

namespace nb = nanobind;
using namespace nanobind::literals;  // "name"_a

namespace {

namespace binding = xstage::binding;
using xstage::MoeLayer;
using xstage::PeerAccessHeap;
using xstage::moe::Plan;
using xstage::moe::Problem;

MoeLayer make(PeerAccessHeap& heap, int rank, const Problem& problem, std::int64_t time_out_ms,
              const std::optional<Plan>& plan) {
  xstage::HeapRank& own = heap.rank(rank);
  const auto time_out = binding::checked_time_out(time_out_ms);
  return {
      own, problem,
      plan.has_value() ? *plan : xstage::moe::make_plan(problem, heap.world(), binding::multiprocessors(own.device())),
      time_out};
}

void launch(MoeLayer& layer, std::int64_t token_count, std::uintptr_t tokens, std::uintptr_t experts,
            std::uintptr_t router_weights, std::uintptr_t linear1, std::uintptr_t linear2, std::uintptr_t output,
            std::uintptr_t stream) {
  xstage::moe::Operands operands;
  operands.tokens = token_count;
  operands.tokens_in = reinterpret_cast<const void*>(tokens);
  operands.experts = reinterpret_cast<const std::int32_t*>(experts);
  operands.router_weights = reinterpret_cast<const float*>(router_weights);
  operands.linear1 = reinterpret_cast<const void*>(linear1);
  operands.linear2 = reinterpret_cast<const void*>(linear2);
  operands.output = reinterpret_cast<void*>(output);
  layer.launch(operands, reinterpret_cast<CUstream_st*>(stream));
}

void pack_linear1(const Problem& problem, std::uintptr_t gate, std::uintptr_t up, std::int64_t expert_stride,
                  std::uintptr_t packed, std::uintptr_t stream) {
  xstage::moe::pack_linear1(problem, reinterpret_cast<const void*>(gate), reinterpret_cast<const void*>(up),
                            expert_stride, reinterpret_cast<void*>(packed), reinterpret_cast<CUstream_st*>(stream));
}

// Whatever may wait for a GPU lets other Python threads run.
using Released = nb::call_guard<nb::gil_scoped_release>;

void bind_problem(nb::module_& module) {
  nb::class_<Problem>(module, "MoeProblem", "What is computed, the same on every rank.")
      .def(
          "__init__",
          [](Problem* self, std::int64_t hidden, std::int64_t intermediate, int experts_per_rank, int top_k,
             std::int64_t most_tokens,
             float clamp) { new (self) Problem{hidden, intermediate, experts_per_rank, top_k, most_tokens, clamp}; },
          nb::kw_only(), "hidden"_a, "intermediate"_a, "experts_per_rank"_a, "top_k"_a, "most_tokens"_a,
          "clamp"_a = 0.0F)
      .def_ro("hidden", &Problem::hidden)
      .def_ro("intermediate", &Problem::intermediate)
      .def_ro("experts_per_rank", &Problem::experts_per_rank)
      .def_ro("top_k", &Problem::top_k)
      .def_ro("most_tokens", &Problem::most_tokens)
      .def_ro("clamp", &Problem::clamp);
  module.def("moe_heap_bytes", &xstage::moe::heap_bytes, "problem"_a, "world"_a,
             "Bytes of each rank's heap that one MoeLayer takes.");
  module.def("check_moe_tokens", &xstage::moe::check_tokens, "problem"_a, "tokens"_a,
             "ValueError if a rank has more tokens than the heap is made for.");
  module.def("pack_moe_linear1", &pack_linear1, "problem"_a, "gate_pointer"_a, "up_pointer"_a, "expert_stride"_a,
             "packed_pointer"_a, "stream_pointer"_a, Released());
}

void bind_plan(nb::module_& module) {
  nb::class_<Plan> plan(module, "MoePlan", "The numbers that kernels are launched with; see xstage/moe.hpp.");
  binding::bind_plan_fields(plan, xstage::moe::plan_fields());
  module.def("make_moe_plan", &xstage::moe::make_plan, "problem"_a, "world"_a, "multiprocessors"_a);
}

void bind_operation(nb::module_& module) {
  nb::class_<MoeLayer>(module, "MoeLayer", "One rank's mixture-of-experts layer, in device addresses.")
      .def(
          "__init__",
          [](MoeLayer* self, PeerAccessHeap& heap, int rank, const Problem& problem, std::int64_t time_out_ms,
             const std::optional<Plan>& plan) { new (self) MoeLayer(make(heap, rank, problem, time_out_ms, plan)); },
          "heap"_a, "rank"_a, "problem"_a, "time_out_ms"_a = 10'000, "plan"_a = nb::none(), nb::keep_alive<1, 2>())
      .def("launch", &launch, "token_count"_a, "tokens_pointer"_a, "experts_pointer"_a, "router_weights_pointer"_a,
           "linear1_pointer"_a, "linear2_pointer"_a, "output_pointer"_a, "stream_pointer"_a, Released(),
           "Without tokens, pointers to them and to what belongs to them may be 0.")
      .def_prop_ro("problem", &MoeLayer::problem, nb::rv_policy::copy)
      .def_prop_ro("plan", &MoeLayer::plan, nb::rv_policy::copy)
      .def_prop_ro("issuers", &MoeLayer::issuers)
      .def("check", &MoeLayer::check)
      .def_static(
          "reset",
          [](const std::vector<MoeLayer*>& ranks) {
            binding::require_no_none(ranks);
            MoeLayer::reset(ranks);
          },
          "ranks"_a, Released());
}

}  // namespace

void xstage::binding::bind_moe(nb::module_& module) {
  bind_problem(module);
  bind_plan(module);
  bind_operation(module);
}
