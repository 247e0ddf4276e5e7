#pragma once
// What a kernel knows of a call that all ranks make together. Plain data, shared by kernels and host.

#include <cstdint>

#include "fabric/wait_report.hpp"
#include "xstage/peer_view.hpp"

namespace xstage::kernels {

/// Words of one rank's signal pad; all counters of peers stand 128 bytes apart.
struct CallPad {
  static constexpr std::uint32_t line = 32;                        // words
  static constexpr std::uint32_t entered = 0;                      // [rank]: the call that the rank has entered
  static constexpr std::uint32_t done = max_world * line;          // [rank]: its warps that have finished storing
  static constexpr std::uint32_t abort = 2 * max_world * line;     // set by whoever gave up
  static constexpr std::uint32_t sent = abort + line;              // copy engine: own transfers have left
  static constexpr std::uint32_t epochs = sent + line;             // [CTA]: number of the call that comes next
  static constexpr std::uint32_t most_blocks = 512;                // CTAs of one rank
  static constexpr std::uint32_t arrivals = epochs + most_blocks;  // from here: what has arrived, see the operation
};

struct CallParameters {
  std::uint32_t* signals[max_world];  // signal pad of every rank
  WaitReport* report;                 // pinned host memory
  std::uint64_t time_out_ns;
  std::int32_t rank;
  std::int32_t world;  // 1: the call knows of no peer, and none of this is used
};

}  // namespace xstage::kernels
