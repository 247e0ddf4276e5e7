#pragma once
/// A bundle of equal links in one direction; packets are sprayed over them in turn.

#include <algorithm>
#include <vector>

#include "node/simulated/time.hpp"

namespace xstage::simulated {

class Links {
 public:
  explicit Links(int count) : free_at_(static_cast<std::size_t>(count)) {}

  /// Sends a packet that is there at `time` and takes `duration` on its link; returns when it is through.
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

/// The queue in front of a bundle: a packet is taken only if there is a place, which the packet so many places ahead of
/// it frees when it starts on its link.
class FabricQueue {
 public:
  explicit FabricQueue(int packets) : started_at_(static_cast<std::size_t>(packets)) {}

  /// When the next packet can be taken.
  [[nodiscard]] Picoseconds ready_at() const { return started_at_[next_]; }

  void put(Picoseconds starts_at) {
    started_at_[next_] = starts_at;
    next_ = next_ + 1 == started_at_.size() ? 0 : next_ + 1;
  }

 private:
  std::vector<Picoseconds> started_at_;
  std::size_t next_ = 0;
};

/// Credits of one source towards one destination: so many packets sent and not acknowledged.
class FabricCredits {
 public:
  explicit FabricCredits(int packets) : acknowledged_at_(static_cast<std::size_t>(packets)) {}

  /// When the next packet has a credit.
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
