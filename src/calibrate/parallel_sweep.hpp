#pragma once
/// A sweep whose experiments run on several threads at a time.

#include <functional>
#include <memory>

#include "xstage/files.hpp"
#include "xstage/node.hpp"

namespace xstage::calibrate {

/// The remote experiments of a calibration, in their order. Each thread makes a node of its own: for nodes whose
/// samples do not depend on what else runs, which is true of simulated ones. Throws what the first failing experiment
/// throws.
[[nodiscard]] SamplesFile run_remote_sweep_in_parallel(const std::function<std::unique_ptr<Node>()>& make_node,
                                                       bool quick);

}  // namespace xstage::calibrate
