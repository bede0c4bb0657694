package kernelstest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Accelerate is nil or returns the accelerator on which every Device of the process runs those ops that have a row for it. The tests of the
// CPU's kernels then also test the accelerator: inputs are moved to its memory and outputs back, as are the values of the variables that
// the inputs refer to. It must be set before the first test, and must close the accelerator when t ends. The accelerator's name and
// containers are those of the Device.
var Accelerate func(t testing.TB, name string, resources *containers.Manager) kernels.Accelerator

// CPUOnly makes the devices of a test and its subtests run all ops on the CPU, for tests of behaviour that only the CPU's rows guarantee.
func CPUOnly(t testing.TB) {
	cpuOnly.Store(t.Name(), true)
	t.Cleanup(func() { cpuOnly.Delete(t.Name()) })
}

var cpuOnly sync.Map

func isCPUOnly(name string) bool {
	for {
		if _, ok := cpuOnly.Load(name); ok {
			return true
		}
		last := strings.LastIndexByte(name, '/')
		if last < 0 {
			return false
		}
		name = name[:last]
	}
}

// Accelerated counts the executions of each row of an accelerator, which allows a test to find the rows that no test runs.
var Accelerated struct {
	sync.Mutex
	Rows map[*kernels.Def]int
}

func countRow(def *kernels.Def) {
	Accelerated.Lock()
	defer Accelerated.Unlock()
	if Accelerated.Rows == nil {
		Accelerated.Rows = map[*kernels.Def]int{}
	}
	Accelerated.Rows[def]++
}

// carry runs an accelerator's kernel with values in host memory.
type carry struct {
	accelerator kernels.Accelerator
	hostIn      []bool
	hostOut     []bool
}

func newCarry(a kernels.Accelerator, n *graph.Node) *carry {
	in, out := kernels.MemoryTypes(n, a.Type())
	return &carry{a, in, out}
}

// in moves the inputs to the accelerator. The returned function moves the values that the kernel changed in place, those of variables,
// back.
func (c *carry) in(resources *containers.Manager, values []kernels.Value) (back func() error, err error) {
	variables := referred(resources, values)
	for i, v := range values {
		if v.Tensor == nil || c.hostIn != nil && c.hostIn[i] {
			continue
		}
		moved, err := c.accelerator.Upload(nil, v.Tensor)
		if err != nil {
			return nil, err
		}
		v.Tensor.Release()
		values[i].Tensor = moved
	}
	for _, v := range variables {
		if err := move(v, c.upload); err != nil {
			return nil, err
		}
	}
	return func() error {
		for _, v := range slices.Concat(variables, referred(resources, values)) {
			if err := move(v, c.download); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// out moves the outputs back to the host.
func (c *carry) out(values []kernels.Value) error {
	for i, v := range values {
		if v.Tensor == nil || v.Tensor.OnHost() {
			continue
		}
		moved, err := c.download(v.Tensor)
		if err != nil {
			return err
		}
		v.Tensor.Release()
		values[i].Tensor = moved
	}
	return nil
}

// OnHost returns the host's copy of a tensor that a kernel handed over other than as an output. It takes over the reference.
func (d *Device) OnHost(t testing.TB, x *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	if x.OnHost() {
		return x
	}
	defer x.Release()
	host, err := (&carry{accelerator: d.accelerator}).download(x)
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// upload returns the accelerator's copy of a host tensor, or retains a tensor that is already there.
func (c *carry) upload(t *tensor.Tensor) (*tensor.Tensor, error) {
	if !t.OnHost() {
		return t.Retain(), nil
	}
	return c.accelerator.Upload(nil, t)
}

// download returns the host's copy of a tensor on the accelerator, or retains a tensor that is already on the host.
func (c *carry) download(t *tensor.Tensor) (*tensor.Tensor, error) {
	if t.OnHost() {
		return t.Retain(), nil
	}
	type result struct {
		t   *tensor.Tensor
		err error
	}
	done := make(chan result, 1)
	c.accelerator.Download(nil, t, func(t *tensor.Tensor, err error) { done <- result{t, err} })
	r := <-done
	return r.t, r.err
}

// move replaces a variable's value, if it has one with fixed-size elements.
func move(v *containers.Variable, to func(*tensor.Tensor) (*tensor.Tensor, error)) error {
	t := v.Read()
	if t == nil {
		return nil
	}
	defer t.Release()
	if t.DType().Size() == 0 {
		return nil
	}
	moved, err := to(t)
	if err == nil {
		v.Assign(moved)
	}
	return err
}

// referred returns the variables that references and handles among the values refer to.
func referred(resources *containers.Manager, values []kernels.Value) []*containers.Variable {
	var found []*containers.Variable
	for _, v := range values {
		switch {
		case v.Ref != nil:
			found = append(found, v.Ref)
		case v.Tensor != nil && v.Tensor.DType() == tensor.Resource:
			for _, h := range v.Tensor.Handles() {
				if r, err := resources.Lookup(h.Container, h.Type, h.Name); err == nil {
					if v, ok := r.(*containers.Variable); ok {
						found = append(found, v)
					}
				}
			}
		}
	}
	return found
}
