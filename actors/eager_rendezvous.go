package actors

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// maxSent bounds the values that wait in a rendezvous for their receivers.
const maxSent = 1 << 16

// eagerStep is the rendezvous of an eager context's ops or, with an id of its own, of a function whose components run on several tasks. A
// value waits here for its receiver, which may be on another task (EagerRecv), and a receiver for its value. Keys are TensorFlow's, and a
// key may be used again.
type eagerStep struct {
	id int64

	// Under the table's lock.
	calls   int   // of EagerRecv that have entered it
	parts   int   // of the function that run in it on this task
	failure error // of the first part that has failed

	mu      sync.Mutex    // guards the rest: kernels send and receive on their own goroutines, as do the calls of other tasks
	context *EagerContext // nil before the step begins here
	sent    map[string][]eagerValue
	count   int // of values
	waiting map[string][]*eagerReceiver
	// kept are handles of anonymous resources that the step has sent, by their names: another task has only the name, and may send it back.
	kept map[string]*tensor.Tensor
	err  error
}

// eagerValue is what is sent under a key.
type eagerValue struct {
	t    *tensor.Tensor
	dead bool
}

func (v eagerValue) release() {
	if v.t != nil {
		v.t.Release()
	}
}

// eagerReceiver waits for a value. done is called once, without a lock.
type eagerReceiver struct {
	key   string
	check func(*EagerContext) error // of a call of another task: whether it may receive from the step's context; nil for kernels
	done  func(eagerValue, error)
}

// send passes a value of a step of c to its receiver, now or later, and takes over the reference. The key of a value that waits counts as memory
// of the context: its client chooses it.
func (s *eagerStep) send(c *EagerContext, key string, v eagerValue) error {
	bytes := keyBytes(key)
	if err := c.memory().Reserve(bytes); err != nil {
		v.release()
		return err
	}
	s.mu.Lock()
	var r *eagerReceiver
	err := s.err
	switch waiting := s.waiting[key]; {
	case err != nil:
	case len(waiting) > 0:
		r = waiting[0]
		s.dropLocked(key, 0)
	case s.count >= maxSent:
		err = tooMany("sent tensors that were not received", "A rendezvous", maxSent, "receive them")
	default:
		if s.sent == nil {
			s.sent = map[string][]eagerValue{}
		}
		s.sent[key] = append(s.sent[key], v)
		s.count++
	}
	if err == nil {
		s.keepLocked(v.t)
	}
	s.mu.Unlock()
	if err != nil || r != nil {
		c.memory().Unreserve(bytes)
	}
	switch {
	case err != nil:
		v.release()
	case r != nil:
		r.done(v, nil)
	}
	return err
}

// keyBytes is about what the key of a value takes that waits, with its place in the table.
func keyBytes(key string) int64 { return int64(len(key)) + 128 }

// keepLocked keeps the anonymous resources that a tensor has, until the step of a function ends. Those that ops send are their client's.
func (s *eagerStep) keepLocked(t *tensor.Tensor) {
	if t == nil || t.DType() != tensor.Resource || s.context == nil || s == s.context.own {
		return
	}
	for _, h := range t.Handles() {
		if !kernels.IsAnonymous(h.Local) || s.kept[h.Name] != nil {
			continue
		}
		if s.kept == nil {
			s.kept = map[string]*tensor.Tensor{}
		}
		s.kept[h.Name] = t.Retain()
	}
}

// recv calls done with what is sent under a key, now or later, or with the error that ends the step. The receiver owns the reference.
func (s *eagerStep) recv(r *eagerReceiver) {
	s.mu.Lock()
	err := s.err
	if err == nil && s.context != nil && r.check != nil {
		err = r.check(s.context)
	}
	if err == nil && len(s.sent[r.key]) == 0 {
		if s.waiting == nil {
			s.waiting = map[string][]*eagerReceiver{}
		}
		s.waiting[r.key] = append(s.waiting[r.key], r)
		s.mu.Unlock()
		return
	}
	var v eagerValue
	if err == nil {
		all := s.sent[r.key]
		v = all[0]
		all[0] = eagerValue{}
		if s.sent[r.key] = all[1:]; len(all) == 1 {
			delete(s.sent, r.key)
		}
		s.count--
		s.context.memory().Unreserve(keyBytes(r.key))
	}
	s.mu.Unlock()
	r.done(v, err)
}

// withdraw removes a receiver that waits, and reports whether it still waited; done is not called then.
func (s *eagerStep) withdraw(r *eagerReceiver) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiting[r.key] {
		if w == r {
			s.dropLocked(r.key, i)
			return true
		}
	}
	return false
}

