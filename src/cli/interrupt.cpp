#include "cli/interrupt.hpp"

namespace xstage::cli {

namespace {

volatile std::sig_atomic_t interrupt_requested = 0;

void request_interrupt(int /*signal*/) { interrupt_requested = 1; }

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupt_requested = 0;
  struct sigaction action {};
  action.sa_handler = request_interrupt;
  // Reset after the first: a driver call that never returns must not make the tool unstoppable.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_interrupt_);
  sigaction(SIGTERM, &action, &previous_terminate_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_interrupt_, nullptr);
  sigaction(SIGTERM, &previous_terminate_, nullptr);
}

bool InterruptGuard::requested() noexcept { return interrupt_requested != 0; }

}  // namespace xstage::cli
