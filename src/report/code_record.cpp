#include "report/code_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>

namespace xstage::bench {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::string_view calibration_namespace = "xstage::cuda::";

Json table_of(std::string_view fingerprints) {
  return fingerprints.empty() ? Json::object() : Json::parse(fingerprints);
}

/// FNV-1a, 64 bits.
class Hash {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) {
      value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
    }
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325U;
};

void add_text(Hash& hash, std::string_view text) {
  hash.add(fmt::format("s{}:", text.size()));
  hash.add(text);
}

/// Hashes a value as `canonical` in scripts/fingerprints.py does.
void add_value(Hash& hash, const Json& value) {
  if (value.is_object()) {
    std::map<std::string, const Json*> fields;
    for (const auto& [name, field] : value.items()) {
      fields.emplace(name, &field);
    }
    hash.add("{");
    for (const auto& [name, field] : fields) {
      add_text(hash, name);
      add_value(hash, *field);
    }
    hash.add("}");
  } else if (value.is_array()) {
    hash.add("[");
    for (const Json& element : value) {
      add_value(hash, element);
    }
    hash.add("]");
  } else if (value.is_string()) {
    add_text(hash, value.get_ref<const std::string&>());
  } else if (value.is_number()) {
    hash.add(fmt::format("d{:016x}", std::bit_cast<std::uint64_t>(value.get<double>())));
  } else if (value.is_boolean()) {
    hash.add(value.get<bool>() ? "t" : "f");
  } else {
    hash.add("n");
  }
}

}  // namespace

std::vector<std::string> calibration_kernels(std::string_view fingerprints) {
  std::vector<std::string> kernels;
  for (const Json& kernel : table_of(fingerprints).value("kernels", Json::array())) {
    if (kernel.at("name").get_ref<const std::string&>().starts_with(calibration_namespace)) {
      kernels.push_back(kernel.at("symbol"));
    }
  }
  return kernels;
}

Json code_record(std::string_view fingerprints, const std::string& bench, const std::vector<std::string>& kernels) {
  const Json table = table_of(fingerprints);
  if (table.empty()) {
    return nullptr;
  }
  std::map<std::string, Json> hashes;
  std::map<std::string, Json> tokens;
  for (const std::string& symbol : kernels) {
    hashes.emplace(symbol, nullptr);
  }
  for (const Json& kernel : table.at("kernels")) {
    if (hashes.erase(kernel.at("symbol")) > 0) {
      hashes[kernel.at("name")] = kernel.at("code");
      tokens[kernel.at("name")] = kernel.at("tokens");
    }
  }
  return {{"nvcc", table.at("nvcc")},
          {"cutlass", table.at("cutlass")},
          {"kernels", hashes},
          {"kernel_tokens", tokens},
          {"timing", table.at("timing").value(bench, Json())}};
}

std::string rows_hash(const Json& rows) {
  Hash hash;
  // Hashes the rows as the file will contain them: JSON has no infinite numbers, and text that is not UTF-8 is
  // replaced.
  add_value(hash, Json::parse(rows.dump(-1, ' ', false, Json::error_handler_t::replace)));
  return fmt::format("{:016x}", hash.value());
}

}  // namespace xstage::bench