func (s *eagerStep) dropLocked(key string, i int) {
	all := s.waiting[key]
	if len(all) == 1 {
		delete(s.waiting, key)
		return
	}
	s.waiting[key] = append(all[:i:i], all[i+1:]...)
}

// abort ends the step: receivers get the error, values are released, and later calls fail. Only the first call has an effect.
func (s *eagerStep) abort(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	sent, waiting, kept, c := s.sent, s.waiting, s.kept, s.context
	s.sent, s.waiting, s.kept, s.count = nil, nil, nil, 0
	s.mu.Unlock()
	for _, t := range kept {
		t.Release()
	}
	for key, all := range sent {
		c.memory().Unreserve(keyBytes(key) * int64(len(all)))
		for _, v := range all {
			v.release()
		}
	}
	for _, all := range waiting {
		for _, r := range all {
			r.done(eagerValue{}, err)
		}
	}
}

// begin makes the step one of a context, unless it is another one's. Receivers that came before are refused if they may not receive from the context.
func (s *eagerStep) begin(c *EagerContext) error {
	s.mu.Lock()
	err := s.err
	var refused []func()
	switch {
	case err != nil:
	case s.context == nil:
		s.context = c
		for key, all := range s.waiting {
			stay := slices.DeleteFunc(all, func(r *eagerReceiver) bool {
				err := r.check(c) // only calls of other tasks come before their step
				if err != nil {
					refused = append(refused, func() { r.done(eagerValue{}, err) })
				}
				return err != nil
			})
			if s.waiting[key] = stay; len(stay) == 0 {
				delete(s.waiting, key)
			}
		}
	case s.context != c:
		err = status.InvalidArgumentf("Step %d is one of another eager context", s.id)
	}
	s.mu.Unlock()
	for _, refuse := range refused {
		refuse()
	}
	return err
}

// isEmpty reports whether the step has nothing for another task: no values that were not received, nor resources that may come back.
func (s *eagerStep) isEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count == 0 && len(s.kept) == 0
}

// of returns the context whose step it is; nil before the step has begun.
func (s *eagerStep) of() *EagerContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.context
}

// isSource reports whether a key names this task as the sender, in the context's terms.
func (c *EagerContext) isSource(key string) bool {
	src, _, _ := strings.Cut(key, ";")
	_, ok := c.names.toOwn(src)
	return ok
}

// eagerEdge begins the edge names of a client's own sends and receives, which pass through a rendezvous of the context. The rest of the
// name is the key up to the iteration. Other edges are those of a step's parts.
const eagerEdge = "rendezvous "

// edgeKey returns the key of a client's send or receive, without its iteration.
func edgeKey(attrs map[string]*attrpb.AttrValue) string {
	return fmt.Sprintf("%s;%016x;%s;%s", attrs["send_device"].GetS(), uint64(attrs["send_device_incarnation"].GetI()), attrs["recv_device"].GetS(), attrs["tensor_name"].GetS())
}

// withIteration completes a key.
func withIteration(key string, tag kernels.Tag) string {
	return key + ";" + strconv.FormatUint(tag.Frame, 10) + ":" + strconv.FormatInt(tag.Iter, 10)
}

// eagerEdgeAttrs returns the attributes with which a client's send or receive uses a rendezvous of the context; nil for other nodes.
func eagerEdgeAttrs(n *nodepb.NodeDef) map[string]*attrpb.AttrValue {
	switch n.GetOp() {
	case "_Send", "_HostSend", "_Recv", "_HostRecv":
	default:
		return nil
	}
	out := maps.Clone(n.GetAttr())
	if out == nil {
		out = map[string]*attrpb.AttrValue{}
	}
	out["tensor_name"] = textAttr(eagerEdge + edgeKey(n.GetAttr()))
	return out
}

// eagerCall is a step that runs an op or a function of an eager context. It is the rendezvous of the step's kernels: the client's own
// sends and receives use meet.
type eagerCall struct {
	context *EagerContext
	meet    *eagerStep
	part    *stepPart
	out     *fetches
	away    []*corepb.RemoteTensorHandle // inputs that lie on other tasks; nil if there are none
	made    []eagerOutput                // outputs that stay on other tasks; nil if there are none
	kept    []string                     // the devices of other tasks that were asked to keep outputs, by output; nil if there are none
	leases  []string                     // of the containers that its inputs and outputs name; see handleTable
	lost    atomic.Bool                  // a receive failed because another task is lost
	depth   int                          // of the calls that led to it
}

