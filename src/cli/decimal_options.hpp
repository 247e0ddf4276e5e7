#pragma once
/// Numbers of options are decimal.

#include <CLI/CLI.hpp>

namespace xstage::cli {

/// The parser reads integers as C does: "010" would be eight and "0x10" sixteen. With this every integer option of the
/// tool and of its verbs takes decimal digits only: "010" is ten, "0x10" a UsageError.
void read_integers_as_decimal(CLI::App& app);

}  // namespace xstage::cli
