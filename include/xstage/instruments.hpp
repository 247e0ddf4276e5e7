#pragma once
// Spans and delays of a kernel, for tests and `xstage bench`; see xstage/trace.hpp.

#include <cstdint>

namespace xstage {

/// Argument of an operation's `instrument`. A default-constructed one switches spans and delays off.
struct Instruments {
  void* spans = nullptr;  // device memory of the rank: [issuers, 6 roles, spans_each] records, zeroed; null: none
  int spans_each = 0;     // records for each CTA and role; further ones are dropped
  std::uint32_t longest_delay_ns = 0;  // longest sleep at a signal, wait or store; 0: none
  std::uint32_t delay_seed = 0;
};

}  // namespace xstage
