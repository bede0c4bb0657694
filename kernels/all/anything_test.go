package all_test

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// No op may panic, whatever attributes and inputs a client gives it, provided they have the types that the op declares.
func TestNoOpPanics(t *testing.T) {
	t.Parallel()
	rounds := 60
	if !extent.Check() || extent.RaceDetector { // a panic also occurs without the race detector
		rounds = 10
	}
	for _, name := range kernels.Ops() {
		def, err := graph.LookupOp(name)
		if err != nil || quiet(name) {
			continue
		}
		rng := rand.New(rand.NewPCG(7, uint64(len(name))))
		for range rounds {
			anything{t, rng, def}.run()
		}
	}
}

// quiet reports whether an op prints, waits for something that no test sends, or runs as long as a condition holds.
func quiet(op string) bool {
	return slices.Contains([]string{"Print", "PrintV2", "_Recv", "_HostRecv", "_Arg", "_DeviceArg", "While", "StatelessWhile", "_While"}, op)
}

// anything makes nodes of an op.
type anything struct {
	t   *testing.T
	rng *rand.Rand
	def *oppb.OpDef
}

func (a anything) run() {
	attrs := a.attrs()
	inputs := a.inputs(attrs)
	var shown []string
	for _, in := range inputs {
		if in, ok := in.(*tensor.Tensor); ok {
			shown = append(shown, describeInputs([]any{in}))
		}
	}
	defer func() {
		if r := recover(); r != nil {
			stack := strings.Split(string(debug.Stack()), "\n")
			at := slices.IndexFunc(stack, func(l string) bool { return strings.Contains(l, "panic(") })
			a.t.Errorf("%s panics: %v\nattributes %v\ninputs %s\n%s", a.def.Name, r, attrs, strings.Join(shown, ", "), strings.Join(stack[min(at+2, len(stack)):min(at+8, len(stack))], "\n"))
		}
	}()
	_ = attempt(kt.NewDevice(a.t), kt.Op{Type: a.def.Name, Attrs: attrs, Step: kt.NewStep(), Functions: echo}, inputs) // an op may reject its inputs
}

// attempt creates a kernel and runs it, in a step that is cancelled at once.
func attempt(d *kt.Device, op kt.Op, inputs []any) error {
	k, err := d.Kernel(op, inputs...)
	if err != nil {
		for _, v := range kt.Values(inputs...) {
			v.Release()
		}
		return err
	}
	ended := make(chan error, 1)
	k.Start(kt.Values(inputs...), func(out []kernels.Value, err error) {
		for _, v := range out {
			v.Release()
		}
		ended <- err
	})
	op.Step.Cancellation.Cancel(status.New(status.Cancelled, "enough"))
	err = <-ended
	for _, fetched := range op.Step.Fetches.(*kt.IO).Fetched {
		if fetched != nil {
			fetched.Release()
		}
	}
	op.Step.Rendezvous.(*kt.Rendezvous).Drop()
	return err
}

// echo contains a function that returns its arguments.
var echo = kt.Library{"echo": func(_ *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) { done(args, nil) }}

func (a anything) attrs() kt.Attrs {
	attrs := kt.Attrs{}
	for _, d := range a.def.Attr {
		switch d.Type {
		case "type":
			attrs[d.Name] = a.dtype(d)
		case "list(type)":
			types := make([]tensor.DType, 1+a.rng.IntN(2))
			for i := range types {
				types[i] = a.dtype(d)
			}
			attrs[d.Name] = types
		case "int":
			v := int64(a.rng.IntN(6)) - 2
			if d.HasMinimum {
				v = d.Minimum + int64(a.rng.IntN(3))
			}
			attrs[d.Name] = v
		case "bool":
			attrs[d.Name] = a.rng.IntN(2) == 0
		case "float":
			attrs[d.Name] = float32(a.rng.IntN(5)) - 1
		case "shape":
			attrs[d.Name] = a.shape()
		case "func":
			attrs[d.Name] = kt.Func{Name: "echo"}
		case "string":
			if allowed := d.GetAllowedValues().GetList().GetS(); len(allowed) > 0 {
				attrs[d.Name] = string(allowed[a.rng.IntN(len(allowed))])
			} else if d.DefaultValue == nil || a.rng.IntN(4) == 0 {
				attrs[d.Name] = []string{"", "x", "(", "ij,jk->ik"}[a.rng.IntN(4)]
			}
		case "list(int)":
			if d.DefaultValue == nil || a.rng.IntN(3) == 0 {
				list := make([]int64, a.rng.IntN(6))
				for i := range list {
					list[i] = int64(a.rng.IntN(5)) - 1
				}
				attrs[d.Name] = list
			}
		}
	}
	return attrs
}

var someTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Bool, tensor.Complex64, tensor.Float16, tensor.BFloat16, tensor.String, tensor.Variant}

func (a anything) dtype(d *oppb.OpDef_AttrDef) tensor.DType {
	if allowed := d.GetAllowedValues().GetList().GetType(); len(allowed) > 0 {
		return tensor.FromProto(allowed[a.rng.IntN(len(allowed))])
	}
	return someTypes[a.rng.IntN(len(someTypes))]
}

func (a anything) shape() tensor.Shape {
	s := make(tensor.Shape, a.rng.IntN(5))
	for i := range s {
		s[i] = int64(a.rng.IntN(5))
	}
	return s
}

func (a anything) inputs(attrs kt.Attrs) (inputs []any) {
	for _, arg := range a.def.InputArg {
		count := 1
		if n, ok := attrs[arg.NumberAttr].(int64); ok {
			count = int(max(n, 0))
		}
		types, ok := attrs[arg.TypeListAttr].([]tensor.DType)
		if ok {
			count = len(types)
		}
		for i := range count {
			dtype := tensor.FromProto(arg.Type)
			if d, ok := attrs[arg.TypeAttr].(tensor.DType); ok {
				dtype = d
			}
			if types != nil {
				dtype = types[i]
			}
			x := a.tensor(dtype)
			if !arg.IsRef {
				inputs = append(inputs, x)
				continue
			}
			v := containers.NewVariable("v", dtype)
			v.Assign(x)
			inputs = append(inputs, v)
		}
	}
	return inputs
}

func (a anything) tensor(dtype tensor.DType) *tensor.Tensor {
	if dtype == tensor.Resource {
		return tensor.FromHandle(tensor.Handle{Device: kt.DeviceName, Name: fmt.Sprint("r", a.rng.IntN(3)), Type: "Var"})
	}
	x := garbage(a.rng, dtype, false)
	if dtype.IsFloating() || dtype.IsComplex() {
		// Bytes of zeros and ones would be tiny numbers that are all alike.
		for i := range x.Data() {
			x.Data()[i] = byte(a.rng.IntN(256))
		}
	}
	return x
}
