#pragma once
/// A node that is simulated by discrete events: producers put 128-byte requests into finite queues, an arbiter picks
/// among them, links with header overhead and credits carry them, and acknowledgements free their places. The
/// simulation uses none of the Burst-Gap equations, so that a fit to this node's samples tests the equations. See
/// docs/simulated-node.md.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "xstage/node.hpp"

namespace xstage {

inline constexpr std::string_view simulated_schema = "xstage.simulated/1";

/// Everything that the simulation knows about a machine. File format: docs/simulated-node.md ("xstage.simulated/1"),
/// where each member is a key of the same name. 1 GB/s = 1e9 bytes/s.
struct SimulatedHardware {
  std::string name;         ///< of the node, e.g. "h200x2"
  std::string device_name;  ///< of each device, e.g. "NVIDIA H200"
  std::string source;       ///< where the numbers come from

  int devices = 2;              ///< identical GPUs, each with links into one non-blocking switch
  int compute_capability = 90;  ///< 90 for 9.0; at least 90, since every path is simulated
  std::int64_t memory_bytes = 0;
  double clock_mhz = 0;
  /// Arbitration tree of a device: for each GPC its CPCs, for each CPC its number of SMs.
  std::vector<std::vector<int>> multiprocessors;

  // A producer's own side: stores enter the SM's queue, leave it towards the crossbar, and hold a place in the SM's
  // window until the fabric has taken them.
  double store_begin_ns = 0;       ///< from the start of a burst to its first store
  double store_end_ns = 0;         ///< from the acceptance of the last store to the end of the burst
  double packet_issue_ns = 0;      ///< between two 128-byte requests that enter the queue
  double warp_instruction_ns = 0;  ///< between two store instructions of one SM, however wide
  double store_queue_bytes = 0;    ///< shared by all warps
  double store_egress_gb_per_s = 0;
  double store_window_bytes = 0;  ///< left the queue and not yet taken by the fabric

  // Bulk copies bypass that queue: an engine reads shared memory. The burst ends when the source has been read.
  double bulk_begin_ns = 0;
  double bulk_end_ns = 0;
  double bulk_egress_gb_per_s = 0;
  double bulk_window_bytes = 0;

  // Between the SM and the fabric.
  double crossbar_ns = 0;               ///< from the SM to the arbiter
  double crossbar_gb_per_s = 0;         ///< all that the arbiter passes on, and all that local memory takes
  double credit_return_ns = 0;          ///< from the arbiter's choice until the SM's window has its place back
  double multiprocessor_gb_per_s = 0;   ///< at most this much of one SM towards a peer
  double grant_bytes = 0;               ///< bytes that an SM sends before its GPC turns to the next one
  std::uint64_t placement_seed = 0;     ///< which SMs the producers land on
  double local_acknowledgement_ns = 0;  ///< from local memory back to the SM

  // Links: each device has so many out of and into the switch.
  int links = 0;
  double link_gb_per_s = 0;        ///< raw, of one link in one direction
  double header_bytes = 0;         ///< on the wire for each request, beside its payload
  double fabric_queue_bytes = 0;   ///< in front of the outgoing links, shared by all SMs
  double wire_ns = 0;              ///< from one device's link to the other's
  double acknowledgement_ns = 0;   ///< from the destination back to the source
  double fabric_credit_bytes = 0;  ///< sent to one destination and not acknowledged

  // Barriers and loops.
  double barrier_ns = 0;               ///< from the last arrival to the start of the next burst
  bool barrier_behind_stores = false;  ///< an arrival waits until the fabric has taken the producer's stores
  double loop_overhead_ns = 0;         ///< between two bursts, at least
  double timer_overhead_ns = 0;        ///< of a timed gap
  double timer_step_ns = 0;            ///< a timed gap overshoots by up to this much
  double read_latency_ns = 0;          ///< of a memory read, which queues behind the SM's own stores
  double tensor_core_step_ns = 0;      ///< tensor-core work overshoots by up to this much
  double start_skew_ns = 0;            ///< producers start within this time of each other
  std::uint64_t seed = 0;              ///< of every random draw: same seed, same samples
};

/// Names of the built-in machines: "h200x2", "paper-8x148".
[[nodiscard]] std::vector<std::string> simulated_presets();

/// A built-in machine. Throws InputError naming the presets.
[[nodiscard]] SimulatedHardware simulated_preset(std::string_view name);

/// Reads "xstage.simulated/1" JSON; with a "based_on" preset, keys may be left out. Throws InputError naming key, value
/// and rule; `origin` names the source in the message.
[[nodiscard]] SimulatedHardware parse_simulated_hardware(std::string_view text, std::string_view origin);

/// The complete JSON of a machine; parse_simulated_hardware reads it back unchanged.
[[nodiscard]] std::string format_simulated_hardware(const SimulatedHardware& hardware);

[[nodiscard]] std::unique_ptr<Node> make_simulated_node(const SimulatedHardware& hardware);

/// A preset by name, else a JSON file by path. Throws InputError naming the presets if it is neither.
[[nodiscard]] std::unique_ptr<Node> make_simulated_node(std::string_view preset_or_json_path);

}  // namespace xstage
