#pragma once
// Compares the clocks of all ranks with that of rank 0.

#include <cstdint>
#include <map>
#include <vector>

#include "device/device_memory.hpp"
#include "report/clock.hpp"
#include "xstage/symmetric_heap.hpp"
#include "xstage/trace.hpp"

namespace xstage::trace {

class ClockAlignment {
 public:
  /// Collective over `ranks`. Allocates one word of the heap on each.
  explicit ClockAlignment(std::vector<HeapRank*> ranks);
  ClockAlignment(const ClockAlignment&) = delete;
  ClockAlignment& operator=(const ClockAlignment&) = delete;
  ~ClockAlignment();

  /// Clocks as [rank]. Ranks on the same GPU share its clock, so virtual ranks have offset 0. The GPUs must be idle.
  [[nodiscard]] std::vector<RankClock> measure();

 private:
  [[nodiscard]] ClockOffset compare_with_first(HeapRank& rank);
  void check_completed(std::uint32_t completed, int device) const;

  std::vector<HeapRank*> ranks_;
  std::vector<SymmetricBuffer> inboxes_;    // [rank]; all the same offset
  std::map<int, cuda::DeviceBuffer> logs_;  // by device
  std::map<int, cuda::Stream> streams_;     // by device
  std::uint32_t messages_ = 0;              // messages sent so far
};

}  // namespace xstage::trace
