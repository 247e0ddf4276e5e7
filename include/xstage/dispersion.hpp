#pragma once
/// Producers that do not share the drain evenly: an extension of the backlog recursion, not in the paper.
///
/// Arbitration between SMs is unfair (on H200 the favoured half of the SMs drains some 40% faster than the other half).
/// The recursion of model.hpp lets back-pressure set in when the X-Stage of the whole GPU is full; in a train that
/// builds its backlog slowly, the disfavoured producers' part is full several bursts earlier. Here the producers are
/// two halves, each with half of the capacity, that drain in the ratio (1 + unevenness) : (1 - unevenness) while both
/// have a backlog; a half without backlog leaves its share to the other. With unevenness 0 this is the recursion again.

#include <span>

#include "xstage/model.hpp"

namespace xstage::model {

/// Fills `issue_us` with the issue times of a train of bursts, each the mean of the two halves, in microseconds. The
/// train starts with an empty X-Stage and aligned producers, after which each half follows its own clock. `gap_us[n]`
/// is the gap before burst n in microseconds; gap_us[0] is not used. Both spans have the same length. Requires 0 <=
/// unevenness < 1, an issue floor > 0, and a finite capacity > 0. The fluid model is solved exactly, from event to
/// event, without a time step. Allocates nothing.
void uneven_train_issue_us(const OperatingPoint& point, double unevenness, std::span<const double> gap_us,
                           std::span<double> issue_us) noexcept;

}  // namespace xstage::model
