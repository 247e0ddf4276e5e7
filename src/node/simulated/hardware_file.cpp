/// "xstage.simulated/1": a machine as JSON. docs/simulated-node.md

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "files/json_reader.hpp"
#include "files/quote.hpp"
#include "xstage/error.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage {
namespace {

constexpr double longest_ns = 1e6;
constexpr double fastest_gb_per_s = 1e6;
constexpr double slowest_gb_per_s = 1e-3;
/// Bound of a queue or window, which is a ring of 128-byte places in memory.
constexpr double largest_queue_bytes = 1024 * 1024;
constexpr int most_devices = 64;
constexpr int most_links = 1024;
/// Bound of an arbiter's children, which it keeps in one 64-bit word.
constexpr int most_children = 64;
constexpr int most_multiprocessors = 1024;

/// Lists every number of the machine once, with its key, its member and its range, for reading and for writing.
template <typename Hardware, typename Visitor>
void visit_numbers(Hardware& h, Visitor&& visit) {
  visit("clock_mhz", h.clock_mhz, 0.0, 1e5);
  visit("store_begin_ns", h.store_begin_ns, 0.0, longest_ns);
  visit("store_end_ns", h.store_end_ns, 0.0, longest_ns);
  visit("packet_issue_ns", h.packet_issue_ns, 0.0, longest_ns);
  visit("warp_instruction_ns", h.warp_instruction_ns, 0.0, longest_ns);
  visit("store_queue_bytes", h.store_queue_bytes, 0.0, largest_queue_bytes);
  visit("store_egress_gb_per_s", h.store_egress_gb_per_s, slowest_gb_per_s, fastest_gb_per_s);
  visit("store_window_bytes", h.store_window_bytes, 128.0, largest_queue_bytes);
  visit("bulk_begin_ns", h.bulk_begin_ns, 0.0, longest_ns);
  visit("bulk_end_ns", h.bulk_end_ns, 0.0, longest_ns);
  visit("bulk_egress_gb_per_s", h.bulk_egress_gb_per_s, slowest_gb_per_s, fastest_gb_per_s);
  visit("bulk_window_bytes", h.bulk_window_bytes, 128.0, largest_queue_bytes);
  visit("crossbar_ns", h.crossbar_ns, 0.0, longest_ns);
  visit("crossbar_gb_per_s", h.crossbar_gb_per_s, slowest_gb_per_s, fastest_gb_per_s);
  visit("credit_return_ns", h.credit_return_ns, 0.0, longest_ns);
  visit("multiprocessor_gb_per_s", h.multiprocessor_gb_per_s, slowest_gb_per_s, fastest_gb_per_s);
  visit("grant_bytes", h.grant_bytes, 128.0, largest_queue_bytes);
  visit("local_acknowledgement_ns", h.local_acknowledgement_ns, 0.0, longest_ns);
  visit("link_gb_per_s", h.link_gb_per_s, slowest_gb_per_s, fastest_gb_per_s);
  visit("header_bytes", h.header_bytes, 0.0, 4096.0);
  visit("fabric_queue_bytes", h.fabric_queue_bytes, 128.0, 64 * largest_queue_bytes);
  visit("wire_ns", h.wire_ns, 0.0, longest_ns);
  visit("acknowledgement_ns", h.acknowledgement_ns, 0.0, longest_ns);
  visit("fabric_credit_bytes", h.fabric_credit_bytes, 128.0, 64 * largest_queue_bytes);
  visit("barrier_ns", h.barrier_ns, 0.0, longest_ns);
  visit("loop_overhead_ns", h.loop_overhead_ns, 0.0, longest_ns);
  visit("timer_overhead_ns", h.timer_overhead_ns, 0.0, longest_ns);
  visit("timer_step_ns", h.timer_step_ns, 0.0, longest_ns);
  visit("read_latency_ns", h.read_latency_ns, 0.0, longest_ns);
  visit("tensor_core_step_ns", h.tensor_core_step_ns, 0.0, longest_ns);
  visit("start_skew_ns", h.start_skew_ns, 0.0, longest_ns);
}

template <typename Hardware, typename Visitor>
void visit_integers(Hardware& h, Visitor&& visit) {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  visit("devices", h.devices, std::int64_t{1}, std::int64_t{most_devices});
  visit("compute_capability", h.compute_capability, std::int64_t{90}, std::int64_t{999});
  visit("memory_bytes", h.memory_bytes, std::int64_t{0}, std::int64_t{1} << 50);
  visit("links", h.links, std::int64_t{1}, std::int64_t{most_links});
  visit("placement_seed", h.placement_seed, std::int64_t{0}, largest);
  visit("seed", h.seed, std::int64_t{0}, largest);
}

template <typename Hardware, typename Visitor>
void visit_texts(Hardware& h, Visitor&& visit) {
  visit("name", h.name);
  visit("device_name", h.device_name);
  visit("source", h.source);
}

std::set<std::string, std::less<>> known_keys() {
  std::set<std::string, std::less<>> keys{"schema", "based_on", "multiprocessors", "barrier_behind_stores"};
  SimulatedHardware any;
  const auto insert = [&](std::string_view key, const auto&...) { keys.emplace(key); };
  visit_numbers(any, insert);
  visit_integers(any, insert);
  visit_texts(any, insert);
  return keys;
}

void refuse_unknown_keys(const nlohmann::json& document, std::string_view origin) {
  const auto keys = known_keys();
  for (const auto& item : document.items()) {
    if (!keys.contains(item.key())) {
      files::JsonValue(item.value(), origin, files::identifier_or_quote(item.key()))
          .fail("unknown key; docs/simulated-node.md lists the known ones");
    }
  }
}

std::vector<std::vector<int>> read_multiprocessors(const files::JsonValue& value) {
  std::vector<std::vector<int>> clusters;
  int total = 0;
  for (const files::JsonValue& cluster : value.elements()) {
    std::vector<int>& sizes = clusters.emplace_back();
    for (const files::JsonValue& size : cluster.elements()) {
      sizes.push_back(size.small_integer(1, most_children));
      total += sizes.back();
    }
    if (sizes.empty() || sizes.size() > most_children) {
      cluster.fail(fmt::format("a GPC needs 1 to {} CPCs", most_children));
    }
  }
  if (clusters.empty() || clusters.size() > most_children) {
    value.fail(fmt::format("a device needs 1 to {} GPCs", most_children));
  }
  if (total > most_multiprocessors) {
    value.fail(fmt::format("{} multiprocessors in all: at most {}", total, most_multiprocessors));
  }
  return clusters;
}

/// The preset on which the file is based, or an empty machine, for which every key must be given.
SimulatedHardware base_of(const files::JsonValue& root) {
  const auto based_on = root.optional_member("based_on");
  if (!based_on) {
    return {};
  }
  const std::string preset = based_on->text();
  const std::vector<std::string> presets = simulated_presets();
  if (std::find(presets.begin(), presets.end(), preset) == presets.end()) {
    based_on->fail(fmt::format("must be one of {}", fmt::join(presets, ", ")));
  }
  return simulated_preset(preset);
}

/// Reads members into the machine. A missing member is an error unless the file is based on a preset.
class Reader {
 public:
  explicit Reader(const files::JsonValue& root) : root_(root), complete_(!root.optional_member("based_on")) {}

