#pragma once
/// Burst experiments on real GPUs: a node of all devices of one process, each of which can access the memory of the
/// others. It needs compute capability 8.0, and 9.0 for the bulk path. In a build without CUDA these functions report
/// or throw that reason.

#include <memory>
#include <string>

#include "xstage/node.hpp"

namespace xstage {

/// Why no GPU node can be made here ("no CUDA device", "driver supports CUDA 12.4, this build needs 13.0", ...); empty
/// if one can.
[[nodiscard]] std::string cuda_unavailable_reason();

/// Describes the GPUs, links, driver and clocks of this machine, also of one with a single GPU. Throws DeviceError if
/// there is no GPU.
[[nodiscard]] NodeDescription describe_cuda_devices();

/// One line per ordered pair of GPUs without peer access, empty if all can reach each other.
[[nodiscard]] std::string missing_peer_access();

/// A node over all devices. Throws DeviceError naming what is missing: fewer than two GPUs, no peer access between two
/// of them, memory, a driver that is too old. With `single_device` one GPU is enough and only local targets run.
[[nodiscard]] std::unique_ptr<Node> make_cuda_node(bool single_device = false);

/// A node that needs one pair of GPUs only: others may be out of reach, and experiments between them are refused.
/// Throws InputError for a device that is not there and for one device twice, DeviceError if the source cannot reach
/// the destination's memory.
[[nodiscard]] std::unique_ptr<Node> make_cuda_node(int source, int destination);

}  // namespace xstage
