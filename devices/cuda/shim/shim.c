//go:build cuda && cgo && linux

#include "shim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The jump targets of trampolines.S, and their names in the same order, ended by an empty one.
extern void *troupe_cuda_table[] __attribute__((visibility("hidden")));
extern const char troupe_cuda_names[] __attribute__((visibility("hidden")));

enum { success = 0, not_initialized = 3, not_supported = 801 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int loaded;
static char why[1024];

// The target of a jump while the driver's function is unknown.
__attribute__((visibility("hidden"))) int troupe_cuda_missing(void) {
  return loaded ? not_supported : not_initialized;
}

// cu calls it when the program starts and ends the process if it fails. load calls the driver's own cuInit, so that the environment
// (CUDA_VISIBLE_DEVICES) is read only when a GPU is requested.
__attribute__((visibility("hidden"))) int cuInit(unsigned flags) {
  (void)flags;
  return success;
}

static void describe(void *library, int code) {
  int (*name)(int, const char **) = (int (*)(int, const char **))dlsym(library, "cuGetErrorName");
  int (*text)(int, const char **) = (int (*)(int, const char **))dlsym(library, "cuGetErrorString");
  const char *n = NULL, *t = NULL;
  if (!name || name(code, &n) != success || !n) n = "an unknown error";
  if (!text || text(code, &t) != success || !t) t = "no description";
  snprintf(why, sizeof why, "cuInit: %s (%d): %s", n, code, t);
}

static void load(void) {
  const char *file = getenv("TROUPE_LIBCUDA");
  if (!file || !*file) file = "libcuda.so.1";
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    snprintf(why, sizeof why, "the CUDA driver cannot be loaded: %s", reason ? reason : file);
    return;
  }
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
  if (!init) {
    snprintf(why, sizeof why, "%s is not a CUDA driver: it has no cuInit", file);
    return;
  }
  int code = init(0);
  if (code != success) {
    describe(library, code);
    return;
  }
  loaded = 1;
  void **entry = troupe_cuda_table;
  for (const char *name = troupe_cuda_names; *name; name += strlen(name) + 1, entry++) {
    void *f = dlsym(library, name);
    if (f) *entry = f;
  }
}

const char *troupe_cuda_open(void) {
  pthread_once(&once, load);
  return why[0] ? why : NULL;
}
