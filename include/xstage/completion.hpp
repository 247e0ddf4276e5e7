#pragma once

namespace xstage {

/// The moment at which the kernel of a collective call ends on one rank.
enum class Completion {
  arrived,  // when everything that peers store here has arrived: later work in the stream may read it
  // When everything that this rank stores has been performed at its destination. The next kernel in the stream starts
  // without waiting for peers. A kernel that reads results waits for them first, by `await_arrival` or by polling
  // arrival counters.
  sent,
};

}  // namespace xstage
