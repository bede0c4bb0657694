package devices

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/partition"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// invented is an accelerator without functions: the test holds its memory, and work is done as soon as it is issued. The tests substitute
// kernels for those that would launch something.
type invented struct {
	*CPU
	t     testing.TB
	name  string
	peers map[string]*invented // of the task, including this one

	mu     sync.Mutex
	next   uint64
	memory map[uint64][]byte
	broken error // error of Downloads and Settle, or nil
	moves  map[string]int
}

var (
	_ kernels.Accelerator = (*invented)(nil)
	_ kernels.Peer        = (*invented)(nil)
)

func (d *invented) Name() string          { return d.name }
func (d *invented) Type() string          { return "GPU" }
func (d *invented) Memory() tensor.Memory { return d }
func (d *invented) Card() kernels.Card {
	return kernels.Card{Compute: 90, Processors: 1, SharedMemory: 1 << 10}
}

func (d *invented) New(dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	d.mu.Lock()
	d.next += 1 << 32
	addr, size := d.next, shape.Elements()*dtype.Size()
	d.memory[addr] = make([]byte, size)
	d.mu.Unlock()
	return tensor.FromDevice(dtype, shape, tensor.DeviceBuffer(d, addr, size))
}

func (d *invented) Holds(t *tensor.Tensor) bool { return t.Home() == tensor.Home(d) }

func (d *invented) Free(b *tensor.Buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.memory[b.Address()] == nil {
		d.t.Errorf("%s: a buffer was freed twice", d.name)
	}
	delete(d.memory, b.Address())
}

// bytes returns the elements of a tensor on the device.
func (d *invented) bytes(t *tensor.Tensor) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.Holds(t) {
		panic(fmt.Sprintf("%s was given a tensor that lies elsewhere", d.name))
	}
	return d.memory[t.Address()][:t.DataSize()]
}

func (d *invented) int64s(t *tensor.Tensor) []int64 {
	b := d.bytes(t)
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

func (d *invented) count(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.moves[what]++
}

func (d *invented) problem() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.broken
}

func (d *invented) Launch(_ *kernels.Context, l kernels.Launch) {
	d.t.Errorf("%s was launched", l.Function)
}

func (d *invented) Copy(_ *kernels.Context, dst, src *tensor.Tensor) {
	copy(d.bytes(dst), d.bytes(src))
}

func (d *invented) Fill(_ *kernels.Context, dst *tensor.Tensor, value byte) {
	for i, b := 0, d.bytes(dst); i < len(b); i++ {
		b[i] = value
	}
}

func (d *invented) Upload(_ *kernels.Context, host *tensor.Tensor) (*tensor.Tensor, error) {
	d.count("up")
	t, err := d.New(host.DType(), host.Shape())
	if err == nil {
		copy(d.bytes(t), host.Data())
	}
	return t, err
}

func (d *invented) Download(_ *kernels.Context, t *tensor.Tensor, done func(*tensor.Tensor, error)) {
	d.count("down")
	host, err := tensor.New(d.Pool(), t.DType(), t.Shape())
	if err == nil {
		copy(host.Data(), d.bytes(t))
		if err = d.problem(); err != nil {
			host.Release()
			host = nil
		}
	}
	go done(host, err)
}

func (d *invented) Settle(_ *kernels.Step, done func(error)) { go done(d.problem()) }

func (d *invented) Reaches(device string) bool { return d.peers[device] != nil }

func (d *invented) Fetch(_ *kernels.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	d.count("fetch")
	here, err := d.New(t.DType(), t.Shape())
	if err == nil {
		copy(d.bytes(here), t.Home().(*invented).bytes(t))
	}
	return here, err
}

// machine is a task with a CPU and two accelerators.
type machine struct {
	cpu  *CPU
	gpus [2]*invented
}

// newMachine makes the devices. At the end of the test all their memory must be free.
func newMachine(t testing.TB) *machine {
	m := &machine{cpu: newTestDevice(t)}
	peers := map[string]*invented{}
	for i := range m.gpus {
		g := &invented{t: t, name: strings.Replace(testDevice, "CPU:0", fmt.Sprint("GPU:", i), 1), peers: peers,
			memory: map[uint64][]byte{}, moves: map[string]int{}}
		g.CPU = m.cpu.WithResources(containers.NewManager(nil, g.name, "test")).(*CPU)
		m.gpus[i], peers[g.name] = g, g
		t.Cleanup(func() {
			if err := g.Resources().Close(); err != nil {
				t.Error(err)
			}
			if n := len(g.memory); n != 0 {
				t.Errorf("%d buffers of %s are still in use", n, g.name)
			}
		})
	}
	return m
}

