#pragma once
// Lets one rank of a fused GEMM run without peers: the speed that no communication can beat (design rule 7).

#include "xstage/gemm.hpp"

namespace xstage::bench {

/// Raises every flag that the rank would wait for, far beyond any epoch that a benchmark reaches, and fills the slots
/// of its peers with random numbers. `gemm` is the first operation in its heap, and no kernel of it may be running.
void stand_in_for_peers(const HeapRank& heap, const Gemm& gemm);

}  // namespace xstage::bench
