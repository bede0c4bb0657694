// Accesses of kernels to memory that is not there.
#pragma once

namespace fake {

// While a CrashGuard lives, an access of this thread to memory that is not there calls found instead of
// ending the process. found leaves through a change of fibers and never returns. Accesses of other
// threads, which may be Go's, go to the handler that was there before.
class CrashGuard {
 public:
  explicit CrashGuard(void (*found)(const void *address));
  ~CrashGuard();
};

}  // namespace fake
