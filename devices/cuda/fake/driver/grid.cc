#include "grid.h"

#include <cstdarg>
#include <cstdio>
#include <map>

#include "crash.h"
#include "fake_kernel.h"
#include "fiber.h"

// What kernels see as constants.
extern "C" {
FakeIndex fake_thread_index, fake_block_index, fake_block_size, fake_grid_size;
alignas(128) unsigned char fake_dynamic_shared[fake::max_shared + 256];
}

namespace fake {
namespace {

struct Copy { void *to; const void *from; unsigned bytes; bool valid; };

// A thread of a block. Fresh threads have no fiber yet. Most never need their own, since a thread that ends without waiting leaves its
// fiber to the next.
struct Thread {
  enum State : uint8_t { fresh, ready, at_barrier, in_warp, done } state;
  FakeIndex index;
  Fiber *fiber;
  int line;                                // of the barrier at which it waits
  std::vector<Copy> open;                  // its asynchronous copies since the last commit
  std::vector<std::vector<Copy>> groups;   // earlier ones, a group for each commit
};

// State of lanes that meet in a warp operation.
struct Warp { u32 came; const char *what; FakeAct *act; void *brought[32]; };

std::vector<Thread> threads;
std::vector<Warp> warps;
std::vector<Fiber *> idle;
unsigned count;             // threads of the block
unsigned current;           // the running thread
void *scheduler;            // where run_block resumes
int fault;
const Kernel *kernel;
const unsigned char *arguments;
unsigned launches;          // varies the order of threads from launch to launch

void thread_main() {
  for (;;) {
    kernel->call(kernel->function, arguments);
    threads[current].state = Thread::done;
    fake_switch(&threads[current].fiber->sp, scheduler);
  }
}

void wait(Thread::State state) {
  Thread &t = threads[current];
  t.state = state;
  fake_switch(&t.fiber->sp, scheduler);
}

void resume(unsigned number) {
  Thread &t = threads[number];
  if (!t.fiber) {
    if (idle.empty()) idle.push_back(make_fiber(thread_main));
    t.fiber = idle.back();
    idle.pop_back();
  }
  t.state = Thread::ready;
  current = number;
  fake_thread_index = t.index;
  fake_switch(&scheduler, t.fiber->sp);
  if (t.state == Thread::done) {
    idle.push_back(t.fiber);
    t.fiber = nullptr;
  }
}

// run_warp runs the threads of a warp until each has ended or is at a barrier, and reports whether any ran. Within a warp only the required
// operations are in step.
bool run_warp(unsigned warp, bool backwards) {
  unsigned first = warp * 32, n = count - first < 32 ? count - first : 32;
  bool any = false;
  for (bool ran = true; ran && !fault;) {
    ran = false;
    for (unsigned i = 0; i < n && !fault; i++) {
      unsigned number = first + (backwards ? n - 1 - i : i);
      if (threads[number].state > Thread::ready) continue;
      resume(number);
      any = ran = true;
    }
  }
  return any;
}

void describe_deadlock() {
  unsigned waiting = 0, done = 0, last = 0;
  const char *what = "";
  for (unsigned i = 0; i < count; i++) {
    if (threads[i].state == Thread::in_warp) waiting++, last = i, what = warps[i / 32].what;
    if (threads[i].state == Thread::done) done++;
  }
  fprintf(stderr, "fake CUDA: %s: thread %u and %u others wait at %s for lanes that never come; %u of %u threads are over\n",
          kernel->name, last, waiting - 1, what, done, count);
  fault = FAKE_LAUNCH_FAILED;
}

// release releases the threads waiting at a barrier once all unfinished threads wait.
void release() {
  int line = 0;
  for (unsigned i = 0; i < count; i++) {
    Thread &t = threads[i];
    if (t.state == Thread::in_warp) return describe_deadlock();
    if (t.state != Thread::at_barrier) continue;
    if (line && t.line != line) {
      fprintf(stderr, "fake CUDA: %s: threads of a block are at the barriers of lines %d and %d\n", kernel->name, line, t.line);
      fault = FAKE_LAUNCH_FAILED;
      return;
    }
    line = t.line;
    t.state = Thread::ready;
  }
}

void run_block(unsigned salt) {
  for (unsigned i = 0; i < count; i++) {
    Thread &t = threads[i];
    t.state = Thread::fresh;
    t.open.clear();
    t.groups.clear();
  }
  for (Warp &w : warps) w.came = 0;
  // Warps far ahead of each other, in both orders, expose missing barriers.
  for (unsigned phase = salt; !fault; phase++) {
    bool any = false;
    for (unsigned w = 0; w < warps.size() && !fault; w++)
      any |= run_warp(phase & 1 ? (unsigned)warps.size() - 1 - w : w, phase & 1);
    if (!any) return;  // all have ended
    if (!fault) release();
  }
  for (unsigned i = 0; i < count; i++)
    if (Fiber *&f = threads[i].fiber) {
      restart(f, thread_main);
      idle.push_back(f);
      f = nullptr;
    }
}

constexpr unsigned shared_guard = 128;

void prepare(Size3 grid, Size3 block) {
  fake_grid_size = {grid.x, grid.y, grid.z};
  fake_block_size = {block.x, block.y, block.z};
  count = block.x * block.y * block.z;
  if (threads.size() < count) threads.resize(count);
  warps.resize((count + 31) / 32);
  for (unsigned i = 0; i < count; i++)
    threads[i].index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
}

void run_blocks(Size3 grid, unsigned shared) {
  for (unsigned z = 0; z < grid.z; z++)
    for (unsigned y = 0; y < grid.y; y++)
      for (unsigned x = 0; x < grid.x; x++) {
        fake_block_index = {x, y, z};
        memset(kernel->shared, 0xff, kernel->shared_end - kernel->shared);
        memset(fake_dynamic_shared, 0xff, shared + shared_guard);
        run_block(launches + x + y + z);
        for (unsigned i = 0; i < shared_guard && !fault; i++)
          if (fake_dynamic_shared[shared + i] != 0xff) {
            fprintf(stderr, "fake CUDA: %s: written behind its %u bytes of dynamic shared memory\n", kernel->name, shared);
            fault = FAKE_ILLEGAL_ADDRESS;
          }
        if (fault) return;
      }
}

std::map<std::string, Kernel> &kernels() {
  static std::map<std::string, Kernel> all;
  return all;
}

}  // namespace

void add_kernel(const Kernel &k) {
  if (!kernels().emplace(k.name, k).second) {
    fprintf(stderr, "fake CUDA: two kernels are named %s\n", k.name);
    abort();
  }
}

const Kernel *find_kernel(const std::string &name) {
  auto k = kernels().find(name);
  return k == kernels().end() ? nullptr : &k->second;
}

int run_grid(const Kernel &k, Size3 grid, Size3 block, unsigned shared, const unsigned char *parameters) {
  kernel = &k;
  arguments = parameters;
  fault = 0;
  launches++;
  prepare(grid, block);
  CrashGuard guard([](const void *address) {
    fake_fault(FAKE_ILLEGAL_ADDRESS, "an access to %p, where nothing is", address);
  });
  run_blocks(grid, shared);
  return fault;
}

}  // namespace fake

