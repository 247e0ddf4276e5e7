#pragma once
// What predictions beside measurements are made from.

#include "xstage/platform.hpp"

namespace xstage::bench {

struct PredictionBasis {
  Platform platform;
  int multiprocessors = 0;  // of one GPU that is measured
};

/// Throws InputError if the platform cannot say how fast so many CTAs drain: before anything is measured.
void check_basis(const PredictionBasis& basis);

}  // namespace xstage::bench
