#pragma once
/// What the tool tells a script: docs/command-line.md.

#include <stdexcept>

namespace xstage::cli {

enum class ExitCode {
  success = 0,
  test_failed = 1,    ///< audit: the design test was not passed; validate: an error above --max-error; bench --verify:
                      ///< results are wrong
  usage = 2,          ///< the command line cannot be understood
  bad_input = 3,      ///< a file or a value breaks a rule
  device = 4,         ///< the machine cannot do it, or the user interrupted a measurement
  cannot_decide = 5,  ///< audit: no asked regime fails, but the profile lacks what decides one of them
};

/// The command line cannot be understood: exit code 2. The message names the option and the value.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace xstage::cli
