package all_test

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// golden is one record of a file written by testdata/golden.py: a node, its inputs, and TensorFlow's outputs.
type golden struct {
	node            *nodepb.NodeDef
	inputs, outputs []*tensor.Tensor
	code            status.Code
	message         string
}

// records reads a file of goldens.
func records(t *testing.T, path string) []golden {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	for {
		var n uint32
		if err := binary.Read(r, binary.LittleEndian, &n); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		g := golden{node: &nodepb.NodeDef{}}
		part(t, r, n, g.node)
		g.inputs, g.outputs = tensors(t, r), tensors(t, r)
		g.code = status.Code(number(t, r))
		text := make([]byte, number(t, r))
		if _, err := io.ReadFull(r, text); err != nil {
			t.Fatal(err)
		}
		g.message = string(text)
		all = append(all, g)
	}
}

func number(t *testing.T, r io.Reader) uint32 {
	t.Helper()
	var n uint32
	if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func part(t *testing.T, r io.Reader, n uint32, m proto.Message) {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
}

func tensors(t *testing.T, r io.Reader) []*tensor.Tensor {
	t.Helper()
	list := make([]*tensor.Tensor, number(t, r))
	for i := range list {
		var p tensorpb.TensorProto
		part(t, r, number(t, r), &p)
		v, err := tensor.FromTensorProto(&p, tensor.Host)
		if err != nil {
			t.Fatal(err)
		}
		list[i] = v
	}
	return list
}

// goldens returns the records of all files, or of the single file named by GOLDEN while cases are being added.
func goldens(t *testing.T) (all []golden) {
	t.Helper()
	if path := os.Getenv("GOLDEN"); path != "" {
		return records(t, path)
	}
	paths, err := filepath.Glob("testdata/golden*.gz")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no goldens: %v", err)
	}
	for _, path := range paths {
		all = append(all, records(t, path)...)
	}
	return all
}

// TestGolden compares the kernels' results with TensorFlow's.
func TestGolden(t *testing.T) {
	byOp := map[string][]golden{}
	for _, g := range goldens(t) {
		if g.node.Op == "FusedBatchNormV3" && g.node.Attr["T"].GetType() == tensor.Float32.Proto() && len(g.outputs) > 5 {
			// The file was written without oneDNN, whose kernel leaves this output empty.
			g.outputs[5].Release()
			g.outputs[5] = kt.F32(kt.S(0))
		}
		byOp[g.node.Op] = append(byOp[g.node.Op], g)
	}
	for op, cases := range byOp {
		t.Run(op, func(t *testing.T) {
			d := kt.NewDevice(t)
			for i, g := range cases {
				if why := g.check(d); why != "" {
					t.Errorf("case %d: %s\nnode: %v\ninputs: %s", i, why, g.node, contents(g.inputs))
				}
			}
		})
	}
}

func contents(list []*tensor.Tensor) string {
	var b strings.Builder
	for _, v := range list {
		fmt.Fprintf(&b, "%v%v", v.DType(), v.Shape())
		if v.Len() <= 32 {
			for i := range v.Len() {
				if e := kt.Element(v, i); v.DType() == tensor.String {
					fmt.Fprintf(&b, " %.200q", e)
				} else {
					fmt.Fprintf(&b, " %v", e)
				}
			}
		}
		b.WriteString("; ")
	}
	return b.String()
}

// form names the op, and the ranks of its inputs and which of them are strings: records of one form run the same loops.
func (g *golden) form() string {
	form := g.node.Op
	for _, in := range g.inputs {
		form += fmt.Sprint(" ", in.DType() == tensor.String, in.Rank())
	}
	return form
}

// updated returns the number of variables that the op updates, which are its first inputs.
func (g *golden) updated() int {
	if strings.Contains(g.node.Op, "Apply") {
		return len(g.outputs)
	}
	return 0
}

// run runs the node. Inputs that the op updates become variables, whose values are returned. Shared inputs have another reference, so the
// kernel must not change them.
func (g *golden) run(d *kt.Device, shared bool) (outputs []*tensor.Tensor, err error) {
	return g.runIn(d, nil, g.updated(), shared)
}

