#include "crash.h"

#include <pthread.h>
#include <signal.h>

#include <cstdint>
#include <vector>

namespace fake {
namespace {

void (*on_found)(const void *);
pthread_t guarded;
volatile bool active;
struct sigaction before_segv, before_bus;

void handle(int signal, siginfo_t *info, void *context) {
  if (active && pthread_equal(guarded, pthread_self())) {
    pthread_sigmask(SIG_SETMASK, &((ucontext_t *)context)->uc_sigmask, nullptr);
    on_found(info->si_addr);
  }
  const struct sigaction &before = signal == SIGSEGV ? before_segv : before_bus;
  if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(signal, info, context);
  else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(signal);
  else sigaction(signal, &before, nullptr);  // the access is repeated and ends the process
}

// A handler needs its own stack: the thread's stack may have caused the fault. Go's threads have one.
void need_signal_stack() {
  stack_t have;
  if (sigaltstack(nullptr, &have) || !(have.ss_flags & SS_DISABLE)) return;
  static thread_local std::vector<char> stack;
  stack.resize(64 << 10);
  stack_t ours{};
  ours.ss_sp = stack.data();
  ours.ss_size = stack.size();
  sigaltstack(&ours, nullptr);
}

}  // namespace

CrashGuard::CrashGuard(void (*found)(const void *)) {
  need_signal_stack();
  on_found = found;
  guarded = pthread_self();
  struct sigaction ours{};
  ours.sa_sigaction = handle;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&ours.sa_mask);  // like Go's handler, which ours may call
  sigaction(SIGSEGV, &ours, &before_segv);
  sigaction(SIGBUS, &ours, &before_bus);
  active = true;
}

CrashGuard::~CrashGuard() {
  active = false;
  sigaction(SIGSEGV, &before_segv, nullptr);
  sigaction(SIGBUS, &before_bus, nullptr);
}

}  // namespace fake
