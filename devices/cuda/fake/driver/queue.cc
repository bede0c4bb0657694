#include "queue.h"

#include <algorithm>

namespace fake {

std::shared_ptr<Stream> stream_of(Context &c, const void *handle, CUresult *error) {
  if ((uintptr_t)handle <= 2) return c.legacy;
  auto s = find(state().streams, handle, error);
  if (!s) return nullptr;
  if ((*s)->context != c.handle) {
    *error = INVALID_CONTEXT;
    return nullptr;
  }
  return *s;
}

Point end_of(const std::shared_ptr<Stream> &s) { return {s, s->queued}; }

bool reached(const Point &p) { return !p.stream || p.stream->over >= p.commands; }

CUresult enqueue(Context &c, const std::shared_ptr<Stream> &s, std::function<CUresult()> run, std::vector<Point> after) {
  if (s == c.legacy) {  // after everything in blocking streams; those continue after it
    for (auto &other : c.streams)
      if (other->blocking && other != s) after.push_back(end_of(other));
  } else if (s->blocking) {
    after.push_back(end_of(c.legacy));
  }
  std::erase_if(after, reached);
  s->queue.push_back({std::move(run), std::move(after)});
  s->queued++;
  return setting("FAKE_CUDA_EAGER", 0) ? reach(c, end_of(s)) : SUCCESS;
}

void advance(const Point &target) {
  Point p = target;
  for (;;) {  // to a command that waits for nothing; commands wait only for older ones
    auto &after = p.stream->queue.front().after;
    auto needed = std::find_if(after.begin(), after.end(), [](const Point &q) { return !reached(q); });
    if (needed == after.end()) break;
    p = Point(*needed);
  }
  Command command = std::move(p.stream->queue.front());
  p.stream->queue.pop_front();
  auto context = state().contexts.find(p.stream->context);
  if (context != state().contexts.end() && !context->second->broken) context->second->broken = command.run();
  p.stream->over++;
}

CUresult reach(Context &c, const Point &p) {
  while (!reached(p)) advance(p);
  return c.broken;
}

CUresult drain(Context &c) {
  auto streams = c.streams;
  for (auto s = streams.rbegin(); s != streams.rend(); ++s) reach(c, end_of(*s));
  return c.broken;
}

}  // namespace fake
