package gpu

import (
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// fetched holds the results of a run.
type fetched struct {
	mu   sync.Mutex
	got  map[int]*tensor.Tensor
	dead map[int]bool
}

func (f *fetched) Fetch(index int, t *tensor.Tensor, dead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if dead {
		f.dead[index] = true
	} else {
		f.got[index] = t
	}
}

// compile makes the program of a graph's text. The program is closed when the test ends.
func compile(t *testing.T, d *testDevice, text string) *devices.Program {
	t.Helper()
	g, err := graph.Rebuild(kernelstest.GraphDef(t, text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := devices.Compile(g, d.Device, devices.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// execute runs a program. It returns the first elements of its results, and which results are dead.
func execute(t *testing.T, d *testDevice, p *devices.Program, feeds ...*tensor.Tensor) (map[int]int64, map[int]bool, error) {
	t.Helper()
	f := &fetched{got: map[int]*tensor.Tensor{}, dead: map[int]bool{}}
	fed := devices.Feeds(feeds)
	step := &kernels.Step{ID: 1, Feeds: &fed, Fetches: f, Rendezvous: devices.NewRendezvous(nil, nil), Cancellation: &kernels.Cancellation{}, Container: "__per_step_1"}
	ended := make(chan error, 1)
	p.Run(step, func(err error) { ended <- err })
	var err error
	select {
	case err = <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the run does not end")
	}
	values := map[int]int64{}
	for i, x := range f.got {
		if err == nil {
			host, e := fetchTensor(t, d, x)
			if e != nil {
				t.Fatal(e)
			}
			values[i] = tensor.Of[int64](host)[0]
			host.Release()
		}
		x.Release()
	}
	return values, f.dead, err
}

func TestProgram(t *testing.T) {
	d := open(t, newMachine(1, 1<<20).cards[0], nil)
	x := kernelstest.Iota[int64](tensor.Int64, kernelstest.S(100))
	defer x.Release()
	tensor.Of[int64](x)[0] = 3
	p := compile(t, d, `
		x = _Arg() index=0
		c = Const() value=5 wide=true
		one = Const() value=1
		low = Rank(one)
		high = Rank(c)
		p = Less(low, high) T=int32
		w = Switch(x, p)
		no = Neg(w)
		yes = Square(w:1)
		m = Merge(no, yes)
		y = Neg(m)
		z = Square(c)
		r0 = _Retval(y) index=0
		r1 = _Retval(z) index=1
		r2 = _Retval(no) index=2`)
	for range 3 {
		got, dead, err := execute(t, d, p, x)
		if err != nil || got[0] != -9 || got[1] != 25 || !dead[2] {
			t.Errorf("got %v, dead %v: %v", got, dead, err)
		}
	}
}

// TestProgramFails checks that a failure on the card is an error of its node, and that the device continues.
func TestProgramFails(t *testing.T) {
	d := open(t, newMachine(1, 1<<20).cards[0], nil)
	bad := compile(t, d, `
		c = Const() value=5 wide=true
		culprit = Abs(c)
		after = Neg(culprit)
		r0 = _Retval(after) index=0`)
	for range 2 {
		_, _, err := execute(t, d, bad)
		wantError(t, err, status.Internal, "{{node culprit}}", "abs_i64", "NOT_FOUND")
	}
	good := compile(t, d, `
		c = Const() value=5 wide=true
		n = Neg(c)
		r0 = _Retval(n) index=0`)
	if got, _, err := execute(t, d, good); err != nil || got[0] != -5 {
		t.Errorf("got %v: %v", got, err)
	}
}

// TestProgramOutlivesItsDevice checks that a program whose constants were lost with the device fails instead of reading other memory.
func TestProgramOutlivesItsDevice(t *testing.T) {
	d := open(t, newMachine(1, 1<<20).cards[0], nil)
	const text = `
		c = Const() value=5 wide=true
		n = Neg(c)
		s = Square(n)
		r0 = _Retval(s) index=0`
	old := compile(t, d, text)
	if got, _, err := execute(t, d, old); err != nil || got[0] != 25 {
		t.Errorf("got %v: %v", got, err)
	}
	fatal := compile(t, d, `
		c = Const() value=5 wide=true
		culprit = Sign(c)
		after = Neg(culprit)
		r0 = _Retval(after) index=0`)
	_, _, err := execute(t, d, fatal)
	wantError(t, err, status.Unavailable, "{{node culprit}}", "ILLEGAL_ADDRESS")
	d.told(t, startedAnew)
	_, _, err = execute(t, d, old)
	wantError(t, err, status.Aborted, "started anew", "{{node n}}")
	if got, _, err := execute(t, d, compile(t, d, text)); err != nil || got[0] != 25 {
		t.Errorf("after the loss: got %v: %v", got, err)
	}
}
