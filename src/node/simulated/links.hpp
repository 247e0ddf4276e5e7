#pragma once
/// A bundle of equal links in one direction; packets are sprayed over them in turn.

#include <algorithm>
#include <vector>

#include "node/simulated/time.hpp"

namespace xstage::simulated {

class Links {
 public:
  explicit Links(int count) : free_at_(static_cast<std::size_t>(count)) {}

  /// Sends a packet that is ready at `time` and takes `duration` on its link. Returns the time at which it has left the
  /// link.
  Picoseconds send(Picoseconds time, Picoseconds duration) {
    Picoseconds& link = free_at_[next_];
    link = std::max(link, time) + duration;
    const Picoseconds done = link;
    next_ = next_ + 1 == free_at_.size() ? 0 : next_ + 1;
    return done;
  }

 private:
  std::vector<Picoseconds> free_at_;
  std::size_t next_ = 0;
};

/// The queue in front of a bundle of links. It accepts a packet only if it has a free place; a packet frees its place
/// when it starts on its link.
class FabricQueue {
 public:
  explicit FabricQueue(int packets) : started_at_(static_cast<std::size_t>(packets)) {}

  /// Time at which the next packet can be accepted.
  [[nodiscard]] Picoseconds ready_at() const { return started_at_[next_]; }

  void put(Picoseconds starts_at) {
    started_at_[next_] = starts_at;
    next_ = next_ + 1 == started_at_.size() ? 0 : next_ + 1;
  }

 private:
  std::vector<Picoseconds> started_at_;
  std::size_t next_ = 0;
};

/// Credits of one source towards one destination: the number of packets that may be sent and not acknowledged.
class FabricCredits {
 public:
  explicit FabricCredits(int packets) : acknowledged_at_(static_cast<std::size_t>(packets)) {}

  /// Time at which the next packet has a credit.
  [[nodiscard]] Picoseconds ready_at() const { return acknowledged_at_[next_]; }

  void spend(Picoseconds acknowledged_at) {
    acknowledged_at_[next_] = acknowledged_at;
    next_ = next_ + 1 == acknowledged_at_.size() ? 0 : next_ + 1;
  }

 private:
  std::vector<Picoseconds> acknowledged_at_;
  std::size_t next_ = 0;
};

}  // namespace xstage::simulated
