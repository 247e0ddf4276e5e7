#pragma once
/// Which samples a fit looks at, and the quantities that it reads off one.

#include <tuple>
#include <vector>

#include "xstage/files.hpp"
#include "xstage/node.hpp"

namespace xstage::calibrate {

using Rows = std::vector<const BurstSample*>;

/// V = K*B, bytes.
[[nodiscard]] double volume_bytes(const BurstSample& sample);

/// Bytes over the common window where the node measured one, otherwise V over the period. NaN if neither is there.
/// Averaging the producers' own windows instead would overstate R, since arbitration between SMs is unfair.
[[nodiscard]] double rate_gb_per_s(const BurstSample& sample);

/// An ordered pair of devices.
struct DevicePair {
  int source = 0;
  int destination = 0;
  bool operator==(const DevicePair&) const = default;
  bool operator<(const DevicePair& other) const {
    return std::tie(source, destination) < std::tie(other.source, other.destination);
  }
};

/// Rows that a fit may use: not held out, remote, one way to one destination, gap spent spinning. Both directions,
/// several destinations and filled gaps are measured to be looked at; the profile describes the plain case.
[[nodiscard]] Rows plain_rows(const SamplesFile& samples);

/// The pair with the most plain rows (the lowest one on a tie): the one that the profile's paths describe.
[[nodiscard]] DevicePair reference_pair(const Rows& plain);

/// Plain rows of one pair.
[[nodiscard]] Rows rows_of_pair(const Rows& plain, const DevicePair& pair);

/// Rows of one path with the path's most frequent number of threads (the lowest one on a tie): mixing thread counts
/// would mix issue floors.
[[nodiscard]] Rows rows_of_path(const Rows& rows, StorePath path);

/// Free-running periodic bursts for which no gap was asked: what saturates, if anything does.
[[nodiscard]] Rows zero_gap_rows(const Rows& rows);

}  // namespace xstage::calibrate
