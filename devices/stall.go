package devices

import (
	"sync"

	"github.com/troupe-run/troupe/kernels"
)

// stallable is the size in bytes above which a tensor must wait for room before it is sent.
const stallable = 64 << 10

// waitingSend is a send that waits for room.
type waitingSend struct {
	run  *run
	dst  string
	size int
	room func(device string, size int, ready func()) bool

	mu       sync.Mutex // held until call is set
	call     *asyncCall
	withdraw func() bool
}

// stall makes a send wait if there is no room for it, and reports whether it waits. The run fires nothing meanwhile, since further sends
// would only fill memory. Room becomes free as the network takes earlier sends, so it does not depend on the run.
func (r *run) stall(t task, ins []kernels.Value) bool {
	if r.step.Runner == nil || t.dead || len(ins) == 0 || ins[0].Tensor == nil {
		return false
	}
	size := ins[0].Tensor.DataSize()
	if size <= stallable {
		return false
	}
	dst, err := t.n.graph.Attrs.Str("recv_device")
	if err != nil {
		return false // the kernel reports the error
	}
	w := &waitingSend{run: r, dst: dst, size: size, room: r.step.Runner.Room}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.room(dst, size, w.retry) {
		return false
	}
	w.call = r.depart(t, ins)
	w.call.stall = true
	r.stalls++
	var ok bool
	if w.withdraw, ok = r.step.Cancellation.OnCancel(w.cancel); !ok {
		w.cancel(r.step.Cancellation.Err())
	}
	return true
}

// retry sends if there is room now.
func (w *waitingSend) retry() {
	w.mu.Lock()
	call, withdraw := w.call, w.withdraw
	w.mu.Unlock()
	if call.reported.Load() || !w.room(w.dst, w.size, w.retry) {
		return
	}
	if call.n.async != nil {
		if withdraw == nil || withdraw() {
			w.run.setOff(call)
		}
		return
	}
	if call.reported.Swap(true) {
		return
	}
	if withdraw != nil {
		withdraw()
	}
	w.run.report(call, call.compute(), false)
}

// cancel ends a waiting send with an error.
func (w *waitingSend) cancel(err error) {
	if !w.call.reported.Swap(true) {
		w.run.report(w.call, err, false)
	}
}
