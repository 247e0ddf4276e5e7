/// The built-in machines.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "xstage/error.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage {
namespace {

SimulatedHardware h200x2() {
  SimulatedHardware h;
  h.name = "h200x2";
  h.device_name = "NVIDIA H200 (simulated)";
  h.source = "tuned to the calibration of two H200 in profiles/h200x2-samples.csv";
  h.devices = 2;
  h.compute_capability = 90;
  h.memory_bytes = 150'754'820'096;
  h.clock_mhz = 1980;
  h.multiprocessors = {{6, 6, 4}, {6, 6, 4}, {6, 6, 4}, {6, 6, 4}, {6, 6, 4}, {6, 6, 4}, {6, 6, 6}, {6, 6, 6}};
  h.store_begin_ns = 45;
  h.store_end_ns = 79;
  h.packet_issue_ns = 0.7;
  h.warp_instruction_ns = 3.01;
  h.store_queue_bytes = 6200;
  h.store_egress_gb_per_s = 64.4;
  h.store_window_bytes = 10000;
  h.bulk_begin_ns = 70;
  h.bulk_end_ns = 147;
  h.bulk_egress_gb_per_s = 62.78;
  h.bulk_window_bytes = 8100;
  h.crossbar_ns = 60;
  h.crossbar_gb_per_s = 5800;
  h.credit_return_ns = 60;
  h.multiprocessor_gb_per_s = 50.83;
  h.grant_bytes = 1536;
  h.placement_seed = 247;
  h.local_acknowledgement_ns = 1250;
  h.links = 18;
  h.link_gb_per_s = 26.56;
  h.header_bytes = 36;
  h.fabric_queue_bytes = 350000;
  h.wire_ns = 600;
  h.acknowledgement_ns = 660;
  h.fabric_credit_bytes = 1 << 21;
  h.barrier_ns = 700;
  h.barrier_behind_stores = true;
  h.loop_overhead_ns = 330;
  h.timer_overhead_ns = 240;
  h.timer_step_ns = 60;
  h.read_latency_ns = 1200;
  h.tensor_core_step_ns = 2400;
  h.start_skew_ns = 30;
  h.seed = 1;
  return h;
}

/// The machine of the paper, which states R, T_iss0 at one size and the knee. All other numbers are those of H200, as
/// first calibrated. Links: 18 of the fifth generation, 50 GB/s each, with the overhead that leaves R.
SimulatedHardware paper_8x148() {
  SimulatedHardware h = h200x2();
  h.name = "paper-8x148";
  h.device_name = "148-SM GPU (simulated)";
  h.source = "arXiv 2607.23264, sections 3.3 to 3.5";
  h.devices = 8;
  h.compute_capability = 100;
  h.multiprocessors = {{18}, {18}, {18}, {18}, {18}, {18}, {20}, {20}};
  h.store_queue_bytes = 7796;
  h.store_egress_gb_per_s = 37.3;
  h.store_window_bytes = 21400;
  h.multiprocessor_gb_per_s = 37.3;
  h.grant_bytes = 128;
  h.links = 18;
  h.link_gb_per_s = 50;
  h.header_bytes = 32.6;
  h.crossbar_gb_per_s = 6500;
  h.store_end_ns = 39;
  h.warp_instruction_ns = 3.07;
  h.bulk_end_ns = 137;
  h.bulk_egress_gb_per_s = 63.6;
  h.credit_return_ns = 59;
  h.placement_seed = 3;
  h.local_acknowledgement_ns = 1130;
  h.loop_overhead_ns = 320;
  h.timer_overhead_ns = 181;
  return h;
}

}  // namespace

std::vector<std::string> simulated_presets() { return {"h200x2", "paper-8x148"}; }

SimulatedHardware simulated_preset(std::string_view name) {
  if (name == "h200x2") {
    return h200x2();
  }
  if (name == "paper-8x148") {
    return paper_8x148();
  }
  throw InputError(fmt::format("simulated preset '{}': not one of {}", name, fmt::join(simulated_presets(), ", ")));
}

}  // namespace xstage
