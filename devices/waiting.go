package devices

// What a run takes besides its tensors counts as memory of its device, and so of its step, session and client, while the run waits: runs that wait
// may be many, as when a function that dequeues is called by functions that call one another. A run that does not wait needs to count nothing.
const (
	// runBytes is about what a run takes by itself, with the call of a function that it belongs to; awayBytes is what a kernel takes that it has
	// started, such as an operation that waits in a queue.
	runBytes  = 1 << 10
	awayBytes = 1 << 10
	// windowBytes is what the room for an iteration takes.
	windowBytes = 8
	// uncounted bounds what a run may take before it waits.
	uncounted = 256 << 10
)

// bytes returns what an iteration of the frame takes.
func (f *frameInfo) bytes() int64 {
	const fixed, perNode, perSlot = 80, 32, 16 // a nodeState, a task, a value
	return fixed + perNode*int64(len(f.template)) + perSlot*int64(f.slots)
}

// bytes returns about what the run takes.
func (r *run) bytes() int64 {
	return runBytes + r.iterations + windowBytes*int64(r.windows) + awayBytes*int64(r.away)
}

// hold counts what the run takes. The error is RESOURCE_EXHAUSTED.
func (r *run) hold() error {
	more := r.bytes() - r.held
	if more <= 0 { // it has taken more before, and may again
		return nil
	}
	if err := r.ctx.Device.Pool().Reserve(more); err != nil {
		return err
	}
	r.held += more
	return nil
}

// grow fails a run that has grown by more than it may before it waits, and for which there is no memory.
func (r *run) grow() {
	if r.bytes() > r.held+uncounted {
		if err := r.hold(); err != nil {
			r.fail(nil, err)
		}
	}
}
