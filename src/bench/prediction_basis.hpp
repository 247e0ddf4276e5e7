#pragma once
// Inputs of the predictions that stand beside measurements.

#include "xstage/platform.hpp"

namespace xstage::bench {

struct PredictionBasis {
  Platform platform;
  int multiprocessors = 0;  // of one GPU that is measured
};

/// Throws InputError if the platform does not know how fast this number of CTAs drains. To be called before anything is
/// measured.
void check_basis(const PredictionBasis& basis);

}  // namespace xstage::bench
