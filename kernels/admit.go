package kernels

import (
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
)

// Admit rejects a node whose op, device or container is not allowed by the rights of the device's session. The registry's rows call it for
// every kernel that is made; it is also called for an existing kernel that is reused in another program. Nodes inserted by graph passes are
// not the client's and are always admitted, provided their device is.
func Admit(n *graph.Node, d Device) error {
	r := d.Rights()
	if r == nil {
		return nil
	}
	if err := r.Device(d.Name()); err != nil {
		return err
	}
	if n.Op == "_Arg" || n.Op == "_Retval" || graph.IsInserted(n) {
		return nil
	}
	if err := r.Op(n.Op); err != nil {
		return err
	}
	if v := n.Attrs["container"]; v != nil {
		if err := d.Resources().Admit(string(v.GetS())); err != nil {
			return err
		}
	}
	// A client's own transfer names another device in an attribute.
	for _, attr := range []string{"send_device", "recv_device"} {
		if v := n.Attrs[attr]; v != nil {
			device := string(v.GetS())
			if err := checkFull(device); err != nil {
				return err
			}
			if err := r.Device(device); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFull returns an error unless a device's name has the form that policies know. What a client sends to another form of the name, such as
// the name of the device's task, would reach the task all the same.
func checkFull(device string) error {
	if spec, err := place.Parse(device); err != nil || !spec.IsFull() || spec.String() != device {
		return status.InvalidArgumentf("A node sends to or receives from '%s', which is no device's full name", device)
	}
	return nil
}

// AdmitCall is Admit for a node whose op is a function of the graph: of the function itself, each node is judged where it runs.
func AdmitCall(d Device) error { return d.Rights().Device(d.Name()) }

// admitted returns a constructor that calls construct only for nodes that are admitted, and tells of what was made.
func admitted(construct func(*Construction) (any, error)) func(*Construction) (any, error) {
	return func(c *Construction) (any, error) {
		if err := Admit(c.Node, c.Device); err != nil {
			return nil, err
		}
		k, err := construct(c)
		if f := made.Load(); f != nil && err == nil {
			(*f)(c)
		}
		return k, err
	}
}

// admitContainer rejects a container that the session may not use. The container is named by a handle, or by the two strings of a reference
// to an older kind of resource. local is what the handle holds in this process, which a client cannot forge.
func (c *Context) admitContainer(container string, local any) error {
	if containers.IsStepName(container) {
		if local == nil && container != c.Step.Container {
			return status.Errorf(status.NotFound, "Container %s does not exist.", container)
		}
		return nil
	}
	r := c.Device.Resources()
	if !r.Restricted() {
		return nil
	}
	if IsAnonymous(local) {
		return nil // in no container
	}
	return r.Admit(container)
}
