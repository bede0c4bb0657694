package all_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// update is the kernel of an op on variables with its context, to run repeatedly.
type update struct {
	kernel kernels.Kernel
	ctx    kernels.Context
	inputs []kernels.Value
}

// newUpdate returns the kernel of an op that updates by reference.
func newUpdate(t testing.TB, dev kernels.Device, op string, attrs kt.Attrs, inputs ...any) *update {
	t.Helper()
	node := &graph.Node{Name: "n", Op: op, Attrs: attrs.Proto()}
	def, err := kernels.Find(node, "CPU")
	if err != nil {
		t.Fatal(err)
	}
	k, err := def.New(&kernels.Construction{Node: node, Device: dev})
	if err != nil {
		t.Fatal(err)
	}
	u := &update{kernel: k.(kernels.Kernel), inputs: kt.Values(inputs...)}
	u.ctx = kernels.Context{Node: node, Device: dev, Inputs: make([]kernels.Value, len(inputs)), Outputs: make([]kernels.Value, 1)}
	return u
}

// run executes the kernel with its own references to the inputs. If keep is false, the kernel has the only reference to a tensor.
func (u *update) run(t testing.TB, keep bool) {
	t.Helper()
	copy(u.ctx.Inputs, u.inputs)
	for _, v := range u.inputs {
		if keep && v.Tensor != nil {
			v.Tensor.Retain()
		}
	}
	if err := u.kernel.Compute(&u.ctx); err != nil {
		t.Fatal(err)
	}
	for _, v := range u.ctx.Inputs {
		v.Release()
	}
	clear(u.ctx.Outputs)
}

