#pragma once
// What lets one rank of a fused GEMM run without peers: the speed that no communication can beat (design rule 7).

#include "xstage/gemm.hpp"

namespace xstage::bench {

/// Raises every flag that the rank would wait for, far beyond any epoch that a benchmark reaches, and fills what its
/// peers would send with random numbers. `gemm` is the first operation in its heap; nothing of it may be running.
void stand_in_for_peers(const HeapRank& heap, const Gemm& gemm);

}  // namespace xstage::bench
