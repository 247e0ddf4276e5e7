#pragma once
// Parameters of one launch of the all-to-all kernel. Plain data, copied into the launch.

#include <cuda.h>

#include <cstdint>

#include "fabric/call_parameters.hpp"
#include "ops/all_to_all/schedule.hpp"
#include "xstage/peer_view.hpp"

namespace xstage::kernels {

struct AllToAllLaunch {
  CUtensorMap output[max_world];  // the result of each rank as chunk_map sees it; only where `boxes` is 1
  schedule::AllToAllSchedule schedule;
  CallParameters call;
  const char* input;
  char* target[max_world];  // first row of the result of each rank, at the first head of this one
  std::int32_t stages;
  std::int32_t stage_bytes;
  std::int32_t boxes;  // 1: a tensor store for each chunk, 0: a bulk store for each row
};

// Parameters beyond this size make each launch slower.
static_assert(sizeof(AllToAllLaunch) <= 4096);

}  // namespace xstage::kernels
