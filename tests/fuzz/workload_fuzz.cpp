/// Fuzz target of the workload reader.

#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>

#include "xstage/audit.hpp"

#include "fuzz_input.hpp"

namespace {

using namespace xstage;

std::string shortest(double number) {
  char buffer[32];
  const auto result = std::to_chars(std::begin(buffer), std::end(buffer), number);
  return std::string(std::begin(buffer), result.ptr);
}

/// The library writes no workloads; all members but the name, which needs escapes.
std::string without_name(const Workload& workload) {
  return R"({"schema": "xstage.workload/1", "name": "", "store_path": ")" + std::string(name_of(workload.path)) +
         R"(", "producers": )" + std::to_string(workload.producers) + R"(, "coincident_producers": )" +
         std::to_string(workload.coincident_producers) + R"(, "bytes_per_producer": )" +
         std::to_string(static_cast<std::int64_t>(workload.bytes)) + R"(, "gap_us": )" + shortest(workload.gap_us) +
         R"(, "staging_slots": )" + shortest(workload.staging_slots) + "}";
}

bool same_numbers(const Workload& a, const Workload& b) {
  return a.path == b.path && a.producers == b.producers && a.coincident_producers == b.coincident_producers &&
         a.bytes == b.bytes && a.gap_us == b.gap_us && a.staging_slots == b.staging_slots;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto workload = fuzz::parse_or_refuse(parse_workload, fuzz::as_text(data, size));
  if (workload) {
    fuzz::require(workload->producers >= 1 && workload->coincident_producers <= workload->producers, "producers");
    fuzz::require(std::fmod(workload->bytes, store_width_bytes(workload->path)) == 0, "whole stores");
    fuzz::require(std::isfinite(workload->gap_us) && std::isfinite(workload->staging_slots), "finite numbers");
    fuzz::require(same_numbers(*workload, parse_workload(without_name(*workload), "fuzz")), "numbers read back");
  }
  return 0;
}
