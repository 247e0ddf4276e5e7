#pragma once
// What host and kernel agree on. Knows no CUDA, and nothing that nvcc would have to read for it.

namespace xstage::all_to_all {

inline constexpr int most_stages = 16;  // of a CTA's ring
/// Chunks that a CTA stores at once; while they leave, the others are loaded.
inline constexpr int stores_under_way = 2;

}  // namespace xstage::all_to_all
