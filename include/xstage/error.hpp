#pragma once
/// Errors are part of the interface: every exception that leaves the library is one of these, and its message names the
/// offending value and the rule that it breaks. The command line maps them to exit codes (docs/command-line.md).

#include <stdexcept>

namespace xstage {

/// A file, a number or a combination of options that breaks a documented rule. Exit code 3.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The machine cannot do what was asked: no GPU, no peer access, out of memory, a wait that expired. Exit code 4.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user asked to stop (SIGINT, SIGTERM) while a measurement ran. Nothing has been written.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted; nothing was written") {}
};

}  // namespace xstage
