#include "cli/run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "cli/decimal_options.hpp"
#include "cli/nearest.hpp"
#include "cli/verbs.hpp"
#include "xstage/error.hpp"
#include "xstage/version.hpp"

namespace xstage::cli {

namespace {

constexpr const char* description =
    "Measures what a GPU node does with stores to a peer GPU, predicts their back-pressure,\n"
    "and audits kernels whose epilogues store remotely.";

constexpr const char* exit_codes =
    "Exit codes: 0 good, 1 audit or validate --max-error: test not passed, or bench --verify: wrong\n"
    "results, 2 usage, 3 bad input, 4 device or interrupted, 5 audit: the profile cannot decide.\n"
    "Times are microseconds; sizes are bytes and may carry a suffix (32KiB, 4MiB).";

std::string quoted(std::string_view argument) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!argument.empty() && argument.find_first_not_of(plain) == std::string_view::npos) {
    return std::string(argument);
  }
  std::string text = "'";
  for (const char character : argument) {
    text += character == '\'' ? std::string("'\\''") : std::string(1, character);
  }
  return text + "'";
}

/// The command line as a shell would accept it again. The tool's own folder says nothing about the measurement.
std::string command_line(int argument_count, const char* const* arguments) {
  std::string line = "xstage";
  for (int index = 1; index < argument_count; ++index) {
    line += " " + quoted(arguments[index]);
  }
  return line;
}

/// Help and version are answers; everything else that the parser throws is a usage error.
ExitCode answer_parser(const CLI::App& tool, const CLI::ParseError& error, Console& console) {
  const int code = tool.exit(error, console.out, console.err);
  return code == 0 ? ExitCode::success : ExitCode::usage;
}

ExitCode complain(Console& console, ExitCode code, std::string_view message) {
  console.err << "xstage: " << message << '\n';
  return code;
}

/// The parser would only say that a verb is required, not which word it did not know.
void check_verb(const CLI::App& tool, int argument_count, const char* const* arguments) {
  if (argument_count < 2 || std::string_view(arguments[1]).substr(0, 1) == "-") {
    return;
  }
  std::vector<std::string> verbs;
  for (const CLI::App* verb : tool.get_subcommands(nullptr)) {
    verbs.push_back(verb->get_name());
  }
  if (std::find(verbs.begin(), verbs.end(), arguments[1]) == verbs.end()) {
    const std::string meant = nearest(arguments[1], verbs);
    throw UsageError(fmt::format("unknown verb '{}': {}one of {}", arguments[1],
                                 meant.empty() ? "" : fmt::format("did you mean {}? It must be ", meant),
                                 fmt::join(verbs, ", ")));
  }
}

/// The parser would complain first of what is missing, and a mistyped option is why it is missing.
void check_options(const CLI::App& tool, int argument_count, const char* const* arguments) {
  const CLI::App* app = &tool;
  std::string verb = "xstage";
  for (int index = 1; index < argument_count; ++index) {
    const std::string_view argument = arguments[index];
    if (argument == "--") {
      return;  // what follows are no options
    }
    if (argument.substr(0, 2) != "--") {
      const auto verbs = app->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == argument; });
      app = verbs.empty() ? app : verbs.front();
      verb += verbs.empty() ? "" : " " + std::string(argument);
      continue;
    }
    const std::string name(argument.substr(0, argument.find('=')));
    // A verb that allows extras is not in this build: it takes whatever is asked of it, and says so.
    if (app->get_option_no_throw(name) != nullptr || app->get_allow_extras()) {
      continue;
    }
    std::vector<std::string> known;
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& long_name : option->get_lnames()) {
        known.push_back("--" + long_name);
      }
    }
    const std::string meant = nearest(name, known);
    throw UsageError(fmt::format(
        "unknown option '{}' of {}: {}", name, verb,
        meant.empty() ? fmt::format("{} --help lists the options", verb) : fmt::format("did you mean {}?", meant)));
  }
}

ExitCode run_verb(CLI::App& tool, const Invocation& invocation, int argument_count, const char* const* arguments,
                  Console& console) {
  try {
    check_verb(tool, argument_count, arguments);
    check_options(tool, argument_count, arguments);
    tool.parse(argument_count, arguments);
    return invocation.verb(console);
  } catch (const CLI::ParseError& error) {
    return answer_parser(tool, error, console);
  } catch (const UsageError& error) {
    return complain(console, ExitCode::usage, error.what());
  } catch (const InputError& error) {
    return complain(console, ExitCode::bad_input, error.what());
  } catch (const DeviceError& error) {
    return complain(console, ExitCode::device, error.what());
  } catch (const Interrupted& error) {
    return complain(console, ExitCode::device, error.what());
  } catch (const std::bad_alloc&) {
    return complain(console, ExitCode::device, "out of memory");
  } catch (const std::exception& error) {
    return complain(console, ExitCode::device, fmt::format("unexpected failure: {}", error.what()));
  }
}

}  // namespace

int run(int argument_count, const char* const* arguments, std::ostream& out, std::ostream& err, bool progress_bar,
        std::string_view fingerprints) {
  Console console{out, err, progress_bar, command_line(argument_count, arguments), fingerprints};
  CLI::App tool{description, "xstage"};
  tool.set_version_flag("--version", fmt::format("xstage {} (commit {})", tool_version(), source_commit()));
  tool.footer(exit_codes);
  tool.require_subcommand(1);
  Invocation invocation;
  add_devices(tool, invocation);
  add_calibrate(tool, invocation);
  add_fit(tool, invocation);
  add_measure(tool, invocation);
  add_predict(tool, invocation);
  add_validate(tool, invocation);
  add_audit(tool, invocation);
  add_bench(tool, invocation);
  read_numbers_as_decimal(tool);
  ExitCode code = run_verb(tool, invocation, argument_count, arguments, console);
  out.flush();
  if (!out && (code == ExitCode::success || code == ExitCode::test_failed || code == ExitCode::cannot_decide)) {
    code = complain(console, ExitCode::bad_input, "the standard output cannot be written (disk full or pipe closed)");
  }
  return static_cast<int>(code);
}

}  // namespace xstage::cli
