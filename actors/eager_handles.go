package actors

import (
	"slices"
	"sync"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// maxHandles bounds the tensors that a client keeps in an eager context.
const maxHandles = 1 << 20

// handleKey names a tensor of an eager context: the op that made it, by the number that the client gave it, and which output it is.
type handleKey struct {
	op     int64
	output int32
}

func keyOf(h *corepb.RemoteTensorHandle) handleKey { return handleKey{h.GetOpId(), h.GetOutputNum()} }

// handleTable holds the tensors of an eager context, with a reference to each. The zero value is ready for use.
//
// It also leases the containers of steps that have ended: an op such as AnonymousIteratorV3 makes a resource in the container of its step
// and returns a handle. Outside of eager contexts such a resource ends with the step; here it ends with the last tensor that names it,
// in the table or in a call that runs.
type handleTable struct {
	mu      sync.Mutex // guards the rest: ops read and add handles on the goroutines of their calls, and releases must not wait behind them
	tensors map[handleKey]*tensor.Tensor
	leases  map[string]int // how many tensors and calls need a container
	over    bool
}

// get returns a tensor, with a reference for the caller and leases that the caller must return; nil if there is none.
func (h *handleTable) get(key handleKey) (t *tensor.Tensor, leases []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t = h.tensors[key]; t != nil {
		t.Retain()
		leases = h.leaseLocked(t)
	}
	return t, leases
}

// leaseLocked leases the containers that a tensor's handles name, as far as they are leased already.
func (h *handleTable) leaseLocked(t *tensor.Tensor) (leases []string) {
	if t.DType() != tensor.Resource || len(h.leases) == 0 {
		return nil
	}
	for _, r := range t.Handles() {
		if h.leases[r.Container] > 0 {
			h.leases[r.Container]++
			leases = append(leases, r.Container)
		}
	}
	return leases
}

// releaseLocked releases a tensor of the table, and adds the containers that nothing needs any more to ended.
func (h *handleTable) releaseLocked(t *tensor.Tensor, ended []string) []string {
	if t.DType() == tensor.Resource {
		for _, r := range t.Handles() {
			ended = h.returnLocked(r.Container, ended)
		}
	}
	t.Release()
	return ended
}

func (h *handleTable) returnLocked(container string, ended []string) []string {
	n := h.leases[container]
	switch n {
	case 0: // not leased, or the context is over
		return ended
	case 1:
		delete(h.leases, container)
		return append(ended, container)
	}
	h.leases[container] = n - 1
	return ended
}

// lease begins to lease a container, for a call, unless the context is over.
func (h *handleTable) lease(container string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return false
	}
	if h.leases == nil {
		h.leases = map[string]int{}
	}
	h.leases[container]++
	return true
}

// giveBack returns leases of a call. It returns the containers that nothing needs any more.
func (h *handleTable) giveBack(leases []string) (ended []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, container := range leases {
		ended = h.returnLocked(container, ended)
	}
	return ended
}

// put adds tensors and takes over the references to them, also if it fails. Tensors that had the same keys are released. It returns the
// containers that nothing needs any more.
func (h *handleTable) put(of string, keys []handleKey, tensors []*tensor.Tensor) (ended []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || len(h.tensors)+len(tensors) > maxHandles {
		kernels.ReleaseTensors(tensors)
		if h.over {
			return nil, errClosed()
		}
		return nil, tooMany("handles", of, maxHandles, "release those that are not used any more")
	}
	if h.tensors == nil {
		h.tensors = map[handleKey]*tensor.Tensor{}
	}
	for i, t := range tensors {
		h.leaseLocked(t)
		if old := h.tensors[keys[i]]; old != nil {
			ended = h.releaseLocked(old, ended)
		}
		h.tensors[keys[i]] = t
	}
	return ended, nil
}

// remove releases a tensor, and reports whether it was there. It returns the containers that nothing needs any more.
func (h *handleTable) remove(key handleKey) (ended []string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tensors[key]
	if t == nil {
		return nil, false
	}
	delete(h.tensors, key)
	return h.releaseLocked(t, nil), true
}

// count returns the number of handles.
func (h *handleTable) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.tensors)
}

// close releases all tensors, and returns all leased containers. Tensors that are put later are released at once.
func (h *handleTable) close() (ended []string) {
	h.mu.Lock()
	all, leases := h.tensors, h.leases
	h.tensors, h.leases, h.over = nil, nil, true
	h.mu.Unlock()
	for _, t := range all {
		t.Release()
	}
	return sortedKeys(leases)
}

// errNoHandle returns the error for an unknown handle, in the words by which TensorFlow's clients recognize a lost task.
func errNoHandle(key handleKey) error {
	return status.InvalidArgumentf("Unable to find the relevant tensor remote_handle: Op ID: %d, Output num: %d", key.op, key.output)
}

// errNoInput is errNoHandle for the input of an op.
func errNoInput(key handleKey) error {
	return status.InvalidArgumentf("%v. One possible cause is that the tensor was accessed after deallocation in a distributed worker setup."+
		"Try setting `os.environ['TF_ENABLE_EAGER_CLIENT_STREAMING_ENQUEUE']='False'` in your client to disable async streaming behavior to see if it fixes the problem.",
		errNoHandle(key))
}

