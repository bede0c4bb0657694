package batch

import (
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// unbatcher distributes the rows of batches to the steps that they belong to, like TensorFlow's UnbatchResource. The step that has the
// batch hands rows to the steps that already wait, and stores the others here. Unclaimed rows are dropped after the timeout.
type unbatcher struct {
	timeout time.Duration
	mu      sync.Mutex
	waiting map[int64]*unbatchWait
	rows    map[int64]unclaimed
	timer   *time.Timer // runs while something waits
	ticking bool
	deleted bool
}

// unbatchWait is a step that waits for its rows.
type unbatchWait struct {
	ctx      *kernels.Context
	end      func(error)
	deadline time.Time
}

// unclaimed holds rows that wait for their step.
type unclaimed struct {
	*tensor.Tensor
	deadline time.Time
}

func newUnbatch(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	timeout := a.Int32("timeout_micros")
	if err := a.Err(); err != nil {
		return nil, err
	}
	where, err := newMeeting(c, kindUnbatcher, func() (*unbatcher, error) {
		u := &unbatcher{timeout: max(0, time.Duration(timeout)*time.Microsecond), waiting: map[int64]*unbatchWait{}, rows: map[int64]unclaimed{}}
		u.timer = time.AfterFunc(time.Hour, contain.Func(nil, "An unbatcher", u.expire, nil))
		u.timer.Stop()
		return u, nil
	})
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		u, err := where.get()
		if err != nil {
			done(err)
			return
		}
		kernels.Wait(ctx, kernels.Awaited{Text: "the step that has its part of the batch"}, done, func(end func(error)) func(error) {
			ids, pieces, err := cutBatch(ctx)
			if err != nil {
				end(err)
				return func(error) {}
			}
			id, w := tensor.Of[int64](ctx.Input(2))[0], &unbatchWait{ctx: ctx, end: end}
			u.enter(id, w, ids, pieces)
			return func(cause error) { u.endWait(id, w, kernels.Cancelled(cause)) }
		})
	}), nil
}

// cutBatch checks an Unbatch's inputs and splits its batch into the rows of each step.
func cutBatch(ctx *kernels.Context) (ids []int64, pieces []*tensor.Tensor, err error) {
	data, index, id := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	switch {
	case data.Rank() == 0:
		return nil, nil, status.InvalidArgumentf("Wrong shape for batched tensor. Expected at least one dimension; Got: []")
	case index.Rank() != 2:
		return nil, nil, status.InvalidArgumentf("Wrong shape for index tensor. Expected 2 dimensions; Got: %v.", index.Shape())
	case index.Dim(0) > data.Dim(0):
		return nil, nil, status.InvalidArgumentf("Wrong shape for index tensor. Expected 0th dimension size to be no greater than %d; Got: %d.", data.Dim(0), index.Dim(0))
	case index.Dim(1) != 3:
		return nil, nil, status.InvalidArgumentf("Wrong shape for index tensor. Expected 1st dimension size to be 3 ; Got: %d.", index.Dim(1))
	case id.Rank() != 0:
		return nil, nil, status.InvalidArgumentf("Input id should be scalar; Got: a tensor of shape %v.", id.Shape())
	}
	values := tensor.Of[int64](index)
	left, at := data.Dim(0), 0
	for i := range index.Dim(0) {
		from, to := values[3*i+1], values[3*i+2]
		if from < 0 || to < from || to-from > int64(left) {
			kernels.ReleaseTensors(pieces)
			return nil, nil, status.InvalidArgumentf("Sum of split sizes must not exceed dim0-size of input tensor")
		}
		if err := ctx.Device.Pool().Admits(); err != nil {
			kernels.ReleaseTensors(pieces)
			return nil, nil, err
		}
		n := int(to - from)
		ids = append(ids, values[3*i])
		pieces = append(pieces, data.Rows(at, at+n))
		left, at = left-n, at+n
	}
	return ids, pieces, nil
}

// told is a step that has received its rows or an error.
type told struct {
	*unbatchWait
	rows *tensor.Tensor
	err  error
}

func tellAll(list []told) {
	for _, t := range list {
		if t.rows != nil {
			t.ctx.SetOutput(0, t.rows)
		}
		t.end(t.err)
	}
}