using namespace fake;

void fake_fault(FakeFault code, const char *format, ...) {
  FakeIndex t = fake_thread_index, b = fake_block_index;
  fprintf(stderr, "fake CUDA: %s: thread %u,%u,%u of block %u,%u,%u: ", kernel->name, t.x, t.y, t.z, b.x, b.y, b.z);
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  fault = code;
  wait(Thread::ready);
  __builtin_unreachable();  // the fiber is restarted
}

void fake_syncthreads(int line) {
  threads[current].line = line;
  wait(Thread::at_barrier);
}

int fake_lane() { return current % 32; }

void fake_warp(const char *what, u32 mask, void *mine, FakeAct *act) {
  Warp &w = warps[current / 32];
  unsigned first = current / 32 * 32;
  if (mask != 0xffffffff) fake_fault(FAKE_LAUNCH_FAILED, "%s with the mask %#x: all 32 lanes have to come", what, mask);
  if (count - first < 32) fake_fault(FAKE_LAUNCH_FAILED, "%s in a warp of %u threads", what, count - first);
  if (w.came && w.act != act) fake_fault(FAKE_LAUNCH_FAILED, "%s where other lanes of the warp are at %s", what, w.what);
  w.what = what;
  w.act = act;
  w.brought[current % 32] = mine;
  w.came |= 1u << current % 32;
  if (w.came != 0xffffffff) return wait(Thread::in_warp);
  w.came = 0;
  act(w.brought);
  for (unsigned i = first; i < first + 32; i++)
    if (i != current) threads[i].state = Thread::ready;
}

void fake_copy_async(void *to, const void *from, unsigned bytes, bool valid) {
  if ((uintptr_t)to % bytes || (valid && (uintptr_t)from % bytes))
    fake_fault(FAKE_MISALIGNED, "copy_async of %u bytes from %p to %p", bytes, from, to);
  threads[current].open.push_back({to, from, bytes, valid});
}

void fake_copy_async_commit() {
  Thread &t = threads[current];
  t.groups.push_back(std::move(t.open));
  t.open.clear();
}

void fake_copy_async_wait(unsigned groups) {
  Thread &t = threads[current];
  while (t.groups.size() > groups) {
    for (const Copy &c : t.groups.front()) {
      if (c.valid) memcpy(c.to, c.from, c.bytes);
      else memset(c.to, 0, c.bytes);
    }
    t.groups.erase(t.groups.begin());
  }
}