// shared returns the number of the call that the parts of a function over several tasks have in common; 0 if this is no such part.
func (r *eagerCall) shared() uint64 {
	if r.meet == r.context.own {
		return 0
	}
	return uint64(r.meet.id)
}

// Send implements kernels.Rendezvous.
func (r *eagerCall) Send(key kernels.Key, dst string, t *tensor.Tensor, dead bool) error {
	edge, ok := strings.CutPrefix(key.Edge, eagerEdge)
	if !ok {
		return r.part.rendezvous.Send(key, dst, t, dead)
	}
	return r.meet.send(r.context, withIteration(edge, key.Tag), eagerValue{t, dead || t == nil})
}

// Recv implements kernels.Rendezvous.
func (r *eagerCall) Recv(key kernels.Key, done func(*tensor.Tensor, bool, error)) {
	edge, ok := strings.CutPrefix(key.Edge, eagerEdge)
	if !ok {
		r.part.rendezvous.Recv(key, done)
		return
	}
	ctx, cancel := context.WithCancel(r.context.session.life)
	withdraw, ok := r.part.cancel.OnCancel(func(error) { cancel() })
	if !ok {
		cancel()
		done(nil, false, r.part.cancel.Err())
		return
	}
	r.context.receive(ctx, r.meet, withIteration(edge, key.Tag), func(v eagerValue, err error) {
		withdraw()
		cancel()
		if ended := r.part.cancel.Err(); err != nil && ended != nil {
			err = ended
		} else if err != nil && status.CodeOf(err) == status.Unavailable {
			r.lost.Store(true)
		}
		done(v.t, v.dead, err)
	})
}

// receive calls done with what is sent under a key, from this task or another one, or with an error, such as that of ctx, which its
// caller ends after that. It does not block.
func (c *EagerContext) receive(ctx context.Context, meet *eagerStep, key string, done func(eagerValue, error)) {
	if c.isSource(key) {
		c.receiveHere(ctx, meet, key, done)
		return
	}
	src, _, _ := strings.Cut(key, ";")
	address, err := c.peer(taskOf(src))
	if err == nil && c.task.Pull == nil {
		err = status.Unimplementedf("%s fetches no tensors from other tasks, such as %s", c.task.name, src)
	}
	if err != nil {
		done(eagerValue{}, err)
		return
	}
	what := "A receive from " + src
	c.task.work.Go(contain.Func(c.task.Log, what, func() { // ends with ctx
		var v eagerValue
		err := contain.Run(c.task.Log, what, func() (err error) {
			if v.t, v.dead, err = c.task.Pull(c.calling(ctx), address, meet.id, key); err == nil {
				v.t, err = c.names.fromClient(v.t)
			}
			return err
		})
		done(v, err)
	}, nil))
}

// receiveHere is receive for a value of this task. Its caller ends ctx after done.
func (c *EagerContext) receiveHere(ctx context.Context, meet *eagerStep, key string, done func(eagerValue, error)) {
	r := &eagerReceiver{key: key, done: done}
	meet.recv(r)
	context.AfterFunc(ctx, contain.Func(c.task.Log, "The end of a receive", func() {
		if meet.withdraw(r) {
			done(eagerValue{}, status.From(ctx.Err()))
		}
	}, nil))
}

// send puts the input of a _Send into the context's rendezvous.
func (c *EagerContext) send(op *corepb.Operation, inputs []*tensor.Tensor) error {
	if len(inputs) != 1 || inputs[0] == nil {
		return status.InvalidArgumentf("_Send has one input, which lies on the device that sends it")
	}
	return c.own.send(c, withIteration(edgeKey(op.GetAttrs()), kernels.Tag{}), eagerValue{t: inputs[0].Retain()})
}

// recv waits for the value of a _Recv.
func (c *EagerContext) recv(ctx context.Context, op *corepb.Operation) ([]*tensor.Tensor, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.session.life, cancel)()
	received := make(chan error, 1)
	var v eagerValue
	c.receive(ctx, c.own, withIteration(edgeKey(op.GetAttrs()), kernels.Tag{}), func(got eagerValue, err error) {
		v = got
		received <- err
	})
	err := <-received
	switch {
	case err != nil:
		return nil, err
	case v.dead:
		return nil, status.InvalidArgumentf("The tensor that was sent for %s was dead: its branch was not taken", op.GetAttrs()["tensor_name"].GetS())
	}
	if want := tensor.FromProto(op.GetAttrs()["tensor_type"].GetType()); want != v.t.DType() {
		defer v.t.Release()
		return nil, status.InvalidArgumentf("A tensor of type %v was received, but _Recv has tensor_type %v", v.t.DType(), want)
	}
	return []*tensor.Tensor{v.t}, nil
}
