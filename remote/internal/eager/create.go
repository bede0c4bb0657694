package eager

import (
	"context"
	"time"

	devpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/device_attributes_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/spec"
)

const (
	// maxDescription bounds the bytes of a request that describes a context: it names the tasks and devices of a whole cluster.
	maxDescription = 4 << 20
	// maxKeepAlive bounds how long a context outlives its last call. TensorFlow's clients ask for 10 minutes.
	maxKeepAlive = 24 * time.Hour
)

func (s *service) createContext(ctx context.Context, caller *gateway.Caller, q *corepb.CreateContextRequest) (*corepb.CreateContextResponse, error) {
	if err := caller.May(access.OpenSessions); err != nil {
		return nil, err
	}
	described, err := specOf(caller, q)
	if err != nil {
		return nil, err
	}
	if described.KeepAlive, err = keepAlive(q.GetKeepAliveSecs()); err != nil {
		return nil, err
	}
	if err := s.mayUse(caller, s.Contexts.Open(described.ID)); err != nil { // it replaces a context with this ID
		return nil, err
	}
	var more wire.NewerCreateContextRequest
	if err := wire.Newer(q, &more); err != nil {
		return nil, status.InvalidArgumentf("The request for %s is malformed: %v", nameOf(q.GetContextId()), err)
	}
	if more.GetClearExistingContexts() {
		if err := s.clear(ctx, caller); err != nil {
			return nil, err
		}
	}
	rights, err := caller.SessionRights(ctx)
	if err != nil {
		return nil, err
	}
	c, err := s.Contexts.Create(ctx, rights, *described)
	if err != nil {
		gateway.Opened(rights, "", err)
		return nil, err
	}
	gateway.Opened(rights, c.Handle(), nil)
	s.Log.Info("an eager context was opened", "call", Name+"/CreateContext", "context", c.ID(), "view", c.View(), "session", c.Handle(), "task", described.Task, "client", caller.NameOf(ctx), "tasks of its cluster", len(described.Peers))
	return &corepb.CreateContextResponse{DeviceAttributes: c.Devices(caller.Rights().ShowsDevice)}, nil
}

// clear closes the contexts that the caller may use, and empties the default containers.
func (s *service) clear(ctx context.Context, caller *gateway.Caller) error {
	if err := s.Reset(ctx, caller, caller.NameOf(ctx)); err != nil {
		return err
	}
	for _, c := range s.Contexts.All() {
		if caller.MayUse(c.Rights().Policy, c.Handle()) == nil {
			c.Close(c.View())
		}
	}
	return nil
}

// description is a request that describes a context and its cluster.
type description interface {
	inContext
	GetServerDef() *corepb.ServerDef
	GetContextViewId() uint64
	GetClusterDeviceAttributes() []*devpb.DeviceAttributes
}

// specOf returns what a request says about its context, if its caller may declare clusters: the task connects to the addresses in it.
func specOf(caller *gateway.Caller, q description) (*actors.EagerSpec, error) {
	if err := caller.May(access.DeclareCluster); err != nil {
		return nil, err
	}
	if n := proto.Size(q); n > maxDescription {
		return nil, status.Errorf(status.ResourceExhausted, "The description of %s takes %d bytes; the limit is %d", nameOf(q.GetContextId()), n, maxDescription)
	}
	def := q.GetServerDef()
	task, err := taskName(def.GetJobName(), def.GetTaskIndex())
	if err != nil {
		return nil, err
	}
	described := &actors.EagerSpec{ID: q.GetContextId(), View: q.GetContextViewId(), Task: task, Peers: map[string]string{}, Devices: q.GetClusterDeviceAttributes(),
		Config: def.GetDefaultSessionConfig()}
	for _, job := range def.GetCluster().GetJob() {
		for index, address := range job.GetTasks() {
			name, err := taskName(job.GetName(), index)
			if err != nil {
				return nil, err
			}
			if _, _, err := spec.SplitAddress(address); err != nil {
				return nil, err
			}
			described.Peers[name] = address
		}
	}
	if described.Config.GetClusterDef() != nil { // that of the context holds
		described.Config = proto.CloneOf(described.Config)
		described.Config.ClusterDef = nil
	}
	described.Isolated = described.Config.GetIsolateSessionState()
	return described, nil
}

// taskName returns the full name of a task of the cluster that a client describes.
func taskName(job string, index int32) (string, error) {
	name := spec.TaskName(job, int(index))
	_, _, err := spec.ParseTaskName(name)
	return name, err
}

// keepAlive returns how long a context outlives its last call; 0 for as long as sessions outlive their clients.
func keepAlive(seconds int64) (time.Duration, error) {
	if seconds > int64(maxKeepAlive/time.Second) {
		return 0, status.InvalidArgumentf("An eager context cannot be kept for %d seconds after its last call (keep_alive_secs); the limit is %d", seconds, int64(maxKeepAlive/time.Second))
	}
	return time.Duration(max(seconds, 0)) * time.Second, nil
}