// run partitions a graph and runs its parts: nodes whose names begin with g_ or h_ are on an accelerator.
func (m *machine) run(t *testing.T, text string, s substitutes) outcome {
	t.Helper()
	g := graphOf(t, text)
	byName := map[string]kernels.Device{testDevice: m.cpu, m.gpus[0].name: m.gpus[0], m.gpus[1].name: m.gpus[1]}
	for _, n := range g.Nodes {
		switch {
		case strings.HasPrefix(n.Name, "g_"):
			n.Assigned = m.gpus[0].name
		case strings.HasPrefix(n.Name, "h_"):
			n.Assigned = m.gpus[1].name
		default:
			n.Assigned = testDevice
		}
	}
	parts, err := partition.Split(g, partition.Options{MemoryTypes: kernels.MemoryTypes, Supports: kernels.Supports})
	if err != nil {
		t.Fatal(err)
	}
	r := newResults()
	step := newTestStep(r)
	meet := step.Rendezvous.(*Rendezvous)
	step.Cancellation.Bind(meet.Abort)
	var programs []*Program
	for _, device := range parts.Devices {
		p, err := Compile(parts.ByDevice[device], byName[device], CompileOptions{Kernels: s.source})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		programs = append(programs, p)
	}
	ended := make(chan error, len(programs))
	for _, p := range programs {
		own := *step
		p.Run(&own, func(err error) { ended <- err })
	}
	for range programs {
		err = status.Worse(err, <-ended)
	}
	meet.Abort(status.Errorf(status.Aborted, "the step is over"))
	return outcome{r, err}
}

// sum adds int64 vectors on the accelerator.
var sum = kernels.Func(func(ctx *kernels.Context) error {
	d := ctx.Device.(*invented)
	out, err := ctx.Allocate(0, tensor.Int64, ctx.Input(0).Shape())
	if err != nil {
		return err
	}
	a, b, c := d.int64s(ctx.Input(0)), d.int64s(ctx.Input(1)), d.int64s(out)
	for i := range c {
		c[i] = a[i] + b[i]
	}
	return nil
})

// deviceCountdown is the loop of countdown with the sum on an accelerator.
var deviceCountdown = func() string {
	pairs := []string{}
	for _, name := range []string{"step", "zeros", "sum0", "stp", "summ", "ss", "sadd", "sumnext", "sexit"} {
		pairs = append(pairs, name+" = ", "g_"+name+" = ", name+":1", "g_"+name+":1", name+",", "g_"+name+",", name+")", "g_"+name+")")
	}
	return strings.NewReplacer(pairs...).Replace(countdown)
}()

