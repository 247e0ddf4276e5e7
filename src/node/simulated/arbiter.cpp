#include "node/simulated/arbiter.hpp"

namespace xstage::simulated {
namespace {

/// The first set bit after `last`, cyclically. Requires mask != 0.
int next_set_bit(std::uint64_t mask, int last) {
  const int start = (last + 1) & 63;
  return (std::countr_zero(std::rotr(mask, start)) + start) & 63;
}

}  // namespace

Arbiter::Arbiter(const std::vector<std::vector<int>>& multiprocessors, int grant_packets)
    : grant_packets_(grant_packets) {
  int next_multiprocessor = 0;
  for (const std::vector<int>& sizes : multiprocessors) {
    Cluster cluster;
    for (const int size : sizes) {
      Group group;
      group.first_multiprocessor = next_multiprocessor;
      for (int i = 0; i < size; ++i) {
        places_.push_back({static_cast<std::uint32_t>(clusters_.size()),
                           static_cast<std::uint32_t>(cluster.groups.size()), std::uint64_t{1} << i});
      }
      next_multiprocessor += size;
      cluster.groups.push_back(group);
    }
    clusters_.push_back(std::move(cluster));
  }
}

int Arbiter::take() {
  last_cluster_ = next_set_bit(waiting_clusters_, last_cluster_);
  const int multiprocessor = take_from(clusters_[static_cast<std::size_t>(last_cluster_)]);
  remove(multiprocessor);
  return multiprocessor;
}

/// Takes from the SM that holds the grant if it waits. While that SM has no packet ready between two packets, another
/// SM may fill in.
int Arbiter::take_from(Cluster& cluster) {
  if (cluster.granted >= 0) {
    const Place& place = places_[static_cast<std::size_t>(cluster.granted)];
    if ((cluster.groups[place.group].waiting & place.bit) != 0) {
      const int multiprocessor = cluster.granted;
      if (--cluster.left_of_grant == 0) {
        cluster.granted = -1;
      }
      return multiprocessor;
    }
  }
  cluster.last_group = next_set_bit(cluster.waiting_groups, cluster.last_group);
  Group& group = cluster.groups[static_cast<std::size_t>(cluster.last_group)];
  group.last = next_set_bit(group.waiting, group.last);
  const int multiprocessor = group.first_multiprocessor + group.last;
  if (cluster.granted < 0 && grant_packets_ > 1) {
    cluster.granted = multiprocessor;
    cluster.left_of_grant = grant_packets_ - 1;
  }
  return multiprocessor;
}

void Arbiter::remove(int multiprocessor) {
  const Place& place = places_[static_cast<std::size_t>(multiprocessor)];
  Cluster& cluster = clusters_[place.cluster];
  Group& group = cluster.groups[place.group];
  group.waiting &= ~place.bit;
  if (group.waiting == 0) {
    cluster.waiting_groups &= ~(std::uint64_t{1} << place.group);
    if (cluster.waiting_groups == 0) {
      waiting_clusters_ &= ~(std::uint64_t{1} << place.cluster);
    }
  }
}

}  // namespace xstage::simulated