// enter distributes the pieces of a batch to the steps ids, and registers w to receive the rows of id.
func (u *unbatcher) enter(id int64, w *unbatchWait, ids []int64, pieces []*tensor.Tensor) {
	u.mu.Lock()
	tell := u.exchange(id, w, ids, pieces)
	u.tick()
	u.mu.Unlock()
	tellAll(tell)
}

func (u *unbatcher) exchange(id int64, w *unbatchWait, ids []int64, pieces []*tensor.Tensor) (tell []told) {
	w.deadline = time.Now().Add(u.timeout)
	mine, have := u.rows[id]
	switch {
	case u.deleted:
		kernels.ReleaseTensors(pieces)
		return []told{{w, nil, status.Errorf(status.Aborted, "The unbatching resource was deleted.")}}
	case w.ctx.Ended() != nil:
		kernels.ReleaseTensors(pieces)
		return []told{{w, nil, kernels.Cancelled(w.ctx.Ended())}}
	case have:
		delete(u.rows, id)
		kernels.ReleaseTensors(pieces)
		return []told{{w, mine.Tensor, nil}}
	case u.waiting[id] != nil:
		kernels.ReleaseTensors(pieces)
		return []told{{w, nil, status.Errorf(status.AlreadyExists, "Multiple session runs with the same batch key.")}}
	}
	u.waiting[id] = w
	for i, key := range ids {
		if to := u.waiting[key]; to != nil && to.ctx.Ended() == nil {
			delete(u.waiting, key)
			tell = append(tell, told{to, pieces[i], nil})
			continue
		}
		if _, twice := u.rows[key]; twice {
			kernels.ReleaseTensors(pieces[i:])
			if u.waiting[id] == w {
				delete(u.waiting, id)
				tell = append(tell, told{w, nil, status.Errorf(status.AlreadyExists, "Multiple tensors returned for same batch key.")})
			}
			return tell
		}
		u.rows[key] = unclaimed{pieces[i], w.deadline}
	}
	return tell
}

// endWait ends a wait with an error.
func (u *unbatcher) endWait(id int64, w *unbatchWait, err error) {
	u.mu.Lock()
	waits := u.waiting[id] == w
	if waits {
		delete(u.waiting, id)
	}
	u.mu.Unlock()
	if waits {
		w.end(err)
	}
}

// tick runs the timer while anything waits. The caller holds u.mu.
func (u *unbatcher) tick() {
	if busy := len(u.waiting)+len(u.rows) > 0; busy && !u.ticking {
		u.timer.Reset(time.Until(u.next()))
		u.ticking = true
	}
}

// next returns the earliest deadline.
func (u *unbatcher) next() (first time.Time) {
	for _, w := range u.waiting {
		if first.IsZero() || w.deadline.Before(first) {
			first = w.deadline
		}
	}
	for _, r := range u.rows {
		if first.IsZero() || r.deadline.Before(first) {
			first = r.deadline
		}
	}
	return first
}

// expire ends waits and drops rows whose deadline has passed.
func (u *unbatcher) expire() {
	u.mu.Lock()
	now := time.Now()
	var tell []told
	for id, w := range u.waiting {
		if !w.deadline.After(now) {
			delete(u.waiting, id)
			tell = append(tell, told{w, nil, status.Errorf(status.DeadlineExceeded, "Batched data did not arrive within timeout window.")})
		}
	}
	for id, r := range u.rows {
		if !r.deadline.After(now) {
			delete(u.rows, id)
			r.Release()
		}
	}
	u.ticking = false
	u.tick()
	u.mu.Unlock()
	tellAll(tell)
}

// Describe describes the unbatcher for listings.
func (u *unbatcher) Describe() string { return "UnbatchResource" }

// Deleted reports whether Close was called.
func (u *unbatcher) Deleted() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.deleted
}

// Close ends the waits and drops the rows.
func (u *unbatcher) Close() {
	u.mu.Lock()
	u.deleted = true
	u.timer.Stop()
	var tell []told
	for id, w := range u.waiting {
		delete(u.waiting, id)
		tell = append(tell, told{w, nil, status.Errorf(status.Aborted, "The unbatching resource was deleted.")})
	}
	for id, r := range u.rows {
		delete(u.rows, id)
		r.Release()
	}
	u.mu.Unlock()
	tellAll(tell)
}
