#pragma once
/// Runs the experiments of a sweep on several threads.

#include <functional>
#include <memory>

#include "xstage/files.hpp"
#include "xstage/node.hpp"

namespace xstage::calibrate {

/// Runs the remote experiments of a calibration and returns them in order. Each thread makes its own node, which suits
/// nodes whose samples do not depend on other activity, such as simulated ones. Rethrows the exception of the first
/// failing experiment.
[[nodiscard]] SamplesFile run_remote_sweep_in_parallel(const std::function<std::unique_ptr<Node>()>& make_node,
                                                       bool quick);

}  // namespace xstage::calibrate