// SendTensor adds tensors of the client as the outputs of an op of that number.
func (c *EagerContext) SendTensor(op *corepb.SendTensorOp) error {
	device, err := c.device(op.GetDeviceName())
	if err == nil {
		err = c.admit(device, "")
	}
	if err != nil {
		return err
	}
	keys := make([]handleKey, len(op.GetTensors()))
	tensors := make([]*tensor.Tensor, len(keys))
	for i, p := range op.GetTensors() {
		t, err := tensor.FromTensorProto(p, c.memory())
		if err == nil {
			t, err = c.names.fromClient(t)
		}
		if err != nil {
			kernels.ReleaseTensors(tensors[:i])
			return err
		}
		keys[i], tensors[i] = handleKey{op.GetOpId(), int32(i)}, t
	}
	return c.put(keys, tensors)
}

// put makes tensors handles, and takes over the references to them.
func (c *EagerContext) put(keys []handleKey, tensors []*tensor.Tensor) error {
	ended, err := c.handles.put(c.String(), keys, tensors)
	c.clear(ended)
	return err
}

// clear empties containers of steps that nothing needs any more.
func (c *EagerContext) clear(ended []string) {
	for _, container := range ended {
		c.session.worker.clear(container)
	}
}

// SendPackedHandle is UNIMPLEMENTED: packed handles are replicated variables of strategies that Troupe does not run.
func (c *EagerContext) SendPackedHandle(op *corepb.SendPackedHandleOp) error {
	return status.Unimplementedf("send_packed_handle is not supported: op %d packs %d handles for %s", op.GetOpId(), len(op.GetHandles()), op.GetDeviceName())
}

// Decref releases a handle. Ops that run keep their inputs.
func (c *EagerContext) Decref(h *corepb.RemoteTensorHandle) error {
	if !c.release(keyOf(h)) {
		return errNoHandle(keyOf(h))
	}
	return nil
}

// release releases a handle. It returns false if there is none.
func (c *EagerContext) release(key handleKey) bool {
	ended, ok := c.handles.remove(key)
	c.clear(ended)
	return ok
}

// memory returns the pool for tensors that the client sends.
func (c *EagerContext) memory() *tensor.Pool { return c.session.worker.devices[0].Pool() }

// inputs returns the inputs of an op, with references for the caller. They are leased until the end of the call. Those that lie on other
// tasks are nil, and r.away has their handles.
func (r *eagerCall) inputs(op *corepb.Operation) (all []*tensor.Tensor, err error) {
	all = make([]*tensor.Tensor, len(op.GetOpInputs()))
	defer func() {
		if err != nil {
			kernels.ReleaseTensors(all)
			all = nil
		}
	}()
	for i, in := range op.GetOpInputs() {
		switch item := in.GetItem().(type) {
		case *corepb.Operation_Input_RemoteHandle:
			if all[i], err = r.input(item.RemoteHandle); all[i] == nil && err == nil {
				if r.away == nil {
					r.away = make([]*corepb.RemoteTensorHandle, len(all))
				}
				r.away[i] = item.RemoteHandle
			}
		case *corepb.Operation_Input_Tensor:
			if all[i], err = tensor.FromTensorProto(item.Tensor, r.context.memory()); err == nil {
				all[i], err = r.context.names.fromClient(all[i])
			}
		default:
			err = status.InvalidArgumentf("Input %d of %s is neither a handle nor a tensor", i, op.GetName())
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// input returns the tensor of a handle; nil if it lies on another task.
func (r *eagerCall) input(h *corepb.RemoteTensorHandle) (*tensor.Tensor, error) {
	c, key := r.context, keyOf(h)
	t, leases := c.handles.get(key)
	if t == nil {
		if d := h.GetDevice(); d != "" && taskOf(d) != c.names.client {
			return nil, nil
		}
		return nil, errNoInput(key)
	}
	r.leases = append(r.leases, leases...)
	return t, nil
}

// attach makes the call's rendezvous that of a step.
func (r *eagerCall) attach(st *step) {
	r.part, r.out = st.own, &st.out
	st.own.eager, st.own.Rendezvous, st.own.Foreign, st.own.Depth = r, r, true, r.depth
}

// leaseOutputs leases the container of the call's step, which has ended, if an output names it, and reports whether it does.
func (r *eagerCall) leaseOutputs() bool {
	container := r.part.Container
	if !r.out.name(container) || !r.context.handles.lease(container) {
		return false
	}
	r.leases = append(r.leases, container)
	return true
}

// name reports whether one of the fetched tensors is a handle of a resource in a container.
func (f *fetches) name(container string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.tensors, func(t *tensor.Tensor) bool {
		return t != nil && t.DType() == tensor.Resource && slices.ContainsFunc(t.Handles(), func(h tensor.Handle) bool { return h.Container == container })
	})
}

// end returns the call's leases.
func (r *eagerCall) end() {
	if len(r.leases) > 0 {
		r.context.clear(r.context.handles.giveBack(r.leases))
	}
}