// random returns a tensor of n numbers between 1/2 and 2, in the device's memory.
func random(t testing.TB, pool *tensor.Pool, n, seed int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(pool, tensor.Float32, tensor.Shape{int64(n)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range tensor.Of[float32](x) {
		tensor.Of[float32](x)[i] = 0.5 + 1.5*float32((uint32(i)*7919+uint32(seed)*104729)*2654435761>>8)/(1<<24)
	}
	return x
}

func memoryOf(v *containers.Variable) *byte {
	x := v.Read()
	defer x.Release()
	return &x.Data()[0]
}

func holding(x *tensor.Tensor) *containers.Variable {
	v := containers.NewVariable("v", tensor.Float32)
	v.Assign(x)
	return v
}

// TestAssignMovesNothing checks that assigning takes over the tensor's memory, and that reading shares it.
func TestAssignMovesNothing(t *testing.T) {
	kt.CPUOnly(t)
	d := kt.NewDevice(t)
	const n = 1000
	v, h := refVariable(t, d, tensor.Float32, kt.S(n)), variable(t, d, tensor.Float32, kt.S(n))
	x, y := random(t, d.Pool(), n, 1), random(t, d.Pool(), n, 2)
	first, second, before := &x.Data()[0], &y.Data()[0], d.Pool().Stats()
	d.Run(t, kt.Op{Type: "Assign", Attrs: kt.Attrs{"validate_shape": true, "use_locking": true}, Outputs: 1}, v, x)
	d.Run(t, kt.Op{Type: "AssignVariableOp", Attrs: kt.Attrs{"dtype": tensor.Float32}}, h.Retain(), y)
	read := d.Run(t, kt.Op{Type: "ReadVariableOp", Attrs: kt.Attrs{"dtype": tensor.Float32}, Outputs: 1}, h)[0].Tensor
	if memoryOf(v) != first || &read.Data()[0] != second {
		t.Error("a value was copied")
	}
	if after := d.Pool().Stats(); after != before {
		t.Errorf("the pool went from %+v to %+v", before, after)
	}
	read.Release()
}

// TestAssignAddMemory checks that the update happens in place if there are no readers, else in the delta's memory if the kernel has the
// only reference to it, else in one more buffer. Values read before must not change.
func TestAssignAddMemory(t *testing.T) {
	const n = 100_000 // more than a part
	want, was := random(t, tensor.Host, n, 1), random(t, tensor.Host, n, 1)
	for i, x := range tensor.Of[float32](random(t, tensor.Host, n, 2)) {
		tensor.Of[float32](want)[i] += x
	}
	for _, c := range []struct {
		name       string
		read, keep bool
		memory     string
		buffers    int64 // at once
	}{
		{"alone", false, false, "own", 2},
		{"delta is kept", false, true, "own", 2},
		{"value is read", true, false, "delta", 2},
		{"value is read and delta kept", true, true, "new", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := kt.NewDevice(t)
			v, delta := holding(random(t, d.Pool(), n, 1)), random(t, d.Pool(), n, 2)
			defer v.Close()
			memories := map[*byte]string{memoryOf(v): "own", &delta.Data()[0]: "delta"}
			one := d.Pool().Stats().InUse / 2
			if c.read {
				reader := v.Read()
				defer reader.Release()
				defer func() { expectSame(t, reader, was) }()
			}
			if c.keep {
				defer delta.Release()
			}
			newUpdate(t, d, "AssignAdd", kt.Attrs{"T": tensor.Float32}, v, delta).run(t, c.keep)
			memory := memories[memoryOf(v)]
			if memory == "" {
				memory = "new"
			}
			if memory != c.memory {
				t.Errorf("the sum is in memory %s, not %s", memory, c.memory)
			}
			if got := d.Pool().Stats().Peak; got != c.buffers*one {
				t.Errorf("%d bytes were in use, not %d buffers of %d", got, c.buffers, one)
			}
			sum := v.Read()
			defer sum.Release()
			expectSame(t, sum, want)
		})
	}
}

func expectSame(t *testing.T, got, want *tensor.Tensor) {
	t.Helper()
	if diff := kt.Diff(got, want, 0); diff != "" {
		t.Error(diff)
	}
}

// optimizerForm is an op with its slots and scalars.
type optimizerForm struct {
	op      string
	slots   int
	before  int // scalars before the gradient
	after   int
	globals bool // the last scalar is a step
}

// optimizerOps are ops by reference.
var optimizerOps = []optimizerForm{
	{"ApplyGradientDescent", 1, 1, 0, false}, {"ApplyProximalGradientDescent", 1, 3, 0, false},
	{"ApplyMomentum", 2, 1, 1, false}, {"ApplyAdam", 3, 6, 0, false}, {"ApplyAdaMax", 3, 5, 0, false},
	{"ApplyAdagrad", 2, 1, 0, false}, {"ApplyAdagradV2", 2, 2, 0, false}, {"ApplyProximalAdagrad", 2, 3, 0, false},
	{"ApplyAdagradDA", 3, 0, 4, true}, {"ApplyAdadelta", 3, 3, 0, false},
	{"ApplyRMSProp", 3, 4, 0, false}, {"ApplyCenteredRMSProp", 4, 4, 0, false},
	{"ApplyFtrl", 3, 0, 4, false}, {"ApplyFtrlV2", 3, 0, 5, false},
	{"ApplyAddSign", 2, 4, 0, false}, {"ApplyPowerSign", 2, 4, 0, false},
	{"SparseApplyMomentum", 2, 1, 1, false}, {"SparseApplyAdagrad", 2, 1, 0, false}, {"SparseApplyFtrl", 3, 0, 4, false},
}

// TestOptimizersUnderReaders checks that an update yields the same bits in place and elsewhere. Without readers it allocates no memory;
// with them, one buffer per slot, and what they hold does not change.
func TestOptimizersUnderReaders(t *testing.T) {
	const n = 70_001 // several parts, and a part of a block
	attrs := kt.Attrs{"T": tensor.Float32, "use_locking": true, "use_nesterov": false, "update_slots": true,
		"multiply_linear_by_lr": false, "Tindices": tensor.Int32}
	for _, c := range optimizerOps {
		t.Run(c.op, func(t *testing.T) {
			var inPlace []*tensor.Tensor
			for _, read := range []bool{false, true} {
				d := kt.NewDevice(t)
				var inputs []any
				var vars []*containers.Variable
				var readers []*tensor.Tensor
				for i := range c.slots {
					v := holding(random(t, d.Pool(), n, i))
					if read {
						readers = append(readers, v.Read())
					}
					vars, inputs = append(vars, v), append(inputs, v)
				}
				for i := range c.before {
					x := 0.1 * float32(i+1)
					if i == 3 {
						x = 5 // the epsilon of a centered mean of squares
					}
					inputs = append(inputs, kt.F32(nil, x))
				}
				inputs = append(inputs, random(t, d.Pool(), n, 9))
				if strings.HasPrefix(c.op, "Sparse") {
					inputs = append(inputs, kt.Iota[int32](tensor.Int32, kt.S(n)))
				}
				for i := range c.after {
					switch {
					case c.globals && i == c.after-1:
						inputs = append(inputs, kt.I64(nil, 3))
					case strings.Contains(c.op, "Ftrl") && i == c.after-1:
						inputs = append(inputs, kt.F32(nil, -0.5))
					default:
						inputs = append(inputs, kt.F32(nil, 0.1*float32(i+1)))
					}
				}
				one := d.Pool().Stats().InUse / int64(c.slots+1)
				newUpdate(t, d, c.op, attrs, inputs...).run(t, false)
				if got, want := d.Pool().Stats().Peak, int64(c.slots+1+len(readers))*one; got != want {
					t.Errorf("%d bytes were in use with %d slots read, not %d", got, len(readers), want)
				}
				for i, r := range readers {
					expectSame(t, r, random(t, tensor.Host, n, i))
					r.Release()
				}
				for i, v := range vars {
					x := v.Read()
					if read {
						expectSame(t, x, inPlace[i])
					} else {
						own, _ := x.Clone(tensor.Host)
						inPlace = append(inPlace, own)
					}
					x.Release()
					v.Close()
				}
			}
		})
	}
}

// meeting is a device on which the parts of a kernel begin only once two kernels have reached that point.
type meeting struct {
	*kt.Device
	wait func()
}

func (m *meeting) Parallel(n, grain int, body func(lo, hi int)) {
	m.wait()
	m.Device.Parallel(n, grain, body)
}

// TestUpdatesSideBySide checks that two updates of different variables run concurrently.
func TestUpdatesSideBySide(t *testing.T) {
	d := kt.NewDevice(t)
	for _, op := range []string{"AssignAdd", "ApplyGradientDescent", "ScatterAdd"} {
		var arrived, done sync.WaitGroup
		arrived.Add(2)
		both := make(chan struct{})
		go func() { arrived.Wait(); close(both) }()
		dev := &meeting{d, func() {
			arrived.Done()
			select {
			case <-both:
			case <-time.After(20 * time.Second):
				t.Errorf("%s: the other update waits", op)
			}
		}}
		for i := range 2 {
			const n = 1 << 17
			x := random(t, d.Pool(), n, i)
			inputs := []any{nil, random(t, d.Pool(), n, 9)}
			switch op {
			case "ApplyGradientDescent":
				inputs = []any{nil, kt.F32(nil, 0.1), inputs[1]}
			case "ScatterAdd":
				row := inputs[1].(*tensor.Tensor)
				inputs = []any{nil, kt.I32(kt.S(1), 0), row.Reshaped(kt.S(1, n))}
				row.Release()
				flat := x
				x = flat.Reshaped(kt.S(1, n))
				flat.Release()
			}
			v := holding(x)
			inputs[0] = v
			u := newUpdate(t, dev, op, kt.Attrs{"T": tensor.Float32, "Tindices": tensor.Int32, "use_locking": true}, inputs...)
			done.Go(func() {
				u.run(t, false)
				v.Close()
			})
		}
		done.Wait()
	}
}

// TestUpdatesAllocateNothing checks that small updates allocate no garbage-collected memory.
func TestUpdatesAllocateNothing(t *testing.T) {
	if extent.RaceDetector {
		t.Skip("sync.Pool drops items at random under the race detector")
	}
	d := kt.NewDevice(t)
	attrs := kt.Attrs{"T": tensor.Float32, "use_locking": true, "use_nesterov": false}
	for op, scalars := range map[string]int{"ApplyGradientDescent": 1, "ApplyAdam": 6, "AssignAdd": 0} {
		v, m, w := holding(random(t, d.Pool(), 300, 1)), holding(random(t, d.Pool(), 300, 2)), holding(random(t, d.Pool(), 300, 3))
		inputs := []any{v}
		if op == "ApplyAdam" {
			inputs = append(inputs, m, w)
		}
		for range scalars {
			inputs = append(inputs, kt.F32(nil, 0.1))
		}
		grad := random(t, d.Pool(), 300, 9)
		u := newUpdate(t, d, op, attrs, append(inputs, grad)...)
		for name, f := range map[string]func(){
			"in place": func() { u.run(t, true) },
			"under a reader": func() {
				r := v.Read()
				u.run(t, true)
				r.Release()
			},
		} {
			f()
			if got := testing.AllocsPerRun(50, f); got > allowed(op) {
				t.Errorf("%s %s: %v allocations", op, name, got)
			}
		}
		grad.Release()
		for _, x := range []*containers.Variable{v, m, w} {
			x.Close()
		}
	}
}

// allowed returns the permitted number of allocations of an update: the function under AssignAdd's lock.
func allowed(op string) float64 {
	if op == "AssignAdd" {
		return 1
	}
	return 0
}
