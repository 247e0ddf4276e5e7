#include "cli/decimal_options.hpp"

#include <string>

#include "cli/quantities.hpp"

namespace xstage::cli {

namespace {

/// The parser's names of types: INT and UINT, also in lists, and FLOAT.
bool reads(const CLI::Option& option, const char* type) {
  return option.get_type_name().find(type) != std::string::npos;
}

}  // namespace

void read_numbers_as_decimal(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (reads(*option, "INT")) {
      option->transform([option](const std::string& text) { return decimal_digits(option->get_name(), text); });
    } else if (reads(*option, "FLOAT")) {
      option->transform([option](const std::string& text) { return decimal_number(option->get_name(), text); });
    }
  }
  for (CLI::App* verb : app.get_subcommands(nullptr)) {
    read_numbers_as_decimal(*verb);
  }
}

}  // namespace xstage::cli
