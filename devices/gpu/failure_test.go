package gpu

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

func wantError(t testing.TB, err error, code status.Code, parts ...string) {
	t.Helper()
	if err == nil || status.CodeOf(err) != code {
		t.Errorf("got %v: %v, want %v", status.CodeOf(err), err, code)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not tell %q", err.Error(), part)
		}
	}
}

func TestFailedLaunchFailsItsStep(t *testing.T) {
	for name, bad := range map[string]kernels.Launch{
		"no such function": {Function: "missing"},
		"a block too big":  {Function: "add", Block: [3]int{1 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, newMachine(1, 1<<20).cards[0], nil)
			x := upload(t, d, nil, 10, 1)
			defer x.Release()
			step, other := newStep(), newStep()
			d.Launch(inStep(step, "before"), add(x, x, 1))
			d.Launch(inStep(step, "culprit"), bad)
			d.Launch(inStep(step, "after"), add(x, x, 10))
			d.Launch(inStep(other, "fine"), add(x, x, 100))
			wantError(t, settle(t, d, step), status.Internal, "{{node culprit}}", bad.Function)
			if err := settle(t, d, other); err != nil {
				t.Errorf("the other step failed, too: %v", err)
			}
			if err := cancelled(step); !err.Derived {
				t.Errorf("what follows from the failure is no consequence: %v", err)
			}
			if got, err := fetch(t, d, nil, x); err != nil || got[0] != 102 {
				t.Errorf("got %v, %v; what follows in the failed step must not run", got, err)
			}
		})
	}
}

// cancelled waits until a step is cancelled, and returns the reason.
func cancelled(step *kernels.Step) *status.Error {
	c := make(chan error, 1)
	if _, ok := step.Cancellation.OnCancel(func(err error) { c <- err }); !ok {
		return status.From(step.Cancellation.Err())
	}
	return status.From(<-c)
}

