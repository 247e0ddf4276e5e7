// xstage._core: operations for a framework, in addresses and numbers. No framework is linked or included; what a tensor
// is, and whether it fits, is the business of the Python side (__init__.py).

#include <cuda_runtime_api.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <string>
#include <vector>

#include "binding.hpp"
#include "device/device_memory.hpp"
#include "xstage/error.hpp"
#include "xstage/symmetric_heap.hpp"

namespace nb = nanobind;
using namespace nanobind::literals;  // "name"_a

namespace xstage::binding {

int multiprocessors(int device) {
  int count = 0;
  cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
              "asking for the multiprocessors of GPU " + std::to_string(device));
  return count;
}

std::chrono::milliseconds checked_time_out(std::int64_t milliseconds) {
  constexpr std::int64_t most = 3'600'000;
  if (milliseconds < 1 || milliseconds > most) {
    throw InputError("time_out_ms is " + std::to_string(milliseconds) + ": it must be between 1 and " +
                     std::to_string(most));
  }
  return std::chrono::milliseconds(milliseconds);
}

}  // namespace xstage::binding

namespace {

using xstage::InputError;
using xstage::PeerAccessHeap;

/// DeviceError is a std::runtime_error, which becomes a RuntimeError without help.
void translate_input_error(const std::exception_ptr& pointer, void* /*unused*/) {
  try {
    std::rethrow_exception(pointer);
  } catch (const InputError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  }
}

void bind_heap(nb::module_& module) {
  nb::class_<PeerAccessHeap>(module, "PeerAccessHeap",
                             "Symmetric memory of GPUs that this process drives, one rank a device.")
      .def(
          "__init__",
          [](PeerAccessHeap* self, const std::vector<int>& devices, std::size_t bytes_per_rank) {
            new (self) PeerAccessHeap(PeerAccessHeap::create(devices, bytes_per_rank));
          },
          "devices"_a, "bytes_per_rank"_a)
      .def_prop_ro("world", &PeerAccessHeap::world)
      .def(
          "device", [](PeerAccessHeap& heap, int rank) { return heap.rank(rank).device(); }, "rank"_a);
}

}  // namespace

NB_MODULE(_core, module) {
  nb::register_exception_translator(translate_input_error);
  bind_heap(module);
  xstage::binding::bind_gemm(module);
  xstage::binding::bind_attention(module);
  xstage::binding::bind_moe(module);
}
