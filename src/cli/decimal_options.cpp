#include "cli/decimal_options.hpp"

#include <string>

#include "cli/quantities.hpp"

namespace xstage::cli {

namespace {

/// The parser names the types of integers INT and UINT, also in lists.
bool reads_integers(const CLI::Option& option) { return option.get_type_name().find("INT") != std::string::npos; }

}  // namespace

void read_integers_as_decimal(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (reads_integers(*option)) {
      option->transform([option](const std::string& text) { return decimal_digits(option->get_name(), text); });
    }
  }
  for (CLI::App* verb : app.get_subcommands(nullptr)) {
    read_integers_as_decimal(*verb);
  }
}

}  // namespace xstage::cli
