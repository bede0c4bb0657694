//go:build unix

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/client"
)

// Helpers of the tests of limits: large tensors, many tensors and steps, clients and tasks that do not read. Each test states what a
// process may take, and checks the processes against that.

const (
	mebibyte = 1 << 20
	int64T   = typespb.DataType_DT_INT64
)

// limitTime bounds one call of the tests of limits.
const limitTime = time.Minute

// withoutRace skips a test of memory or speed under the race detector, which multiplies both.
func withoutRace(t testing.TB) {
	t.Helper()
	if extent.RaceDetector {
		t.Skip("memory and speed under the race detector say nothing about those without it")
	}
}

// measures skips a test of speed on a machine that may do other work.
func measures(t testing.TB) {
	t.Helper()
	withoutRace(t)
	if !extent.Check() {
		t.Skip("make check runs it: it measures speed")
	}
}

// patient returns a context that bounds a whole test.
func patient(t testing.TB) context.Context {
	limit := extent.Slack(limitTime)
	if extent.Full() {
		limit *= 4
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// clientOf returns a Go client of a task's master.
func clientOf(t testing.TB, k *task) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), k.target())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// openSession opens a session of a Go client.
func openSession(t testing.TB, c *client.Client, g *graphpb.GraphDef) *client.Session {
	t.Helper()
	s, err := c.NewSession(patient(t), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// peakMiB returns the most memory that a process has held since its start, or since forgetPeak.
func (p *process) peakMiB(t testing.TB) float64 {
	t.Helper()
	return p.memory(t, "VmHWM")
}

// forgetPeak resets the measure of peakMiB.
func (p *process) forgetPeak(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Skipf("the peak of a process's memory cannot be measured here: %v", err)
	}
}

// within checks a task's peak of memory.
func (k *task) within(t testing.TB, most float64) {
	t.Helper()
	peak := k.proc.peakMiB(t)
	t.Logf("%s: at most %.0f MiB, of %.0f MiB", k.name(), peak, most)
	if peak > most {
		t.Errorf("%s took %.0f MiB, more than %.0f MiB", k.name(), peak, most)
	}
}

// median returns the median of durations.
func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

func scalarOf(t typespb.DataType, v int64) *tensorpb.TensorProto {
	p := &tensorpb.TensorProto{Dtype: t, TensorShape: &shapepb.TensorShapeProto{}}
	if t == int64T {
		p.Int64Val = []int64{v}
	} else {
		p.IntVal = []int32{int32(v)}
	}
	return p
}

// counting returns the nodes of an int64 tensor 0, 1, … on a device.
func counting(name, device string, n int64) []*nodepb.NodeDef {
	c := func(part string, v int64) *nodepb.NodeDef {
		return on(constant(name+"_"+part, int64T, scalarOf(int64T, v)), device)
	}
	r := with(node(name, "Range", 0, name+"_start", name+"_limit", name+"_delta"), "Tidx", dtypeAttr(int64T))
	return []*nodepb.NodeDef{c("start", 0), c("limit", n), c("delta", 1), on(r, device)}
}

// total returns the nodes of the sum of an int64 vector on a device.
func total(name, device, input string) []*nodepb.NodeDef {
	axes := &tensorpb.TensorProto{Dtype: typespb.DataType_DT_INT32, IntVal: []int32{0}, TensorShape: floats([]int64{1}, 0).TensorShape}
	sum := with(with(node(name, "Sum", int64T, input, name+"_axes"), "Tidx", dtypeAttr(axes.Dtype)), "keep_dims", flag(false))
	return []*nodepb.NodeDef{on(constant(name+"_axes", axes.Dtype, axes), device), on(sum, device)}
}

func placeholder(name, device string, t typespb.DataType) *nodepb.NodeDef {
	return on(with(node(name, "Placeholder", 0), "dtype", dtypeAttr(t)), device)
}

// variableOf returns the nodes of a variable of floats on a device: NAME is its handle, NAME_read reads it, NAME_set fills it with ones.
func variableOf(name, device string, n int64) []*nodepb.NodeDef {
	shape := floats([]int64{n}).TensorShape
	handle := with(with(with(node(name, "VarHandleOp", 0), "dtype", dtypeAttr(float)), "shape",
		&attrpb.AttrValue{Value: &attrpb.AttrValue_Shape{Shape: shape}}), "shared_name", text(name))
	dims := &tensorpb.TensorProto{Dtype: int64T, Int64Val: []int64{n},
		TensorShape: &shapepb.TensorShapeProto{Dim: []*shapepb.TensorShapeProto_Dim{{Size: 1}}}}
	fill := with(node(name+"_ones", "Fill", float, name+"_dims", name+"_one"), "index_type", dtypeAttr(int64T))
	nodes := []*nodepb.NodeDef{handle, constant(name+"_dims", int64T, dims), constant(name+"_one", float, floats(nil, 1)), fill,
		with(node(name+"_set", "AssignVariableOp", 0, name, name+"_ones"), "dtype", dtypeAttr(float)),
		with(node(name+"_read", "ReadVariableOp", 0, name), "dtype", dtypeAttr(float))}
	for _, n := range nodes {
		on(n, device)
	}
	return nodes
}

// runInt64 runs a step and returns its single result.
func runInt64(ctx context.Context, s *client.Session, feeds map[string]*tensor.Tensor, fetch string) (int64, error) {
	out, err := s.Run(ctx, feeds, []string{fetch}, nil)
	if err != nil {
		return 0, err
	}
	defer out[0].Release()
	if out[0].Len() != 1 || out[0].DType() != tensor.Int64 {
		return 0, fmt.Errorf("%s is %v%v", fetch, out[0].DType(), out[0].Shape())
	}
	return tensor.Of[int64](out[0])[0], nil
}
