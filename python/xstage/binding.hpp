#pragma once
// What the bindings of the operations have in common.

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "xstage/error.hpp"

namespace xstage::binding {

/// One function an operation; each adds its own classes to the module.
void bind_gemm(nanobind::module_& module);
void bind_attention(nanobind::module_& module);
void bind_moe(nanobind::module_& module);

[[nodiscard]] int multiprocessors(int device);

/// InputError outside of 1 ms to an hour.
[[nodiscard]] std::chrono::milliseconds checked_time_out(std::int64_t milliseconds);

/// Python's None arrives as a null pointer.
template <typename Operation>
void require_no_none(const std::vector<Operation*>& ranks) {
  if (std::find(ranks.begin(), ranks.end(), nullptr) != ranks.end()) {
    throw InputError("reset takes the operations of all ranks: one of them is None");
  }
}

}  // namespace xstage::binding
