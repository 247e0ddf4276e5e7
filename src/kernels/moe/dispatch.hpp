#pragma once
// The compiled dispatch kernels and their launch.

#include <cuda_runtime_api.h>

#include "kernels/moe/moe_exchange_parameters.hpp"

namespace xstage::kernels {

/// Numbers of a dispatch; 0: by rule. The same on every rank.
struct DispatchTuning {
  int senders = 0;         // warps of a CTA
  int copiers = 0;         // warps of a CTA
  int stages = 0;          // of each sender's ring, more than under_way
  int piece_bytes = 0;     // of a row, at most; a multiple of 16
  int under_way = 0;       // pieces that a warp stores at a time, 1 to most_moe_stores_under_way
  int told_together = 0;   // tokens of a CTA that share a fence
  int counted_by_all = 0;  // up to so many choices of a rank each CTA counts all of them; -1: never
};

/// Fills in warps and rings: as much of what is asked for as shared memory holds. `launch.exchange` is complete.
void plan_dispatch(DispatchLaunch& launch, const DispatchTuning& tuning = {});

/// Loads the kernels on the current device. A first launch would load them while another rank's kernel may already wait
/// for this one, and loading may wait for the device.
void load_dispatch();

/// Enqueues on the current device. All CTAs must fit on it at once. Throws DeviceError.
void launch_dispatch(const DispatchLaunch& launch, int blocks, cudaStream_t stream);

/// All virtual ranks of the current device in one cooperative launch; `launches` lie in its memory, `first` is the
/// host's copy of the first of them; all have as many CTAs, warps and stages.
void launch_virtual_dispatch(const DispatchLaunch* launches, const DispatchLaunch& first, int ranks, int blocks,
                             cudaStream_t stream);

}  // namespace xstage::kernels
