#pragma once
/// What a kernel sees of a symmetric buffer. It is plain data that is passed to a launch by value. How the memory was
/// mapped is known only to the heap that made the view (symmetric_heap.hpp), so a kernel runs unchanged on every heap.
///
///     PeerView of rank 1, world 3            device of rank 0   device of rank 1   device of rank 2
///     base[0] ────────────────────────────►  | copy of rank 0 |
///     base[1] ─────────────────────────────────────────────────► | own copy     |
///     base[2] ────────────────────────────────────────────────────────────────────►  | copy of rank 2 |

#include <cstdint>

namespace xstage {

/// Most ranks that a heap may have.
inline constexpr int max_world = 8;

/// One buffer (or the whole heap) that exists once on every rank, as the device of `rank` addresses it.
struct PeerView {
  std::int32_t rank;
  std::int32_t world;
  /// base[r] addresses rank r's copy, and base[rank] this rank's own. It is null for r >= world, and for ranks whose
  /// memory this device cannot address (never with PeerAccessHeap).
  char* base[max_world];
};

}  // namespace xstage
