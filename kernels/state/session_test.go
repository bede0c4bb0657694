package state_test

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestSessionTensors(t *testing.T) {
	d := kt.NewDevice(t)
	keep, err := d.Kernel(kt.Op{Type: "GetSessionHandle", Name: "h", Session: "s", Outputs: 1}, kt.F32(nil, 0))
	if err != nil {
		t.Fatal(err)
	}
	handle := func(v float32) string {
		out, err := keep.Try(kt.Values(kt.F32(nil, v))...)
		if err != nil {
			t.Fatal(err)
		}
		defer out[0].Release()
		return out[0].Tensor.Strings()[0]
	}
	use := func(op, session, handle string, attrs kt.Attrs, outputs int) (float32, error) {
		out, err := d.Try(kt.Op{Type: op, Session: session, Attrs: attrs, Outputs: outputs}, kt.Str(nil, handle))
		if err != nil || outputs == 0 {
			return 0, err
		}
		defer out[0].Release()
		return tensor.Of[float32](out[0].Tensor)[0], nil
	}
	get := func(session, handle string) (float32, error) {
		return use("GetSessionTensor", session, handle, kt.Attrs{"dtype": tensor.Float32}, 1)
	}
	a, b := handle(1), handle(2)
	if a == b || !strings.HasPrefix(a, "h;") || !strings.HasSuffix(a, ";"+d.Name()) {
		t.Errorf("handles %q and %q", a, b)
	}
	for h, want := range map[string]float32{a: 1, b: 2} {
		if v, err := get("s", h); err != nil || v != want {
			t.Errorf("%s: %v, %v; want %v", h, v, err, want)
		}
	}
	missing := func(err error) {
		t.Helper()
		if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "is not in the session store") {
			t.Error(err)
		}
	}
	_, err = get("other", a)
	missing(err)
	if _, err := use("DeleteSessionTensor", "s", a, nil, 0); err != nil {
		t.Error(err)
	}
	_, err = get("s", a)
	missing(err)
	_, err = use("DeleteSessionTensor", "s", a, nil, 0)
	if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "Failed to delete a tensor with handle") {
		t.Error(err)
	}
	if _, err := use("GetSessionTensor", "s", b, kt.Attrs{"dtype": tensor.Int32}, 1); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("another dtype: %v", err)
	}
	if _, err := get("", b); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("without a session: %v", err)
	}
	keep.Impl().(kernels.Closer).Close()
	_, err = get("s", b)
	missing(err)
}
