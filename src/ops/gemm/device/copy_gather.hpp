#pragma once
// All-gather by copy engine: this rank's shard is copied to every peer in chunks, each followed by its flag, on a
// second stream.
//
//   stream       gate --+-------------- GEMM kernel (waits for flags) --+--
//                       |                                               |
//   second stream       +-- chunk, flag, chunk, flag, ..., "sent" ------+
//
// The gate is one thread that waits until no peer reads the gathered operand of the previous call. It runs before the
// GEMM, because afterwards no multiprocessor is free. Flags are copies of the device's epoch word: a value passed by
// argument would be frozen in a CUDA graph (design rule 8). The GEMM kernel ends only when this rank's own transfers
// have been performed, since it then changes that word.
//
// If the gate gives up, nothing stops the copies: they overwrite rows that a late peer may still read in the previous
// call. The gate has signalled the abort to all ranks before, and each CTA of the GEMM kernel polls the abort word when
// its loads have arrived: a rank that may have read overwritten rows reports its call as void.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "ops/gemm/device/parameters.hpp"
#include "xstage/peer_view.hpp"

namespace xstage::kernels {

/// The copied matrix, in elements of bf16.
struct CopyGatherShape {
  std::int64_t rows;       // rows of this rank's shard
  std::int64_t first_row;  // first row of the shard in the gathered operand
  std::int64_t depth;
  GatherParameters chunks;
};

class CopyGather {
 public:
  CopyGather(int device, const CopyGatherShape& shape, const PeerView& gathered, const CallParameters& call);
  CopyGather(const CopyGather&) = delete;
  CopyGather& operator=(const CopyGather&) = delete;
  ~CopyGather();

  /// Enqueues gate and copies. The caller then enqueues the GEMM kernel on `stream` and calls `join`.
  void start(const GemmLaunch& launch, const void* shard, cudaStream_t stream);

  /// Makes later work on `stream` wait until the copies have ended.
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

/// Launches the gate, one thread: it signals the peers that this rank has entered the call, and waits until they have.
void launch_gate(const GemmLaunch& launch, cudaStream_t stream);

}  // namespace xstage::kernels
