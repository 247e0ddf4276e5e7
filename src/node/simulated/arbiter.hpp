#pragma once
/// Chooses the SM that sends next: round-robin over the GPCs for every packet, and inside a GPC round-robin over its
/// CPCs and their SMs for every grant. A small CPC therefore serves its SMs more often, and the SMs of a GPC finish a
/// burst one after the other: this causes unfairness and dispersion.

#include <bit>
#include <cstdint>
#include <vector>

namespace xstage::simulated {

class Arbiter {
 public:
  /// At most 64 GPCs, 64 CPCs a GPC and 64 SMs a CPC. `grant_packets` >= 1.
  Arbiter(const std::vector<std::vector<int>>& multiprocessors, int grant_packets);

  [[nodiscard]] bool empty() const { return waiting_clusters_ == 0; }

  /// Adds an SM that has a packet to send.
  void add(int multiprocessor) {
    const Place& place = places_[static_cast<std::size_t>(multiprocessor)];
    Cluster& cluster = clusters_[place.cluster];
    cluster.groups[place.group].waiting |= place.bit;
    cluster.waiting_groups |= std::uint64_t{1} << place.group;
    waiting_clusters_ |= std::uint64_t{1} << place.cluster;
  }

  /// Chooses an SM and removes it until it is added again. Requires !empty().
  int take();

  /// Ends the grant of an SM that has nothing more to send soon.
  void end_grant(int multiprocessor) {
    Cluster& cluster = clusters_[places_[static_cast<std::size_t>(multiprocessor)].cluster];
    if (cluster.granted == multiprocessor) {
      cluster.granted = -1;
    }
  }

 private:
  struct Place {
    std::uint32_t cluster;
    std::uint32_t group;
    std::uint64_t bit;
  };
  struct Group {  // a CPC
    std::uint64_t waiting = 0;
    int last = 63;
    int first_multiprocessor = 0;
  };
  struct Cluster {  // a GPC
    std::uint64_t waiting_groups = 0;
    int last_group = 63;
    int granted = -1;
    int left_of_grant = 0;
    std::vector<Group> groups;
  };

  int take_from(Cluster& cluster);
  void remove(int multiprocessor);

  std::vector<Place> places_;
  std::vector<Cluster> clusters_;
  std::uint64_t waiting_clusters_ = 0;
  int last_cluster_ = 63;
  int grant_packets_;
};

}  // namespace xstage::simulated
