// The order in which queued commands run.
//
// A command runs only when its result is needed, so work that was not waited for has not happened. FAKE_CUDA_EAGER=1 runs each at once.
#pragma once
#include "state.h"

namespace fake {

// stream_of returns the stream of a handle; null, 1 and 2 mean the default stream.
std::shared_ptr<Stream> stream_of(Context &c, const void *handle, CUresult *error);
// enqueue adds a command. It returns errors only of commands that run at once.
CUresult enqueue(Context &c, const std::shared_ptr<Stream> &s, std::function<CUresult()> run, std::vector<Point> after = {});
Point end_of(const std::shared_ptr<Stream> &s);
bool reached(const Point &p);
// reach runs what is needed to reach a point, and returns the error that broke context c.
CUresult reach(Context &c, const Point &p);
// advance runs one command that is needed for the point, which must not be reached yet.
void advance(const Point &p);
// drain runs all queued commands of the context, the latest stream first.
CUresult drain(Context &c);

}  // namespace fake
