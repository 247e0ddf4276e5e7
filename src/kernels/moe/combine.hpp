#pragma once
// The compiled combine kernels and their launch.

#include <cuda_runtime_api.h>

#include "kernels/moe/moe_exchange_parameters.hpp"

namespace xstage::kernels {

/// Numbers of a combine; 0: by rule. The same on every rank.
struct CombineTuning {
  int senders = 0;        // warps of a CTA
  int stages = 0;         // of each sender's ring, more than under_way
  int piece_bytes = 0;    // of a row, at most; a multiple of 16
  int groups = 0;         // of the warps that add
  int under_way = 0;      // pieces that a warp stores at a time, 1 to most_moe_stores_under_way
  int told_together = 0;  // tokens of a CTA that share a fence
  int sender_groups = 0;  // of the warps that send partial sums
};

/// Fills in warps and rings: as much of what is asked for as shared memory holds. `launch.exchange` is complete.
void plan_combine(CombineLaunch& launch, const CombineTuning& tuning = {});

/// Bytes of shared memory of a CTA of that launch.
[[nodiscard]] int combine_shared_bytes(const CombineLaunch& launch);

/// Loads the kernels on the current device. A first launch would load them while another rank's kernel may already wait
/// for this one, and loading may wait for the device.
void load_combine();

/// Enqueues on the current device. All CTAs must fit on it at once. Throws DeviceError.
void launch_combine(const CombineLaunch& launch, int blocks, cudaStream_t stream);

/// All virtual ranks of the current device in one cooperative launch; `launches` lie in its memory, `first` is the
/// host's copy of the first of them; all have as many CTAs, warps and stages.
void launch_virtual_combine(const CombineLaunch* launches, const CombineLaunch& first, int ranks, int blocks,
                            cudaStream_t stream);

}  // namespace xstage::kernels
