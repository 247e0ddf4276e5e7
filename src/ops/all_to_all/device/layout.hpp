#pragma once
// Constants that host and kernel share. Includes nothing, so that nvcc reads nothing else for it.

namespace xstage::all_to_all {

inline constexpr int most_stages = 16;  // of a CTA's ring
/// Chunks of a CTA whose stores are in flight; meanwhile the other stages are loaded.
inline constexpr int stores_under_way = 2;

}  // namespace xstage::all_to_all
