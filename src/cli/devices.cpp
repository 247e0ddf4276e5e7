/// `xstage devices`: which GPUs are there, and whether bursts can run between them.

#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/json_output.hpp"
#include "cli/quantities.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "cli/wording.hpp"
#include "xstage/cuda_node.hpp"
#include "xstage/error.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage::cli {

namespace {

/// What is known about the machine's GPUs; without a driver the list is empty.
NodeDescription cuda_devices_or_none() {
  try {
    return describe_cuda_devices();
  } catch (const DeviceError&) {
    return {};
  }
}

Json document(const NodeDescription& node, const std::string& unusable) {
  return {{"schema", "xstage.devices/1"},
          {"cuda", {{"usable", unusable.empty()}, {"reason", unusable}, {"node", to_json(node)}}},
          {"simulated_presets", simulated_presets()}};
}

void print_devices(std::ostream& out, const NodeDescription& node) {
  if (node.devices.empty()) {
    return;
  }
  Table table({"device", "name", "multi-\nprocessors", "compute\ncapability", "memory\n(GiB)", "maximum clock\n(MHz)"});
  for (std::size_t index = 0; index < node.devices.size(); ++index) {
    const Device& device = node.devices[index];
    table.add_row({std::to_string(index), device.name, std::to_string(device.multiprocessors),
                   fmt::format("{}.{}", device.compute_capability / 10, device.compute_capability % 10),
                   fixed(static_cast<double>(device.memory_bytes) / 1073741824.0, 1), fixed(device.clock_mhz, 0)});
  }
  table.left_align(2);
  table.print(out);
  out << "  links: " << node.links << "; driver " << node.driver << "; CUDA " << node.cuda << '\n';
}

ExitCode devices(Console& console, bool json) {
  const std::string unusable = cuda_unavailable_reason();
  const NodeDescription node = cuda_devices_or_none();
  if (json) {
    print_json(console.out, document(node, unusable));
    return ExitCode::success;
  }
  console.out << "GPUs of this machine\n";
  print_devices(console.out, node);
  console.out << (unusable.empty() ? "  usable: xstage calibrate --node cuda\n"
                                   : "  not usable with --node cuda: " + unusable + "\n");
  console.out << "\nSimulated nodes\n";
  for (const std::string& preset : simulated_presets()) {
    console.out << "  usable: xstage calibrate --node simulated:" << preset << '\n';
  }
  return ExitCode::success;
}

}  // namespace

void add_devices(CLI::App& tool, Invocation& invocation) {
  auto json = std::make_shared<bool>(false);
  CLI::App* verb = tool.add_subcommand("devices", "List the GPUs and say whether bursts can run between them");
  verb->add_flag("--json", *json, json_help);
  verb->callback(
      [json, &invocation] { invocation.verb = [json](Console& console) { return devices(console, *json); }; });
}

}  // namespace xstage::cli
