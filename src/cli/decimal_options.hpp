#pragma once
/// Numbers of options are decimal.

#include <CLI/CLI.hpp>

namespace xstage::cli {

/// The parser reads numbers as C does: "010" would be eight and "0x10" sixteen, and "nan" a number. With this every
/// numeric option of the tool and of its verbs is decimal: "010" is ten, "0x10" and "nan" are UsageErrors.
void read_numbers_as_decimal(CLI::App& app);

}  // namespace xstage::cli
