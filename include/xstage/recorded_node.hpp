#pragma once
/// A node that replays a samples file, so that every step after the measurement runs without the machine.

#include <memory>

#include "xstage/files.hpp"
#include "xstage/node.hpp"

namespace xstage {

/// Serves the experiments that the file holds, each with all of its rows in the file's order. The description is the
/// file's, with kind "recorded". Throws InputError for a file without samples; run() of an experiment that the file
/// lacks throws InputError naming it.
[[nodiscard]] std::unique_ptr<Node> make_recorded_node(SamplesFile samples);

}  // namespace xstage