// runIn is run as a part of a step, for an op that updates the first inputs. The values of the variables are returned even if it fails.
func (g *golden) runIn(d *kt.Device, step *kernels.Step, updated int, shared bool) (outputs []*tensor.Tensor, err error) {
	inputs := make([]kernels.Value, len(g.inputs))
	var variables []*containers.Variable
	for i, in := range g.inputs {
		own, err := in.Clone(d.Pool())
		if err != nil {
			return nil, err
		}
		if i >= updated {
			inputs[i].Tensor = own
			if shared {
				own.Retain()
				defer func() {
					if diff := kt.Diff(own, in, 0); diff != "" && err == nil {
						err = status.Internalf("input %d was written to: %s", i, diff)
					}
					own.Release()
				}()
			}
			continue
		}
		v := containers.NewVariable(fmt.Sprintf("v%d", i), in.DType())
		v.Assign(own)
		defer v.Close()
		variables = append(variables, v)
		inputs[i].Ref = v
		if def, err := graph.LookupOp(g.node.Op); err != nil {
			return nil, err
		} else if !def.InputArg[i].IsRef {
			if _, err := d.Resources().LookupOrCreate("", "Var", v.Name, func() (containers.Resource, error) { return v, nil }); err != nil {
				return nil, err
			}
			defer d.Resources().Delete("", "Var", v.Name)
			inputs[i] = kernels.Value{Tensor: tensor.FromHandle(tensor.Handle{Device: d.Name(), Name: v.Name, Type: "Var"})}
		}
	}
	values := make([]any, len(inputs))
	for i, v := range inputs {
		values[i] = v
	}
	got, err := d.Try(kt.Op{Type: g.node.Op, Name: g.node.Op, Raw: g.node.Attr, Outputs: len(g.outputs), Step: step}, values...)
	for _, v := range got {
		if v.Tensor != nil {
			outputs = append(outputs, v.Tensor)
		}
	}
	if updated > 0 {
		kernels.ReleaseTensors(outputs)
		outputs = nil
		for _, v := range variables {
			outputs = append(outputs, v.Read())
		}
	}
	return outputs, err
}

// check runs the record with and without shared inputs, and describes any difference.
func (g *golden) check(d *kt.Device) string {
	for _, shared := range []bool{true, false} {
		if why := g.compare(d, shared); why != "" {
			return why
		}
	}
	return ""
}

// unreported are ops for which a GPU does not report indices out of range, since they are in its memory; neither does TensorFlow.
var unreported = map[string]bool{"SparseSoftmaxCrossEntropyWithLogits": true, "UnsortedSegmentSum": true}

func (g *golden) compare(d *kt.Device, shared bool) string {
	got, err := g.run(d, shared)
	defer func() {
		for _, v := range got {
			v.Release()
		}
	}()
	if g.code != status.OK {
		if err == nil && kt.Accelerate != nil && unreported[g.node.Op] {
			return ""
		}
		if status.CodeOf(err) != g.code || !strings.HasPrefix(fmt.Sprint(err), g.message) {
			return fmt.Sprintf("got %v: %v\nwant %v: %s", status.CodeOf(err), err, g.code, g.message)
		}
		return ""
	}
	if err != nil {
		return fmt.Sprintf("failed: %v: %v", status.CodeOf(err), err)
	}
	if len(got) != len(g.outputs) {
		return fmt.Sprintf("%d outputs, want %d", len(got), len(g.outputs))
	}
	for i, want := range g.outputs {
		if diff := kt.Diff(got[i], want, g.tolerance(want.DType())); diff != "" {
			return fmt.Sprintf("output %d: %s", i, diff)
		}
	}
	return ""
}

// tolerance returns the permitted difference of elements, relative to the greater of 1 and their magnitude. It is 0 for random numbers that
// involve no math function.
func (g *golden) tolerance(dtype tensor.DType) float64 {
	switch op := g.node.Op; {
	case op == "LogUniformCandidateSampler" || op == "UniformCandidateSampler":
		// The expected counts use the C library's float logarithm and exponential.
		return 2.5e-7
	case strings.Contains(op, "Uniform") || strings.Contains(op, "Shuffle"):
		return 0
	case strings.HasPrefix(op, "BatchNormWith") && dtype == tensor.Float16:
		return 0.1 // TensorFlow accumulates in half precision
	case strings.HasPrefix(op, "BatchNormWith"):
	case strings.Contains(op, "Normal") && dtype == tensor.Float64:
		return 1e-15
	case strings.Contains(op, "Normal") && dtype == tensor.Float32:
		// The C library's float logarithm and sine are not always rounded correctly.
		return 2.5e-7
	case strings.Contains(op, "Apply") && dtype == tensor.Float16:
		return 2e-2 // TensorFlow rounds each step to half precision
	case (strings.Contains(op, "Conv") && strings.Contains(op, "Backprop") || strings.HasPrefix(op, "Depthwise") || op == "LRNGrad" || op == "FusedPadConv2D" || op == "FusedResizeAndPadConv2D" || op == "Conv" || op == "Conv3D") && dtype == tensor.Float16:
		return 0.1 // TensorFlow accumulates in half precision
	case op == "BiasAddGrad" && dtype == tensor.BFloat16:
		return 0.1
	}
	switch dtype {
	case tensor.Float64, tensor.Complex128:
		if strings.HasPrefix(g.node.Op, "CTC") {
			return 1e-6 // the logarithms of sums are floats
		}
		return 1e-9
	case tensor.Float16:
		return 4e-3
	case tensor.BFloat16:
		return 3e-2
	}
	return 2e-5
}
