#pragma once
// What one launch of the attention kernel knows. Plain data, copied into the launch.

#include <cuda.h>

#include <cstdint>

#include "schedule/attention_schedule.hpp"
#include "xstage/peer_view.hpp"

namespace xstage::kernels {

struct AttentionLaunch {
  CUtensorMap query;
  CUtensorMap key;
  CUtensorMap value;
  CUtensorMap output[max_world];
  schedule::AttentionSchedule schedule;
  std::int32_t cluster_size;  // CTAs that share keys and values: 1 or 2 neighbouring row tiles
  float scale_log2;  // of the scores, times log2(e): exponentials are powers of two
  float* log_sum_exp;           // [sequences, heads, rows], null: not wanted
  std::int32_t destinations;    // ranks that rows of the output belong to
  std::int32_t first_head;      // of the output
  std::int32_t row_begin[max_world + 1];  // rows [row_begin[d], row_begin[d + 1]) belong to destination d
};

}  // namespace xstage::kernels
