// Accesses of kernels to unmapped memory.
#pragma once

namespace fake {

// While a CrashGuard exists, an access of this thread to unmapped memory calls found instead of ending the process. found leaves by
// switching fibers and never returns. Accesses of other threads, which may be Go's, go to the previous handler.
class CrashGuard {
 public:
  explicit CrashGuard(void (*found)(const void *address));
  ~CrashGuard();
};

}  // namespace fake
