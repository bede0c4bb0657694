// Entry points about streams and events.
#include <chrono>

#include "queue.h"

using namespace fake;

namespace {

enum { default_flags = 0, non_blocking = 1 };
enum { event_disable_timing = 2 };

CUresult on_stream(const void *handle, const std::function<CUresult(Context &, const std::shared_ptr<Stream> &)> &work) {
  return in_context([&](Context &c) {
    CUresult error;
    auto s = stream_of(c, handle, &error);
    return s ? work(c, s) : error;
  });
}

CUresult on_event(const void *handle, const std::function<CUresult(Context &, const std::shared_ptr<Event> &)> &work) {
  return in_context([&](Context &c) {
    CUresult error;
    auto e = find(state().events, handle, &error);
    return e ? work(c, std::shared_ptr<Event>(*e)) : error;
  });
}

// ask runs one command and returns NOT_READY, or SUCCESS if nothing is left to run.
CUresult ask(Context &c, const Point &p) {
  if (reached(p)) return SUCCESS;
  advance(p);
  return c.broken ? c.broken : NOT_READY;
}

CUresult create_stream(Handle *stream, unsigned flags, int priority) {
  return in_context([&](Context &c) {
    if (flags > non_blocking) return INVALID_VALUE;
    std::erase_if(c.streams, [](auto &s) { return s->destroyed && s->queue.empty(); });
    auto s = std::make_shared<Stream>(Stream{c.handle, flags != non_blocking, priority});
    *stream = state().next_handle();
    state().streams[*stream] = s;
    c.streams.push_back(s);
    return SUCCESS;
  });
}

}  // namespace

API cuStreamCreate(Handle *stream, unsigned flags) { return create_stream(stream, flags, 0); }
API cuStreamCreateWithPriority(Handle *stream, unsigned flags, int priority) { return create_stream(stream, flags, priority); }

// Queued commands still run.
API cuStreamDestroy_v2(void *stream) {
  return on_stream(stream, [&](Context &c, const std::shared_ptr<Stream> &s) {
    if (s == c.legacy) return INVALID_HANDLE;
    s->destroyed = true;
    state().streams.erase((Handle)stream);
    return SUCCESS;
  });
}

API cuStreamSynchronize(void *stream) {
  return on_stream(stream, [&](Context &c, const std::shared_ptr<Stream> &s) { return reach(c, end_of(s)); });
}

API cuStreamQuery(void *stream) {
  return on_stream(stream, [&](Context &c, const std::shared_ptr<Stream> &s) { return ask(c, end_of(s)); });
}

API cuStreamGetFlags(void *stream, unsigned *flags) {
  return on_stream(stream, [&](Context &, const std::shared_ptr<Stream> &s) {
    *flags = s->blocking ? default_flags : non_blocking;
    return SUCCESS;
  });
}

API cuStreamGetPriority(void *stream, int *priority) {
  return on_stream(stream, [&](Context &, const std::shared_ptr<Stream> &s) { *priority = s->priority; return SUCCESS; });
}

// An event that was never recorded is not waited for. The event may belong to another context.
API cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  return on_stream(stream, [&](Context &c, const std::shared_ptr<Stream> &s) {
    CUresult error;
    auto e = find(state().events, event, &error);
    if (!e) return error;
    if (flags > 1) return INVALID_VALUE;
    return enqueue(c, s, [] { return SUCCESS; }, {(*e)->point});
  });
}

API cuEventCreate(Handle *event, unsigned flags) {
  return in_context([&](Context &c) {
    if (flags > 7) return INVALID_VALUE;
    *event = state().next_handle();
    state().events[*event] = std::make_shared<Event>(Event{c.handle, !(flags & event_disable_timing), {}});
    return SUCCESS;
  });
}

API cuEventDestroy_v2(void *event) {
  return on_event(event, [&](Context &, const std::shared_ptr<Event> &) {
    state().events.erase((Handle)event);
    return SUCCESS;
  });
}

API cuEventRecord(void *event, void *stream) {
  return on_event(event, [&](Context &, const std::shared_ptr<Event> &e) {
    return on_stream(stream, [&](Context &c, const std::shared_ptr<Stream> &s) {
      if (e->context != c.handle) return INVALID_HANDLE;
      e->point = {s, s->queued + 1};
      return enqueue(c, s, [e] {
        e->nanoseconds = std::chrono::steady_clock::now().time_since_epoch().count();
        return SUCCESS;
      });
    });
  });
}

API cuEventSynchronize(void *event) {
  return on_event(event, [&](Context &c, const std::shared_ptr<Event> &e) { return reach(c, Point(e->point)); });
}

API cuEventQuery(void *event) {
  return on_event(event, [&](Context &c, const std::shared_ptr<Event> &e) { return ask(c, Point(e->point)); });
}

API cuEventElapsedTime(float *milliseconds, void *from, void *to) {
  return on_event(from, [&](Context &, const std::shared_ptr<Event> &a) {
    return on_event(to, [&](Context &, const std::shared_ptr<Event> &b) {
      if (!a->timed || !b->timed || !a->point.stream || !b->point.stream) return INVALID_HANDLE;
      if (!reached(a->point) || !reached(b->point)) return NOT_READY;
      *milliseconds = (b->nanoseconds - a->nanoseconds) / 1e6f;
      return SUCCESS;
    });
  });
}
API cuEventElapsedTime_v2(float *milliseconds, void *from, void *to) { return cuEventElapsedTime(milliseconds, from, to); }
