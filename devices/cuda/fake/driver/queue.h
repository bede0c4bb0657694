// The order in which queued commands run.
//
// A command runs when somebody needs it and not before, so that what was not waited for has not
// happened. FAKE_CUDA_EAGER=1 runs each at once.
#pragma once
#include "state.h"

namespace fake {

// stream_of gives the stream of a handle, the default stream for null, 1 and 2.
std::shared_ptr<Stream> stream_of(Context &c, const void *handle, CUresult *error);
// enqueue adds a command, and tells only about what ran at once.
CUresult enqueue(Context &c, const std::shared_ptr<Stream> &s, std::function<CUresult()> run, std::vector<Point> after = {});
Point end_of(const std::shared_ptr<Stream> &s);
bool reached(const Point &p);
// reach runs what is needed until a point, and gives the error that broke the context c.
CUresult reach(Context &c, const Point &p);
// advance runs one command that is needed for the point, which is not reached.
void advance(const Point &p);
// drain runs all that the context has queued, the latest stream first.
CUresult drain(Context &c);

}  // namespace fake
