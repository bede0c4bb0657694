package remote

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/remote/link"
	"github.com/troupe-run/troupe/remote/port"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TaskStatus is what this task knows of one of the cluster's.
type TaskStatus struct {
	Task, Address string
	// State is "up", "down" or "never seen"; Since when, and for a task that is not up Reason why.
	State  string
	Since  time.Time
	Reason string
	// Boot is a random number of the task's start.
	Boot    uint64
	Devices []actors.DeviceInfo
}

// holder tells who serves an address that is taken, for the error about it.
func holder(ctx context.Context, address string) string {
	id, err := link.Who(ctx, func(address string) (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(port.Codec{})))
	}, address)
	if err != nil {
		return ""
	}
	return link.Describe(id)
}

// Status tells what this task knows of all declared tasks, in order.
func (n *Node) Status() []TaskStatus {
	var out []TaskStatus
	for _, t := range n.spec.Tasks() {
		s := TaskStatus{Task: t.Name(), Address: t.Address, State: "never seen", Since: n.started}
		if t == n.self {
			s.State, s.Boot, s.Devices = "up", n.boot, n.task.Describe()
		} else if st, err := n.links.State(t.Name()); err == nil {
			s.Boot, s.Since, s.Reason = st.Boot, st.Since, st.Reason
			s.Devices = n.task.Cluster.Known(t.Name())
			switch st.Health {
			case link.Up:
				s.State = "up"
			case link.Down:
				s.State = "down"
			}
		}
		out = append(out, s)
	}
	return out
}