// TestAcceleratorParts runs graphs whose values move from the host to accelerators and back.
func TestAcceleratorParts(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       map[int]int64
		dead       []int
		moves      [2]map[string]int
	}{
		{name: "there and back", text: `
			a = Const() value=3 wide=true
			b = Const() value=4 wide=true
			g_s = AddV2(a, b)
			c = Neg(g_s)
			r0 = _Retval(c) index=0`, want: map[int]int64{0: -7}, moves: [2]map[string]int{{"up": 2, "down": 1}}},
		{name: "one transfer for two readers", text: `
			g_a = Const() value=3 wide=true
			b = Neg(g_a)
			c = Square(g_a)
			r0 = _Retval(b) index=0
			r1 = _Retval(c) index=1`, want: map[int]int64{0: -3, 1: 9}, moves: [2]map[string]int{{"up": 1, "down": 1}}},
		{name: "from accelerator to accelerator", text: `
			g_a = Const() value=3 wide=true
			h_b = Const() value=4 wide=true
			h_s = AddV2(g_a, h_b)
			g_s = AddV2(h_s, g_a)
			r0 = _Retval(g_s) index=0`, want: map[int]int64{0: 10}, moves: [2]map[string]int{{"up": 1, "down": 1, "fetch": 1}, {"up": 1, "fetch": 1}}},
		{name: "an accelerator's value in another one's host memory", text: `
			h_b = Const() value=4
			g_shape = Const() value=1
			h_r = Reshape(h_b, g_shape) Tshape=int64
			r0 = _Retval(h_r) index=0`, want: map[int]int64{0: 4}, moves: [2]map[string]int{{"up": 1}, {"up": 1, "fetch": 1, "down": 2}}},
		{name: "a dead value goes there and back", text: `
			p = Const() value=false
			a = Const() value=5 wide=true
			s = Switch(a, p)
			g_yes = AddV2(s:1, s:1)
			g_no = AddV2(s, s)
			m = Merge(g_no, g_yes)
			r0 = _Retval(m) index=0
			r1 = _Retval(m:1) index=1 T=int32
			r2 = _Retval(g_yes) index=2`, want: map[int]int64{0: 10, 1: 0}, dead: []int{2}},
		{name: "a Switch and a Merge on the accelerator", text: `
			p = Const() value=true
			a = Const() value=5 wide=true
			g_s = Switch(a, p)
			g_yes = AddV2(g_s:1, g_s:1)
			g_no = Identity(g_s)
			g_m = Merge(g_no, g_yes)
			r0 = _Retval(g_m) index=0
			r1 = _Retval(g_m:1) index=1 T=int32
			r2 = _Retval(g_no) index=2`, want: map[int]int64{0: 10, 1: 1}, dead: []int{2}},
		{name: "control edges", text: `
			g_a = Const() value=1 wide=true
			b = Const(^g_a) value=2
			g_c = Const(^b) value=3
			r0 = _Retval(g_c) index=0`, want: map[int]int64{0: 3}},
		{name: "no iteration", text: fmt.Sprintf(deviceCountdown, 4, 0), want: map[int]int64{0: 0, 1: 0}},
		{name: "a loop over both", text: fmt.Sprintf(deviceCountdown, 4, 33), want: map[int]int64{0: 33, 1: 99}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			out := m.run(t, c.text, substitutes{"g_s": sum, "h_s": sum, "g_yes": sum, "g_no": sum, "g_sadd": sum}.only(c.text))
			if out.err != nil {
				t.Fatal(out.err)
			}
			if !maps.Equal(out.got, c.want) {
				t.Errorf("got %v, want %v", out.got, c.want)
			}
			for _, i := range c.dead {
				if !out.dead[i] {
					t.Errorf("result %d is not dead", i)
				}
			}
			for i, want := range c.moves {
				if c.moves[0] != nil && !maps.Equal(m.gpus[i].moves, want) {
					t.Errorf("accelerator %d moved %v, want %v", i, m.gpus[i].moves, want)
				}
			}
		})
	}
}

// only returns the substitutes for those nodes of a graph that add.
func (s substitutes) only(text string) substitutes {
	kept := substitutes{}
	for name, k := range s {
		if strings.Contains(text, name+" = AddV2(") {
			kept[name] = k
		}
	}
	return kept
}

// TestAcceleratorFailures checks that a failure on an accelerator, before or after its kernel has ended, becomes the step's error on all
// its devices, and that nothing leaks.
func TestAcceleratorFailures(t *testing.T) {
	const text = `
		a = Const() value=3 wide=true
		g_s = AddV2(a, a)
		h_s = AddV2(g_s, g_s)
		c = Neg(h_s)
		r0 = _Retval(c) index=0`
	lost := status.Errorf(status.Unavailable, "the card is gone")
	t.Run("a kernel", func(t *testing.T) {
		bad := kernels.Func(func(*kernels.Context) error { return status.InvalidArgumentf("bad input") })
		wantError(t, newMachine(t).run(t, text, substitutes{"g_s": bad, "h_s": sum}).err, status.InvalidArgument, "bad input", "g_s")
	})
	t.Run("a transfer", func(t *testing.T) {
		m := newMachine(t)
		m.gpus[1].broken = lost
		wantError(t, m.run(t, text, substitutes{"g_s": sum, "h_s": sum}).err, status.Unavailable, "the card is gone", "h_s")
	})
	t.Run("what was given", func(t *testing.T) {
		m := newMachine(t)
		m.gpus[0].broken = lost
		wantError(t, m.run(t, text, substitutes{"g_s": sum, "h_s": sum}).err, status.Unavailable, "the card is gone")
	})
}
