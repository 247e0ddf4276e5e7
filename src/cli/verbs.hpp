#pragma once
/// The verbs of the tool. Each `add_*` declares its options on the parser and leaves what to do in `invocation`.

#include <CLI/CLI.hpp>
#include <functional>

#include "cli/console.hpp"
#include "cli/exit_code.hpp"

namespace xstage::cli {

/// Filled by the verb that the command line names.
struct Invocation {
  std::function<ExitCode(Console&)> verb;
};

void add_devices(CLI::App& tool, Invocation& invocation);
void add_calibrate(CLI::App& tool, Invocation& invocation);
void add_fit(CLI::App& tool, Invocation& invocation);
void add_measure(CLI::App& tool, Invocation& invocation);
void add_predict(CLI::App& tool, Invocation& invocation);
void add_validate(CLI::App& tool, Invocation& invocation);
void add_audit(CLI::App& tool, Invocation& invocation);
void add_bench(CLI::App& tool, Invocation& invocation);

}  // namespace xstage::cli
