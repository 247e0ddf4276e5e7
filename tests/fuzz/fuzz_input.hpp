#pragma once
/// What the fuzz targets share. A property that fails leaves as an exception: libFuzzer reports it as a crash, the
/// replay program names the case.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "xstage/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace xstage::fuzz {

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline void require(bool holds, const char* property) {
  if (!holds) {
    throw std::logic_error(property);
  }
}

/// The parsed value, or nothing if the input was refused. Any exception but InputError escapes.
template <typename Parser>
auto parse_or_refuse(Parser parser, std::string_view text) -> std::optional<decltype(parser(text, text))> {
  try {
    return parser(text, "fuzz");
  } catch (const InputError& error) {
    require(std::string_view(error.what()).starts_with("fuzz"), "a refusal names its origin");
    return std::nullopt;
  }
}

}  // namespace xstage::fuzz
