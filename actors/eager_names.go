package actors

import (
	"strings"

	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// names translates between a client's name for this task and the task's own. A client numbers the tasks of its cluster as it likes.
type names struct {
	client, own string
	spec        place.Spec // of client
}

// newNames returns the names for a context whose client calls the task by a full name.
func newNames(client, own string) (names, error) {
	spec, err := place.Parse(client)
	if err != nil {
		return names{}, err
	}
	if spec.Job == "" || spec.Replica < 0 || spec.Task < 0 || spec.Type != "" {
		return names{}, status.InvalidArgumentf("An eager context is of a task such as /job:worker/replica:0/task:0, not of '%s'", client)
	}
	return names{spec.String(), own, spec}, nil
}

// toClient returns the client's name for one of this task's devices. Other names stay as they are.
func (n names) toClient(device string) string {
	if rest, ok := strings.CutPrefix(device, n.own+"/"); ok {
		return n.client + "/" + rest
	}
	return device
}

// toOwn returns this task's own name for a device that the client names, perhaps only in part. ok is false for a device of another task.
func (n names) toOwn(device string) (own string, ok bool) {
	s, err := place.Parse(device)
	if err != nil || device == "" {
		return device, true // left to the graph's checks
	}
	if s.Job != "" && s.Job != n.spec.Job || s.Replica >= 0 && s.Replica != n.spec.Replica || s.Task >= 0 && s.Task != n.spec.Task {
		return device, false
	}
	s.Job, s.Replica, s.Task = "", -1, -1
	return n.own + s.String(), true
}

// device returns this task's own name for the device that an op is for; "" is any.
func (c *EagerContext) device(name string) (string, error) {
	own, ok := c.names.toOwn(name)
	if ok && (own == "" || own == c.task.name || c.task.executors[own] != nil) {
		return own, nil
	}
	return "", status.InvalidArgumentf("%s unknown device.", name)
}

// admit judges what a client does on a device of this task without a kernel: an op of its own, or "" for none. Kernels are judged when they are
// made (kernels.Admit).
func (c *EagerContext) admit(device, op string) error {
	w := c.session.worker
	if w.rights == nil {
		return nil
	}
	c.session.updateRights()
	if c.task.executors[device] == nil { // any device
		device = w.devices[0].Name()
	}
	if err := w.rights.Device(device); err != nil || op == "" {
		return err
	}
	return w.rights.Op(op)
}

// fromClient returns a tensor that came from outside as this task knows it, and takes over the reference: resource handles name this
// task's devices. The client may call another task as this one calls itself. Handles of that one's resources get the name that is free then: the
// client's name for this task.
func (n names) fromClient(t *tensor.Tensor) (*tensor.Tensor, error) {
	return n.renamed(t, func(device string) string {
		own, ok := n.toOwn(device)
		if rest, taken := strings.CutPrefix(own, n.own+"/"); !ok && taken {
			return n.client + "/" + rest
		}
		return own
	})
}

// forClient is the reverse of fromClient.
func (n names) forClient(t *tensor.Tensor) (*tensor.Tensor, error) { return n.renamed(t, n.home) }

// home returns the client's name for the device that a resource handle names here; see fromClient.
func (n names) home(device string) string {
	if rest, ok := strings.CutPrefix(device, n.client+"/"); ok {
		return n.own + "/" + rest
	}
	return n.toClient(device)
}

func (n names) renamed(t *tensor.Tensor, rename func(string) string) (*tensor.Tensor, error) {
	if t == nil || t.DType() != tensor.Resource || n.client == n.own {
		return t, nil
	}
	defer t.Release()
	out, err := tensor.New(tensor.Host, tensor.Resource, t.Shape())
	if err != nil {
		return nil, err
	}
	for i, h := range t.Handles() {
		h.Device = rename(h.Device)
		out.Handles()[i] = h
	}
	return out, nil
}