  template <typename Read>
  void read(std::string_view key, Read&& take) const {
    if (complete_) {
      take(root_.member(key));
    } else if (const auto value = root_.optional_member(key)) {
      take(*value);
    }
  }

 private:
  files::JsonValue root_;
  bool complete_;
};

}  // namespace

SimulatedHardware parse_simulated_hardware(std::string_view text, std::string_view origin) {
  const files::JsonDocument document(text, origin, simulated_schema);
  const files::JsonValue root = document.root();
  refuse_unknown_keys(files::parse_json(text, origin), origin);
  SimulatedHardware hardware = base_of(root);
  const Reader reader(root);
  visit_texts(hardware, [&](std::string_view key, std::string& member) {
    reader.read(key, [&](const files::JsonValue& value) { member = value.non_empty_text(); });
  });
  visit_integers(hardware, [&](std::string_view key, auto& member, std::int64_t least, std::int64_t most) {
    reader.read(key, [&](const files::JsonValue& value) {
      member = static_cast<std::remove_reference_t<decltype(member)>>(value.integer(least, most));
    });
  });
  visit_numbers(hardware, [&](std::string_view key, double& member, double least, double most) {
    reader.read(key, [&](const files::JsonValue& value) { member = value.number(least, most); });
  });
  reader.read("multiprocessors",
              [&](const files::JsonValue& value) { hardware.multiprocessors = read_multiprocessors(value); });
  reader.read("barrier_behind_stores",
              [&](const files::JsonValue& value) { hardware.barrier_behind_stores = value.boolean(); });
  return hardware;
}

std::string format_simulated_hardware(const SimulatedHardware& hardware) {
  nlohmann::ordered_json document;
  document["schema"] = simulated_schema;
  const auto put = [&](std::string_view key, const auto& member, const auto&...) {
    document[std::string(key)] = member;
  };
  visit_texts(hardware, put);
  visit_integers(hardware, put);
  document["multiprocessors"] = hardware.multiprocessors;
  visit_numbers(hardware, put);
  document["barrier_behind_stores"] = hardware.barrier_behind_stores;
  return document.dump(2) + "\n";
}

}  // namespace xstage
