// The driver's objects. One lock guards them all, and is held while kernels run.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "errors.h"
#include "grid.h"
#include "memory.h"

namespace fake {

// Handles are pointer-shaped numbers that are never reused, so stale ones are detected.
typedef uint64_t Handle;

struct Stream;

// A Point of a stream is reached when this number of its commands are over.
struct Point { std::shared_ptr<Stream> stream; uint64_t commands = 0; };

struct Command {
  std::function<CUresult()> run;
  std::vector<Point> after;  // what must be over before it runs
};

struct Stream {
  Handle context;
  bool blocking;               // ordered with the default stream
  int priority = 0;
  bool destroyed = false;
  std::deque<Command> queue;
  uint64_t queued = 0, over = 0;  // totals
};

struct Event {
  Handle context;
  bool timed;
  Point point;                 // empty if never recorded
  int64_t nanoseconds = 0;     // when the point was reached
};

struct Function {
  Handle module;
  const Kernel *kernel;
  unsigned most_threads;       // of a block
  unsigned most_shared = 48 << 10;
};

struct Module {
  Handle context;
  std::map<std::string, Handle> functions;
};

struct Context {
  Handle handle;
  int device;                  // an ordinal
  unsigned flags;
  CUresult broken = SUCCESS;   // a sticky error
  std::shared_ptr<Stream> legacy;               // the default stream
  std::vector<std::shared_ptr<Stream>> streams; // all; destroyed ones while they have commands
  std::set<Handle> peers;      // contexts whose memory it may use
};

struct Device {
  int number;                  // among all that the machine has
  Arena memory;
  Handle primary = 0;
  unsigned retained = 0, primary_flags = 0;
};

struct State {
  std::recursive_mutex lock;
  bool initialized = false;
  std::vector<std::unique_ptr<Device>> devices;  // the visible ones
  Arena host;                                    // pinned memory allocated by the driver
  // Pinned memory of the process: by address, the size and the context that pinned it.
  struct Registered { size_t size; uint64_t owner; };
  std::map<uint64_t, Registered> registered;
  Handle issued = 0;
  std::map<Handle, std::shared_ptr<Context>> contexts;
  std::map<Handle, std::shared_ptr<Stream>> streams;
  std::map<Handle, std::shared_ptr<Event>> events;
  std::map<Handle, Module> modules;
  std::map<Handle, Function> functions;

  Handle next_handle() { return 0x100000 + 16 * issued++; }
  bool was_issued(const void *h) { return (Handle)h >= 0x100000 && (Handle)h < 0x100000 + 16 * issued; }
};

State &state();

// The contexts of the calling thread; the last is current.
std::vector<Handle> &thread_contexts();

// Settings from the environment.
int setting(const char *name, int otherwise);
uint64_t card_memory();
int card_compute();
// strike reports whether FAKE_CUDA_FAIL makes this event of a kind ("launch", "fault", "alloc") fail.
bool strike(const char *kind);

// device_at returns a device, or null for an invalid ordinal.
Device *device_at(int ordinal);
// find returns the object of a handle, or null and an error.
template <class Map> auto *find(Map &in, const void *handle, CUresult *error) {
  auto it = in.find((Handle)handle);
  if (it == in.end()) {
    *error = state().was_issued(handle) ? CONTEXT_IS_DESTROYED : INVALID_HANDLE;
    return (typename Map::mapped_type *)nullptr;
  }
  return &it->second;
}

std::shared_ptr<Context> create_context(int device, unsigned flags);
void destroy_context(Handle handle);

// Calls: every entry point runs its work under the lock through one of these.
typedef std::function<CUresult()> Work;
CUresult anytime(const Work &work);                    // even before cuInit
CUresult initialized(const Work &work);                // without a context
CUresult in_context(const std::function<CUresult(Context &)> &work);

}  // namespace fake

#define API extern "C" __attribute__((visibility("default"))) CUresult
