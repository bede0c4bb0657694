package actors

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestRightsBoundMemory checks that the byte limits in a client's rights bound its steps, its sessions and all its sessions together, on
// the master and on another task's worker.
func TestRightsBoundMemory(t *testing.T) {
	for _, c := range []struct {
		what   string
		rights Rights
	}{
		{"the step", Rights{StepBytes: 1 << 20}},
		{"the session", Rights{SessionBytes: 1 << 20}},
		{"the client client:alice", Rights{Client: "client:alice", ClientBytes: 1 << 20}},
	} {
		for _, job := range []string{"a", "b"} {
			t.Run(c.what+" on "+job, func(t *testing.T) {
				net := newNetwork(t, "a", "b")
				a := net.node(taskName("a"))
				s := openAs(t, a, c.rights, "n = Placeholder() dtype=int64\nv = Const() value=7\ny = Fill(n, v) index_type=int64 @"+job+"0", nil)
				defer s.close()
				req := &StepRequest{Feeds: []Feed{{"n:0", kernelstest.I64(kernelstest.S(1), 1<<20)}}, Targets: []string{"y"}}
				defer req.done()
				r, err := s.session.Run(t.Context(), req)
				if err == nil {
					r.Release()
				}
				if status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), c.what+" may hold 1048576 bytes") {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// TestClientMemory checks that a client's remaining memory counts after its sessions are closed, and that nothing is kept for clients
// without any.
func TestClientMemory(t *testing.T) {
	var m clientMemory
	pool := tensor.NewPool("test", 0).Under(m.open("10.0.0.7", 1<<20))
	if err := pool.Reserve(1 << 20); err != nil {
		t.Fatal(err)
	}
	m.close("10.0.0.7")
	if err := tensor.NewPool("test", 0).Under(m.open("10.0.0.7", 1<<20)).Reserve(1); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("got %v", err)
	}
	m.close("10.0.0.7")
	pool.Unreserve(1 << 20)
	m.open("10.0.0.8", 1<<20)
	if len(m.all) != 1 {
		t.Errorf("%d clients are kept", len(m.all))
	}
}
