#pragma once

namespace xstage {

/// When the kernel of a call that all ranks make together ends.
enum class Completion {
  arrived,  // when all that peers store on this rank has arrived: whatever comes next in the stream may read it
  // When all that this rank stores has been performed. The next kernel begins without waiting for peers; one that reads
  // results waits for them first, by `await_arrival` or by counters of arrivals.
  sent,
};

}  // namespace xstage
