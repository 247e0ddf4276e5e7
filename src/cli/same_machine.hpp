#pragma once
/// A profile says nothing about another machine: a comparison would be of GPUs, not of predictions.

#include <string>

#include "xstage/node.hpp"

namespace xstage::cli {

/// Throws InputError naming both GPUs if the samples are of another one than the profile. A simulated GPU stands for
/// the real one. `samples` and `profile` name both in the message.
void require_same_machine(const std::string& profile, const NodeDescription& fitted, const std::string& samples,
                          const NodeDescription& measured);

}  // namespace xstage::cli
