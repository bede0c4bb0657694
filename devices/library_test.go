package devices

import (
	"fmt"
	"strings"
	"testing"

	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// functionLibrary makes functions of int64 tensors from their signatures, "name(argument, ...) -> result", and the texts of their bodies.
// The result is named y, as is the node that yields it: Mul, FloorDiv, whose output is z, or a call of another function. Ops have capital
// letters, functions do not.
func functionLibrary(t testing.TB, bodies map[string]string) *functionpb.FunctionDefLibrary {
	t.Helper()
	library := &functionpb.FunctionDefLibrary{}
	for head, body := range bodies {
		name, rest, _ := strings.Cut(head, "(")
		args, result, ok := strings.Cut(rest, ") -> ")
		if !ok {
			t.Fatalf("not a function: %s", head)
		}
		f := &functionpb.FunctionDef{Signature: &oppb.OpDef{Name: name}, Ret: map[string]string{}}
		for a := range strings.SplitSeq(args, ", ") {
			f.Signature.InputArg = append(f.Signature.InputArg, &oppb.OpDef_ArgDef{Name: a, Type: tensor.Int64.Proto()})
		}
		f.Signature.OutputArg = []*oppb.OpDef_ArgDef{{Name: result, Type: tensor.Int64.Proto()}}
		f.NodeDef = kernelstest.GraphDef(t, body).Node
		port := "z"
		for _, n := range f.NodeDef {
			if strings.ToLower(n.Op) == n.Op { // a function
				clear(n.Attr)
				if n.Name == result {
					port = "y"
				}
			}
		}
		f.Ret[result] = result + ":" + port
		library.Function = append(library.Function, f)
	}
	return library
}

// TestFindIsBounded checks that Find looks as deep as calls may be nested, and no deeper.
func TestFindIsBounded(t *testing.T) {
	bodies := map[string]string{"f0(x) -> y": "y = Mul(x, x)"} // f1 calls it, f2 calls f1, and so on
	for i := range maxDepth {
		bodies[fmt.Sprintf("f%d(x) -> y", i+1)] = fmt.Sprintf("y = f%d(x)", i)
	}
	library := functionsOf(t, newTestDevice(t), bodies).Library()
	find := func(depth int) (*graph.Node, error) {
		outermost := &graph.FunctionRef{Name: fmt.Sprint("f", depth-1)}
		return library.Find(outermost, func(n *graph.Node) bool { return n.Op == "Mul" })
	}
	if n, err := find(maxDepth); err != nil || n == nil {
		t.Errorf("found %v, %v", n, err)
	}
	_, err := find(maxDepth + 1)
	wantError(t, err, status.ResourceExhausted, "Function f0:", fmt.Sprint(maxDepth))
}
