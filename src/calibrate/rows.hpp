#pragma once
/// Selects the samples that a fit uses, and computes the quantities that it takes from one.

#include <tuple>
#include <vector>

#include "xstage/files.hpp"
#include "xstage/node.hpp"

namespace xstage::calibrate {

using Rows = std::vector<const BurstSample*>;

/// V = K*B, bytes.
[[nodiscard]] double volume_bytes(const BurstSample& sample);

/// Drain rate: bytes over the common window if the node measured one, otherwise V over the period. NaN if neither
/// exists. An average over the producers' own windows would overstate R, since arbitration between SMs is unfair.
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

/// Rows that a fit may use: not held out, remote, one way to one destination, with a gap spent spinning. Both
/// directions, several destinations and filled gaps are measured for inspection only; the profile describes the plain
/// case.
[[nodiscard]] Rows plain_rows(const SamplesFile& samples);

/// The pair with the most plain rows, which the profile's paths describe; the lowest one on a tie.
[[nodiscard]] DevicePair reference_pair(const Rows& plain);

/// Plain rows of one pair.
[[nodiscard]] Rows rows_of_pair(const Rows& plain, const DevicePair& pair);

/// Rows of one path with the path's most frequent number of threads (the lowest one on a tie): mixing thread counts
/// would mix issue floors.
[[nodiscard]] Rows rows_of_path(const Rows& rows, StorePath path);

/// Free-running periodic bursts without a requested gap, which saturate the drain if anything does.
[[nodiscard]] Rows zero_gap_rows(const Rows& rows);

}  // namespace xstage::calibrate
