#pragma once
/// SMs whose next packet is not ready yet, ordered by the time at which it will be.

#include <cstddef>
#include <queue>
#include <vector>

#include "node/simulated/time.hpp"

namespace xstage::simulated {

class WakeQueue {
 public:
  /// `capacity`: each SM waits at most once.
  explicit WakeQueue(std::size_t capacity) : ring_(capacity + 1) {}

  void push(Picoseconds time, int multiprocessor) { heap_.push({time, multiprocessor}); }

  /// As push, for times that never decrease from call to call (a fixed delay after now), which need no heap.
  void push_in_order(Picoseconds time, int multiprocessor) {
    ring_[end_] = {time, multiprocessor};
    end_ = after(end_);
  }

  [[nodiscard]] Picoseconds next_time() const {
    const Picoseconds ordered = begin_ == end_ ? never : ring_[begin_].time;
    const Picoseconds other = heap_.empty() ? never : heap_.top().time;
    return ordered < other ? ordered : other;
  }

  /// Calls wake(multiprocessor) for all that are due.
  template <typename Wake>
  void pop_due(Picoseconds now, Wake wake) {
    while (begin_ != end_ && ring_[begin_].time <= now) {
      wake(ring_[begin_].multiprocessor);
      begin_ = after(begin_);
    }
    while (!heap_.empty() && heap_.top().time <= now) {
      wake(heap_.top().multiprocessor);
      heap_.pop();
    }
  }

 private:
  struct Entry {
    Picoseconds time;
    int multiprocessor;
    bool operator>(const Entry& other) const { return time > other.time; }
  };

  [[nodiscard]] std::size_t after(std::size_t index) const { return index + 1 == ring_.size() ? 0 : index + 1; }

  std::vector<Entry> ring_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

}  // namespace xstage::simulated