// variable returns a variable of a device with a value in its memory.
func variable(t *testing.T, d *testDevice, value byte) *containers.Variable {
	t.Helper()
	r, err := d.Resources().LookupOrCreate("", "Var", "v", func() (containers.Resource, error) {
		return containers.NewVariable("v", tensor.Uint8), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	v := r.(*containers.Variable)
	v.Assign(upload(t, d, nil, 10, value))
	return v
}

func TestLoss(t *testing.T) {
	m := newMachine(1, 1<<20)
	d := open(t, m.cards[0], nil)
	isolated := &testDevice{Device: d.WithResources(containers.NewManager(nil, d.Name(), "test")).(*Device)}
	v, w := variable(t, d, 1), variable(t, isolated, 1)
	before := d.Incarnation()
	guilty, innocent, fine := newStep(), newStep(), newStep()
	x := upload(t, d, inStep(fine, "up"), 10, 1)
	if err := settle(t, d, fine); err != nil {
		t.Fatal(err)
	}
	kept, err := fetchTensor(t, d, x)
	if err != nil {
		t.Fatal(err)
	}
	d.Launch(inStep(guilty, "culprit"), kernels.Launch{Function: "fault"})
	d.Launch(inStep(innocent, "bystander"), add(x, x, 1))
	wantError(t, settle(t, d, innocent), status.Unavailable, "{{node culprit}}", "fault", "ILLEGAL_ADDRESS", "started anew", d.Name())
	wantError(t, settle(t, d, guilty), status.Unavailable, "{{node culprit}}")
	wantError(t, cancelled(guilty), status.Unavailable)
	d.revive(t)
	if kept.Data()[0] != 1 {
		t.Error("host memory was taken from under a tensor")
	}
	kept.Release()
	if d.Incarnation() == before {
		t.Error("the incarnation is the same")
	}
	if v.Initialized() || !v.Deleted() || w.Initialized() {
		t.Error("variables have outlived the device's memory")
	}
	runtime.KeepAlive(isolated)
	late := newStep()
	stale := inStep(late, "late")
	stale.Inputs = []kernels.Value{{Tensor: x}}
	d.Launch(stale, add(x, x, 1))
	wantError(t, settle(t, d, late), status.Aborted, "{{node late}}")
	if _, err := fetch(t, d, nil, x); status.CodeOf(err) != status.Aborted {
		t.Errorf("memory of a former life was read: %v", err)
	}
	x.Release()
	works(t, d)
}

// fetchTensor is fetch that keeps the tensor.
func fetchTensor(t *testing.T, d *testDevice, x *tensor.Tensor) (host *tensor.Tensor, err error) {
	done := make(chan struct{})
	d.Download(nil, x, func(h *tensor.Tensor, e error) {
		host, err = h, e
		close(done)
	})
	<-done
	return host, err
}

// works checks that a device computes.
func works(t testing.TB, d *testDevice) {
	t.Helper()
	step := newStep()
	ctx := inStep(step, "n")
	x := upload(t, d, ctx, 1000, 3)
	defer x.Release()
	d.Launch(ctx, add(x, x, 4))
	if got, err := fetch(t, d, ctx, x); err != nil || got[999] != 7 {
		t.Errorf("got %v, want 7: %v", got, err)
	}
	if err := settle(t, d, step); err != nil {
		t.Error(err)
	}
}

// TestLossOfASharedCard checks that two devices with parts of one card are lost together, and that both serve again.
func TestLossOfASharedCard(t *testing.T) {
	card := newMachine(1, 1<<20).cards[0]
	share := func(name string, part float64) *testDevice {
		return open(t, card, func(o *Options) { o.Name, o.MemoryFraction, o.AllowGrowth = name, part, false })
	}
	a, b := share("a", 0.2), share("b", 0.3)
	if a.MemoryLimit() != 209715 || b.MemoryLimit() != 314572 {
		t.Errorf("limits are %d and %d", a.MemoryLimit(), b.MemoryLimit())
	}
	works(t, a)
	works(t, b)
	step, other := newStep(), newStep()
	x := upload(t, b, inStep(other, "other"), 10, 1)
	a.Launch(inStep(step, "culprit"), kernels.Launch{Function: "fault"})
	wantError(t, settle(t, a, step), status.Unavailable, "a was lost", "{{node culprit}}")
	a.told(t, startedAnew)
	b.told(t, startedAnew)
	if err := cancelled(other); err.Code != status.Unavailable {
		t.Errorf("the step on the other device ended with %v", err)
	}
	x.Release()
	works(t, a)
	works(t, b)
	if card.resets != 1 {
		t.Errorf("the card was reset %d times", card.resets)
	}
	wantError(t, settle(t, b, other), status.Unavailable, "b was lost")
}

// TestLossAgain checks that a card that is lost again within the rest time is restarted after it, even if the other device on it is not
// used.
func TestLossAgain(t *testing.T) {
	card := newMachine(1, 1<<20).cards[0]
	share := func(name string) *testDevice {
		return open(t, card, func(o *Options) { o.Name, o.MemoryFraction, o.rest = name, 0.2, 200*time.Millisecond })
	}
	a, b := share("a"), share("b")
	for range 3 {
		step := newStep()
		a.Launch(inStep(step, "culprit"), kernels.Launch{Function: "fault"})
		wantError(t, settle(t, a, step), status.Unavailable, "a was lost", "{{node culprit}}")
		a.told(t, startedAnew)
		b.told(t, startedAnew)
		works(t, a)
	}
	works(t, b)
}

func TestOutOfService(t *testing.T) {
	card := newMachine(1, 1<<20).cards[0]
	d := open(t, card, nil)
	gone := errors.New("the card has fallen off the bus")
	card.m.mu.Lock()
	card.refuse = func(call string) error {
		if call == "Open" {
			return gone
		}
		return nil
	}
	card.m.mu.Unlock()
	step := newStep()
	d.Launch(inStep(step, "culprit"), kernels.Launch{Function: "fault"})
	wantError(t, settle(t, d, step), status.Unavailable, "{{node culprit}}")
	d.told(t, notStarted)
	step = newStep()
	d.Launch(inStep(step, "later"), kernels.Launch{Function: "add"})
	wantError(t, settle(t, d, step), status.Unavailable, gone.Error(), "{{node later}}")
	if _, err := d.Memory().New(tensor.Float32, tensor.Shape{1}); status.CodeOf(err) != status.Unavailable {
		t.Errorf("a device that is out of service gives memory: %v", err)
	}
	card.m.mu.Lock()
	card.refuse = nil
	card.m.mu.Unlock()
	d.revive(t)
	works(t, d)
}

// TestWorkThatDoesNotEnd checks that waiting for the card ends with the step, and that the memory is kept until the card is done.
func TestWorkThatDoesNotEnd(t *testing.T) {
	card := newMachine(1, 1<<20).cards[0]
	d := open(t, card, func(o *Options) { o.grace = time.Millisecond })
	card.m.shut("slow", true)
	step := newStep()
	ctx := inStep(step, "n")
	x := upload(t, d, ctx, 10, 1)
	slow := add(x, x, 1)
	slow.Function = "slow"
	d.Launch(ctx, slow)
	got := make(chan error, 1)
	d.Download(ctx, x, func(_ *tensor.Tensor, err error) { got <- err })
	x.Release()
	reason := status.Errorf(status.DeadlineExceeded, "too late")
	step.Cancellation.Cancel(reason)
	wantError(t, <-got, status.DeadlineExceeded, "too late")
	if d.Stats().InUse == 0 {
		t.Error("memory that the card uses was given back")
	}
	wantError(t, settle(t, d, step), status.Unavailable, "too late")
	card.m.shut("slow", false)
	works(t, d)
}

// TestQueueIsFull checks that a cancelled step does not wait for room in the queue of a card that hangs.
func TestQueueIsFull(t *testing.T) {
	card := newMachine(1, 1<<20).cards[0]
	d := open(t, card, func(o *Options) { o.grace = time.Millisecond })
	card.m.shut("slow", true)
	x := upload(t, d, nil, 1, 1)
	slow := add(x, x, 1)
	slow.Function = "slow"
	d.Launch(nil, slow)
	var fetching sync.WaitGroup
	const many = queueLimit + 2*waiterItems
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		for range many { // each is an event to wait for
			fetching.Add(1)
			d.Download(nil, x, func(host *tensor.Tensor, err error) {
				if err != nil {
					t.Error(err)
				} else {
					host.Release()
				}
				fetching.Done()
			})
		}
	}()
	step := newStep()
	step.Cancellation.Cancel(status.Errorf(status.Cancelled, "enough"))
	var err error
	for err == nil { // until the queue is full
		err = d.submit(inStep(step, "n"), command{kind: fillCommand, dst: x.Address(), bytes: 1}, nil)
	}
	wantError(t, err, status.Unavailable, "too much to do")
	wantError(t, settle(t, d, step), status.Unavailable, "too much to do")
	card.m.shut("slow", false)
	<-filled
	fetching.Wait()
	x.Release()
}

// TestCloseWhileWorkIsQueued checks that all waiting work completes with an error, and that the threads end.
func TestCloseWhileWorkIsQueued(t *testing.T) {
	card := newMachine(1, 8<<20).cards[0]
	d := open(t, card, nil)
	step := newStep()
	ctx := inStep(step, "n")
	x := upload(t, d, ctx, 10, 1)
	for range 3 * queueLimit {
		d.Launch(ctx, add(x, x, 1))
	}
	settled := make(chan error, 1)
	d.Settle(step, func(err error) { settled <- err })
	fetched := make(chan error, 1)
	d.Download(nil, x, func(t *tensor.Tensor, err error) {
		if t != nil {
			t.Release()
		}
		fetched <- err
	})
	x.Release()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range []chan error{settled, fetched} {
		if err := <-c; err != nil && status.CodeOf(err) != status.Cancelled {
			t.Errorf("ended with %v", err)
		}
	}
	after := newStep()
	d.Launch(inStep(after, "late"), add(x, x, 1))
	wantError(t, settle(t, d, after), status.Cancelled, "closed")
}

func TestOpenFails(t *testing.T) {
	card := newMachine(1, 1<<20).cards[0]
	for _, call := range []string{"Open", "MemoryInfo", "NewStream"} {
		card.refuse = func(c string) error {
			if c == call {
				return errors.New("no " + call)
			}
			return nil
		}
		_, err := Open(Options{Card: card, Name: "d", Host: tensor.Host})
		wantError(t, err, status.Unavailable, "no "+call, "Fake", "d")
	}
	if card.opened != 0 || len(card.streams) != 0 {
		t.Errorf("%d contexts and %d streams are left", card.opened, len(card.streams))
	}
}
