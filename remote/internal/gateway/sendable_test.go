package gateway

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// TestSendable checks that a result that does not fit into a message becomes an error, and that its tensors are released.
func TestSendable(t *testing.T) {
	pool := tensor.NewPool("test", 0)
	v, err := tensor.New(pool, tensor.Float32, tensor.Shape{16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	result := func(n int) *actors.StepResult {
		r := &actors.StepResult{}
		for range n {
			r.Tensors = append(r.Tensors, v.Retain())
		}
		return r
	}
	r, err := sendable(nil, result(31), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Release()
	names := make([]string, 32)
	names[0] = "v:0"
	for want, list := range map[string][]string{"v:0": names, "number 0": nil} {
		r, err := sendable(list, result(32), nil)
		if r != nil || status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "checkpoint") {
			t.Errorf("%v, %v", r, err)
		}
	}
	failed := status.Internalf("as it was")
	if r, err := sendable(nil, nil, failed); r != nil || !errors.Is(err, failed) {
		t.Errorf("%v, %v", r, err)
	}
	v.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes are in use", n)
	}
}
