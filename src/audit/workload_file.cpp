/// Workload files: "xstage.workload/1", docs/workload-format.md.

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "files/json_reader.hpp"
#include "xstage/audit.hpp"

namespace xstage {
namespace {

using files::JsonDocument;
using files::JsonValue;

/// The same bounds as for experiments; the platform's own (multiprocessors) are applied by the audit.
constexpr int most_workload_producers = 65536;
constexpr double largest_workload_bytes = 0x1p50;
constexpr double longest_workload_gap_us = 1e12;
constexpr double most_staging_slots = 65536;

/// The answer of `xstage audit --json`, which repeats its workload.
constexpr std::string_view audit_schema = "xstage.audit/1";

/// Reads B, which must be a multiple of the store width, since a store instruction is never split.
double read_bytes(const JsonValue& value, StorePath path) {
  const auto bytes = value.integer(1, static_cast<std::int64_t>(largest_workload_bytes));
  const int width = store_width_bytes(path);
  if (bytes % width != 0) {
    value.fail(fmt::format("must be divisible by {}, the store width of {}", width, name_of(path)));
  }
  return static_cast<double>(bytes);
}

/// `path_key`: the member that names the store path.
Workload read_workload(const JsonValue& root, std::string_view path_key) {
  Workload workload;
  workload.name = root.member("name").printable_text();
  if (const auto description = root.optional_member("description")) {
    workload.description = description->printable_text();
  }
  workload.path = root.member(path_key).name<StorePath>();
  workload.producers = root.member("producers").small_integer(1, most_workload_producers);
  workload.bytes = read_bytes(root.member("bytes_per_producer"), workload.path);
  workload.gap_us = root.member("gap_us").number(0, longest_workload_gap_us);
  if (const auto coincident = root.optional_member("coincident_producers")) {
    workload.coincident_producers = coincident->small_integer(0, workload.producers);
  }
  if (const auto slots = root.optional_member("staging_slots")) {
    workload.staging_slots = slots->number(1, most_staging_slots);
  }
  return workload;
}

bool is_audit(std::string_view text, std::string_view origin) {
  const nlohmann::json value = files::parse_json(text, origin);
  return value.is_object() && value.contains("schema") && value.at("schema") == audit_schema;
}

}  // namespace

Workload parse_workload(std::string_view text, std::string_view origin) {
  if (is_audit(text, origin)) {
    const JsonDocument document(text, origin, audit_schema);
    const JsonValue workload = document.root().member("workload");
    workload.allow_only({"name", "description", "path", "producers", "coincident_producers", "bytes_per_producer",
                         "gap_us", "staging_slots"});
    return read_workload(workload, "path");
  }
  const JsonDocument document(text, origin, "xstage.workload/1");
  const JsonValue root = document.root();
  root.allow_only({"schema", "name", "description", "store_path", "producers", "coincident_producers",
                   "bytes_per_producer", "gap_us", "staging_slots"});
  return read_workload(root, "store_path");
}

}  // namespace xstage
