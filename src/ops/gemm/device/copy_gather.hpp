#pragma once
// All-gather by copy engine: the own shard goes to every peer in chunks, each followed by its flag, on a second stream.
//
//   stream       gate --+-------------- GEMM kernel (waits for flags) --+--
//                       |                                               |
//   second stream       +-- chunk, flag, chunk, flag, ..., "sent" ------+
//
// The gate is one thread that waits until no peer reads the gathered operand of the call before; it runs before the
// GEMM, because afterwards no multiprocessor is free. Flags are copies of the device's epoch word: a value passed by
// argument would be frozen in a CUDA graph (design rule 8). The GEMM kernel ends only when its own transfers have left,
// since it then changes that word.
//
// Nothing holds the copies back when the gate has given up: they overwrite what a late peer may still read in the call
// before. The gate has told all ranks first, and each CTA of this kernel looks when its loads have come: whoever may
// have read overwritten rows says that the call is void.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "ops/gemm/device/parameters.hpp"
#include "xstage/peer_view.hpp"

namespace xstage::kernels {

/// What is copied, in elements of bf16.
struct CopyGatherShape {
  std::int64_t rows;       // of the own shard
  std::int64_t first_row;  // of it in the gathered operand
  std::int64_t depth;
  GatherParameters chunks;
};

class CopyGather {
 public:
  CopyGather(int device, const CopyGatherShape& shape, const PeerView& gathered, const CallParameters& call);
  CopyGather(const CopyGather&) = delete;
  CopyGather& operator=(const CopyGather&) = delete;
  ~CopyGather();

  /// Enqueues gate and copies; the GEMM kernel comes next on `stream`, then `join`.
  void start(const GemmLaunch& launch, const void* shard, cudaStream_t stream);

  /// What follows on `stream` starts when the copies have ended.
  void join(cudaStream_t stream);

 private:
  void copy_chunk(const void* shard, int row_chunk, int depth_chunk);
  void copy_word(std::uint32_t* to);

  int device_;
  CopyGatherShape shape_;
  PeerView gathered_;
  CallParameters call_;
  cudaStream_t copies_ = nullptr;
  cudaEvent_t gate_passed_ = nullptr;
  cudaEvent_t copies_done_ = nullptr;
};

/// One thread: tells the peers that this rank has entered the call, waits until they have.
void launch_gate(const GemmLaunch& launch, cudaStream_t stream);

}  // namespace xstage::kernels
