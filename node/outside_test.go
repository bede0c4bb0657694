package node

import (
	"context"
	"testing"

	"github.com/troupe-run/troupe/actors/cast"
)

// A host whose name could be a job's is a host, unless the cluster has the job.
func TestHostsThatCouldBeJobs(t *testing.T) {
	for _, let := range []bool{false, true} {
		n, err := New(t.Context(), ClusterSpec{"w": {"localhost:0"}}, WithOutsiders(let), logWarnings)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := n.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		for _, c := range []struct{ task, outside, inside string }{
			{"localhost:8090", "localhost:8090", "/job:localhost/replica:0/task:8090"},
			{"/job:localhost/task:8090", "localhost:8090", "/job:localhost/replica:0/task:8090"},
			{"w:0", "/job:w/replica:0/task:0", "/job:w/replica:0/task:0"},
			{"w:7", "/job:w/replica:0/task:7", "/job:w/replica:0/task:7"},
			{"10.0.0.9:8090", "10.0.0.9:8090", "10.0.0.9:8090"},
		} {
			want := c.inside
			if let {
				want = c.outside
			}
			ref := ActorAt(c.task, "echo")
			if got, err := n.resolve(ref); err != nil || got != (cast.Ref{Task: want, Name: "echo"}) || refOf(got) != ref {
				t.Errorf("with outsiders %v, %v is %v: %v", let, ref, got, err)
			}
		}
	}
}
