#pragma once
// Parameters of a call that all ranks make together. Plain data, shared by kernels and host.

#include <cstdint>

#include "fabric/wait_report.hpp"
#include "xstage/peer_view.hpp"

namespace xstage::kernels {

/// Layout of one rank's signal pad, in words. Counters that peers write are 128 bytes apart.
struct CallPad {
  static constexpr std::uint32_t line = 32;                // words in 128 bytes
  static constexpr std::uint32_t entered = 0;              // [rank]: number of the last call that the rank has entered
  static constexpr std::uint32_t done = max_world * line;  // [rank]: count of its warps that have finished storing
  static constexpr std::uint32_t abort = 2 * max_world * line;  // set by a wait that gave up
  static constexpr std::uint32_t sent = abort + line;   // copy engine: this rank's transfers have been performed
  static constexpr std::uint32_t epochs = sent + line;  // [CTA]: number of the next call
  static constexpr std::uint32_t most_blocks = 512;     // CTAs of one rank
  static constexpr std::uint32_t arrivals = epochs + most_blocks;  // first arrival flag; each operation defines its own
};

struct CallParameters {
  std::uint32_t* signals[max_world];  // signal pad of every rank
  WaitReport* report;                 // pinned host memory
  std::uint64_t time_out_ns;
  std::int32_t rank;
  std::int32_t world;  // 1: there is no peer, and nothing else here is used
};

}  // namespace xstage::kernels
