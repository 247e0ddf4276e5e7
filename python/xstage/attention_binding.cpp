// Attention: problem, plan, heap and one rank's operation.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binding.hpp"
#include "ops/attention/problem.hpp"
#include "plan_binding.hpp"
#include "xstage/attention.hpp"
#include "xstage/error.hpp"
#include "xstage/symmetric_heap.hpp"

namespace nb = nanobind;
using namespace nanobind::literals;  // "name"_a

namespace {

namespace binding = xstage::binding;
using xstage::Attention;
using xstage::InputError;
using xstage::PeerAccessHeap;
using xstage::attention::Destination;
using xstage::attention::Element;
using xstage::attention::Plan;
using xstage::attention::Problem;

template <typename Value, std::size_t count>
using Names = std::array<std::pair<std::string_view, Value>, count>;

constexpr Names<Element, 2> elements{{{"bf16", Element::bf16}, {"fp16", Element::fp16}}};
constexpr Names<Destination, 3> destinations{
    {{"local", Destination::local}, {"to_owners", Destination::to_owners}, {"twin", Destination::twin}}};

template <typename Value, std::size_t count>
Value parse(std::string_view of, std::string_view text, const Names<Value, count>& names) {
  std::string known;
  for (const auto& [name, value] : names) {
    if (name == text) {
      return value;
    }
    known += (known.empty() ? "'" : ", '") + std::string(name) + "'";
  }
  throw InputError(std::string(of) + " is '" + std::string(text) + "': it must be one of " + known);
}

template <typename Value, std::size_t count>
std::string name_of(Value value, const Names<Value, count>& names) {
  for (const auto& [name, named] : names) {
    if (named == value) {
      return std::string(name);
    }
  }
  return "unknown";
}

Attention make(PeerAccessHeap& heap, int rank, const Problem& problem, std::int64_t time_out_ms,
               const std::optional<Plan>& plan) {
  xstage::HeapRank& own = heap.rank(rank);
  const auto time_out = binding::checked_time_out(time_out_ms);
  return {own, problem,
          plan.has_value()
              ? *plan
              : xstage::attention::make_plan(problem, heap.world(), binding::multiprocessors(own.device())),
          time_out};
}

void launch(Attention& attention, std::uintptr_t query, std::uintptr_t key, std::uintptr_t value, std::uintptr_t output,
            std::uintptr_t log_sum_exp, std::uintptr_t stream, bool sent) {
  xstage::attention::Operands operands;
  operands.query = reinterpret_cast<const void*>(query);
  operands.key = reinterpret_cast<const void*>(key);
  operands.value = reinterpret_cast<const void*>(value);
  operands.output = reinterpret_cast<void*>(output);
  operands.log_sum_exp = reinterpret_cast<float*>(log_sum_exp);
  attention.launch(operands, reinterpret_cast<CUstream_st*>(stream),
                   sent ? xstage::Completion::sent : xstage::Completion::arrived);
}

void await_arrival(const Attention& attention, std::uintptr_t stream) {
  attention.await_arrival(reinterpret_cast<CUstream_st*>(stream));
}

void bind_problem(nb::module_& module) {
  nb::class_<Problem>(module, "AttentionProblem",
                      "What is computed, the same on every rank; heads are of all ranks together.")
      .def(
          "__init__",
          [](Problem* self, std::int64_t sequences, std::int64_t rows, std::optional<std::int64_t> keys, int heads,
             std::optional<int> kv_heads, int head_dim, bool causal, const std::string& dtype, float scale,
             const std::string& destination) {
            new (self) Problem{sequences,
                               rows,
                               keys.value_or(rows),
                               heads,
                               kv_heads.value_or(heads),
                               head_dim,
                               causal,
                               parse("dtype", dtype, elements),
                               scale,
                               parse("destination", destination, destinations)};
          },
          nb::kw_only(), "sequences"_a = 1, "rows"_a, "keys"_a = nb::none(), "heads"_a, "kv_heads"_a = nb::none(),
          "head_dim"_a = 128, "causal"_a = false, "dtype"_a = "bf16", "scale"_a = 0.0F, "destination"_a = "local")
      .def_ro("sequences", &Problem::sequences)
      .def_ro("rows", &Problem::rows)
      .def_ro("keys", &Problem::keys)
      .def_ro("heads", &Problem::heads)
      .def_ro("kv_heads", &Problem::kv_heads)
      .def_ro("head_dim", &Problem::head_dim)
      .def_ro("causal", &Problem::causal)
      .def_prop_ro("dtype", [](const Problem& problem) { return name_of(problem.element, elements); })
      .def_ro("scale", &Problem::scale)
      .def_prop_ro("destination", [](const Problem& problem) { return name_of(problem.destination, destinations); });
}

void bind_plan(nb::module_& module) {
  nb::class_<Plan> plan(module, "AttentionPlan",
                        "The numbers that a kernel is launched with; see xstage/attention.hpp.");
  binding::bind_plan_fields(plan, xstage::attention::plan_fields());
  module.def("make_attention_plan", &xstage::attention::make_plan, "problem"_a, "world"_a, "multiprocessors"_a);
  module.def("attention_heap_bytes", &xstage::attention::heap_bytes, "problem"_a, "world"_a,
             "Bytes of each rank's heap that one Attention takes.");
  module.def(
      "attention_row_range",
      [](std::int64_t rows, int rank, int world) {
        const xstage::attention::RowRange range = xstage::attention::row_range(rows, rank, world);
        return std::make_pair(range.begin, range.count);
      },
      "rows"_a, "rank"_a, "world"_a, "First row of each sequence that a rank owns, and how many.");
}

void bind_operation(nb::module_& module) {
  // Whatever may wait for a GPU lets other Python threads run.
  using Released = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<Attention>(module, "Attention", "One rank's attention, in device addresses.")
      .def(
          "__init__",
          [](Attention* self, PeerAccessHeap& heap, int rank, const Problem& problem, std::int64_t time_out_ms,
             const std::optional<Plan>& plan) { new (self) Attention(make(heap, rank, problem, time_out_ms, plan)); },
          "heap"_a, "rank"_a, "problem"_a, "time_out_ms"_a = 10'000, "plan"_a = nb::none(), nb::keep_alive<1, 2>())
      .def("launch", &launch, "query_pointer"_a, "key_pointer"_a, "value_pointer"_a, "output_pointer"_a,
           "log_sum_exp_pointer"_a, "stream_pointer"_a, "sent"_a = false, Released(),
           "A pointer that is not needed is 0.")
      .def("await_arrival", &await_arrival, "stream_pointer"_a, Released())
      .def(
          "output_pointer",
          [](const Attention& attention) { return reinterpret_cast<std::uintptr_t>(attention.output()); },
          "Of the result in the symmetric heap; 0 if this rank owns no row.")
      .def_prop_ro("problem", &Attention::problem, nb::rv_policy::copy)
      .def_prop_ro("plan", &Attention::plan, nb::rv_policy::copy)
      .def_prop_ro("issuers", &Attention::issuers)
      .def("check", &Attention::check)
      .def_static(
          "reset",
          [](const std::vector<Attention*>& ranks) {
            binding::require_no_none(ranks);
            Attention::reset(ranks);
          },
          "ranks"_a, Released());
}

}  // namespace

void xstage::binding::bind_attention(nb::module_& module) {
  bind_problem(module);
  bind_plan(module);
  bind_operation(module);
}
