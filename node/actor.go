package node

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
	"google.golang.org/protobuf/proto"
)

// Limits of a program's own actors. A message or actor that exceeds one fails with RESOURCE_EXHAUSTED, but Send and Ask
// wait for room in a full queue.
const (
	// MaxActorMessage is the maximum size of an encoded message, in bytes.
	MaxActorMessage = cast.MaxMessage
	// MaxActorQueue is the maximum number of messages from one task, its own or another, that may wait for an actor.
	// MaxActorQueueBytes is the maximum number of their bytes.
	MaxActorQueue      = cast.MaxQueued
	MaxActorQueueBytes = cast.MaxQueuedBytes
	// MaxActors is the maximum number of actors on a task, unless WithActorLimit sets another one.
	MaxActors = cast.MaxActors
	// MaxActorStash is the maximum number of messages that an actor may have put aside with ActorContext.Stash, of MaxActorQueueBytes together.
	MaxActorStash = cast.MaxQueued
	// MaxTopics is the maximum number of topics that the actors of a task may subscribe to.
	MaxTopics = cast.MaxTopics
	// MaxActorAsks is the maximum number of answers that an actor may wait for after ActorContext.Ask.
	MaxActorAsks = cast.MaxAsks
)

// Actor is an actor of the program's own. It lives on a task of the cluster, beside the runtime's masters and workers,
// and has a name there. It receives messages from all tasks, which are protocol buffers, values of basic types such as string, or values of types that
// RegisterMessage was called for:
//
//	counter := node.WithActor("counter", func(*node.ActorContext, any) (node.Actor, error) {
//		var total int64
//		return node.ActorFunc(func(c *node.ActorContext, message any) {
//			switch m := message.(type) {
//			case *wrapperspb.Int64Value:
//				total += m.Value
//				c.Reply(wrapperspb.Int64(total))
//			}
//		}), nil
//	})
//
// Code is not sent between tasks: each task that hosts actors of a kind needs this option in its own program.
// Node.Spawn then makes an actor on any of these tasks, and Node.Send and Ask reach it.
//
// Guarantees:
//   - A message arrives at most once. Messages from one sender to one actor arrive in the order in which they were
//     sent. Messages that are in flight when a link breaks or a task ends are lost, and so are messages that wait for
//     an actor when it ends. Ask reports all of these: it always returns the answer or an error.
//   - An actor handles one message at a time. It may block in Receive. Its other messages then wait, and so do their
//     senders when its queue is full.
//   - A panic in Receive ends only that actor. Its state is lost. Its watchers, and callers of Ask, are notified. With the
//     option Restart of its kind, the actor is made afresh instead, and handles the messages that wait for it.
//   - A watcher is notified once: that an actor ended, or that its task is unreachable. An unreachable actor may live
//     on.
type Actor interface {
	// Receive handles a message: a proto.Message (also for a value of a basic type) or a value of a registered type that was sent, an ActorEnded of
	// an actor that this one watches, a TaskStatus after ActorContext.WatchTasks, an ActorAnswer after ActorContext.Ask, or what was given to
	// ActorContext.After or Every. The receiver must not change a proto.Message: a sender on the same task shares it.
	// An actor that is also an io.Closer is closed after its last message, even after a panic.
	Receive(c *ActorContext, message any)
}

// ActorFunc is a function that serves as an Actor.
type ActorFunc func(c *ActorContext, message any)

// Receive calls f.
func (f ActorFunc) Receive(c *ActorContext, message any) { f(c, message) }

// ActorMaker makes an actor with the arguments of Node.Spawn, which may be nil. It runs on the actor's
// goroutine, and may already send and watch.
type ActorMaker func(c *ActorContext, arguments any) (Actor, error)

// Kinds are kinds of actors of the program, by name. The zero value has none.
type Kinds struct{ all map[string]actorKind }

// Add adds a kind; see [WithActor]. A second one of the same name replaces the first.
func (k *Kinds) Add(name string, create ActorMaker, opts ...ActorOption) error {
	kind := actorKind{create: create}
	var first error
	for _, opt := range opts {
		if err := opt.apply(&kind); err != nil && first == nil {
			first = err
		}
	}
	if k.all == nil {
		k.all = map[string]actorKind{}
	}
	k.all[name] = kind
	return first
}

// ActorRef addresses an actor by its task and its name there. It is a plain value, which ActorAt makes and which can be sent as text, in JSON
// too. However the task was written, there is one form of it: references that mean the same are equal with ==, and as keys of a map. A name can
// be reused after its actor has ended; it then refers to the new actor.
//
// Only a reference without a task does not say whose it is: it means an actor of the server that uses it. What the runtime returns
// (Spawn, Self, Sender) has the task.
type ActorRef struct{ ref cast.Ref } // the task is a full name, empty, that of a virtual actor, or an address; a form of a task's name is none

// ActorAt returns the reference to the actor of a task with a name. The task is written as /job:worker/replica:0/task:1, /job:worker/task:1 or
// worker:1; if it is empty, it is the server's own. The actor need not exist. What is no task's name is refused where the reference is used.
//
// With WithOutsiders, the task may also be the host:port of a process outside the cluster that speaks protoactor-go's
// remote protocol, and the name that of an actor there. If it also names a task of the cluster, that task is meant. A host whose name could be a
// job's, such as localhost, is written like one: localhost:8090 is /job:localhost/replica:0/task:8090, unless the cluster has such a job.
func ActorAt(task, name string) ActorRef { return ActorRef{cast.Ref{Task: fullTask(task), Name: name}} }

// refOf returns a reference of the runtime's. Those to actors outside the cluster are the only ones whose tasks may have another form.
func refOf(r cast.Ref) ActorRef {
	if cast.Outside(r.Task) {
		r.Task = fullTask(r.Task)
	}
	return ActorRef{r}
}

// Task returns the full name of the actor's task, such as /job:worker/replica:0/task:1. It is empty if that is the server's own, and /kind:account
// for virtual actors of the kind account.
func (r ActorRef) Task() string { return r.ref.Task }

// Name returns the actor's name on its task, or the identity of a virtual actor.
func (r ActorRef) Name() string { return r.ref.Name }

// Equal reports whether two references mean the same actor, as == does.
func (r ActorRef) Equal(other ActorRef) bool { return r == other }

// fullTask returns the full name of a task, or task unchanged if it is not a task's name.
func fullTask(task string) string {
	if job, index, err := spec.ParseTaskName(task); err == nil {
		return spec.TaskName(job, index)
	}
	return task
}

// actorPart separates the task from the name in the text of a reference.
const actorPart = "/actor:"

// String returns the reference as text, such as /job:worker/replica:0/task:1/actor:counter.
func (r ActorRef) String() string { return r.ref.Task + actorPart + r.ref.Name }

// ParseActorRef parses the text that String returns. The task may be written in any form that ActorAt takes, but not be missing.
func ParseActorRef(text string) (ActorRef, error) {
	task, name, ok := strings.Cut(text, actorPart)
	if !ok || task == "" || name == "" {
		return ActorRef{}, status.InvalidArgumentf("%q does not address an actor, as /job:worker/replica:0/task:1/actor:counter does", text)
	}
	if _, _, err := spec.ParseTaskName(task); err != nil && !cast.Outside(task) && !cast.IsVirtual(task) {
		return ActorRef{}, err
	}
	return ActorAt(task, name), nil
}

// MarshalText returns the text of String, or an empty one for the zero ActorRef. encoding/json calls it.
func (r ActorRef) MarshalText() ([]byte, error) {
	if r == (ActorRef{}) {
		return nil, nil
	}
	return []byte(r.String()), nil
}

// UnmarshalText is the inverse of MarshalText. It takes what ParseActorRef does, and references without a task.
func (r *ActorRef) UnmarshalText(text []byte) error {
	*r = ActorRef{}
	if len(text) == 0 {
		return nil
	}
	if name, own := strings.CutPrefix(string(text), actorPart); own {
		*r = ActorAt("", name)
		return nil
	}
	parsed, err := ParseActorRef(string(text))
	if err != nil {
		return err
	}
	*r = parsed
	return nil
}

// resolve returns a reference as the runtime has it. An empty task stays empty.
func (n *Node) resolve(r ActorRef) (cast.Ref, error) {
	ref := r.ref
	if ref.Task == "" || cast.IsVirtual(ref.Task) {
		return ref, nil
	}
	cluster := n.host.Member().Spec()
	if _, known := cluster.ByName(ref.Task); known {
		return ref, nil
	}
	job, index, err := spec.ParseTaskName(ref.Task)
	switch {
	case err == nil && n.outsiders && !slices.Contains(cluster.Jobs(), job):
		ref.Task = fmt.Sprintf("%s:%d", job, index) // a host and a port
	case err != nil && !cast.Outside(ref.Task):
		return cast.Ref{}, err
	}
	return ref, nil
}

// ActorEnded reports an actor's end. Actor is the reference that was given to Watch. Err is nil if the actor was ended on purpose or ended
// itself. Otherwise it is the error given to ActorContext.Crash, or says that the actor panicked (INTERNAL), that its task was lost (UNAVAILABLE) or is stopping (CANCELLED), or that
// there was no such actor (NOT_FOUND).
type ActorEnded struct {
	Actor ActorRef
	Err   error
}

// Spawn makes an actor of a kind, with the task and the name of at, and waits until it exists. An empty task means the
// server's own; with an empty name, the actor gets a unique one. arguments, which may be nil, are passed to the kind's
// ActorMaker, whose error Spawn returns. Other errors are ALREADY_EXISTS if the name is taken, NOT_FOUND if the program
// of that task has no such kind, and UNAVAILABLE if the task cannot be reached. After UNAVAILABLE or the end of ctx,
// the actor may or may not exist: if it does, a second Spawn returns ALREADY_EXISTS. See Ensure.
func (n *Node) Spawn(ctx context.Context, kind string, at ActorRef, arguments any) (ActorRef, error) {
	return n.spawn(ctx, kind, at, arguments, (*cast.Cast).Spawn)
}

// Ensure returns the actor of a kind that has a name on a task, and makes it, as Spawn does, if there is none. Of several calls at a time, on any
// tasks, one makes the actor, and all return once it exists; the arguments are those of that call. An actor that is ending is replaced when
// it has ended. One that restarts is there.
//
// The errors are those of Spawn: ALREADY_EXISTS means that an actor of another kind has the name, and INVALID_ARGUMENT that at has no name. If the maker
// fails, all callers that wait for it get its error. Ensure may be called again after any error.
func (n *Node) Ensure(ctx context.Context, kind string, at ActorRef, arguments any) (ActorRef, error) {
	return n.spawn(ctx, kind, at, arguments, (*cast.Cast).Ensure)
}

func (n *Node) spawn(ctx context.Context, kind string, at ActorRef, arguments any,
	spawn func(*cast.Cast, context.Context, string, cast.Ref, proto.Message) (cast.Ref, error)) (ActorRef, error) {
	c, ref, err := n.stage(at)
	if err != nil {
		return ActorRef{}, err
	}
	enclosed, err := cast.Enclose(arguments)
	if err != nil {
		return ActorRef{}, err
	}
	if ref, err = spawn(c, ctx, kind, ref, enclosed); err != nil {
		return ActorRef{}, err
	}
	return ActorRef{ref}, nil
}

// EndActor ends an actor after it has handled the messages that wait for it, and waits until it has ended. It returns
// NOT_FOUND if there is no such actor.
func (n *Node) EndActor(ctx context.Context, ref ActorRef) error {
	c, to, err := n.stage(ref)
	if err != nil {
		return err
	}
	return c.End(ctx, to)
}

// Send sends a message to an actor. The message has no sender. While the actor's queue is full, Send waits until ctx
// ends. A nil error means that the message is in flight: it arrives if the link to the actor's task holds and the actor
// exists. If there is no such actor, Send returns NOT_FOUND for an actor of the same task; another task logs it.
func (n *Node) Send(ctx context.Context, to ActorRef, message any) error {
	c, ref, m, err := n.stageMessage(to, message)
	if err != nil {
		return err
	}
	return c.Send(ctx, cast.Ref{}, ref, m)
}

// TrySend is Send that does not wait for room: it returns RESOURCE_EXHAUSTED if the actor's queue is full. It waits
// only for a link to the actor's task, until ctx ends.
func (n *Node) TrySend(ctx context.Context, to ActorRef, message any) error {
	c, ref, m, err := n.stageMessage(to, message)
	if err != nil {
		return err
	}
	return c.TrySend(ctx, cast.Ref{}, ref, m)
}

// Place is where a program asks from: a node, or a server, which is one, too.
type Place interface{ place() *Node }

func (n *Node) place() *Node { return n }

// Ask sends a message to an actor and waits for its answer: the message that the actor sends to the sender. Ask fails when ctx ends, the
// actor ends or its task is lost. The error may be the actor's own (see ActorContext.Fail), UNIMPLEMENTED if the actor neither answers nor
// keeps the message, or INVALID_ARGUMENT if the answer has another type. An actor that asks itself waits until ctx ends.
func Ask[A any](ctx context.Context, at Place, to ActorRef, message any) (A, error) {
	var none A
	c, ref, m, err := at.place().stageMessage(to, message)
	if err != nil {
		return none, err
	}
	got, err := c.Ask(ctx, ref, m)
	if err != nil {
		return none, err
	}
	answer, err := cast.Disclose(got)
	if err != nil {
		return none, err
	}
	a, ok := cast.As[A](answer)
	if !ok {
		return none, status.InvalidArgumentf("The actor %v answered with a %T, not a %T", to, answer, none)
	}
	return a, nil
}

// WatchActor returns a channel that reports an actor's end once and is then closed. The end of an actor after
// WatchActor has returned is never missed. When ctx ends, the channel is closed without a report.
// ActorContext.Watch does the same for actors.
func (n *Node) WatchActor(ctx context.Context, ref ActorRef) (<-chan ActorEnded, error) {
	c, to, err := n.stage(ref)
	if err != nil {
		return nil, err
	}
	ended := make(chan ActorEnded, 1)
	var once sync.Once
	finish := func(tell func()) {
		once.Do(func() {
			tell()
			close(ended)
		})
	}
	told, stop := context.WithCancel(ctx)
	set, cancel, err := c.Watch(to, func(e cast.Ended) {
		finish(func() { ended <- ActorEnded{ref, e.Err} })
		stop()
	})
	if err != nil {
		stop()
		return nil, err
	}
	context.AfterFunc(told, func() {
		cancel()
		finish(func() {})
	})
	select {
	case <-set:
	case <-told.Done():
	}
	return ended, nil
}

// WatchTasks yields the state of the cluster's tasks: first of each task that has been seen, including the server's own, then of each that
// comes, goes, or is a different process than before (TaskStatus.Boot). A slow reader misses intermediate states, but never the latest one.
// The sequence ends when ctx ends or the server stops. It reports the same as Node.Status. In clusters of up to 64 tasks, links to all
// tasks are kept meanwhile, and a crash is reported at once; in larger ones it takes some seconds.
func (n *Node) WatchTasks(ctx context.Context) iter.Seq[TaskStatus] {
	return func(yield func(TaskStatus) bool) {
		m, err := n.running()
		if err != nil {
			return
		}
		changed := make(chan struct{}, 1)
		subscription := m.Cast().Subscribe(func(*cast.Subscription) { changed <- struct{}{} }) // does not block: at most one notification is pending
		defer subscription.Cancel()
		for {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-n.stopped:
				return
			}
			for _, t := range subscription.Take() {
				if ctx.Err() != nil || !yield(t.(TaskStatus)) {
					return
				}
			}
		}
	}
}

// stage returns the runtime of the program's actors, and the resolved reference.
func (n *Node) stage(ref ActorRef) (*cast.Cast, cast.Ref, error) {
	m, err := n.running()
	if err != nil {
		return nil, cast.Ref{}, err
	}
	to, err := n.resolve(ref)
	return m.Cast(), to, err
}

// stageMessage is stage for a message, which it returns as it is sent.
func (n *Node) stageMessage(to ActorRef, message any) (*cast.Cast, cast.Ref, proto.Message, error) {
	c, ref, err := n.stage(to)
	if err != nil {
		return nil, cast.Ref{}, nil, err
	}
	m, err := cast.Enclose(message)
	return c, ref, m, err
}

// kinds adapts the program's makers to the runtime.
func (n *Node) kinds(makers Kinds) map[string]cast.Maker {
	all := map[string]cast.Maker{}
	for kind, k := range makers.all {
		all[kind] = cast.Maker{Restart: k.restart, Decide: k.decide, Virtual: k.virtual, Make: func(c *cast.Context, arguments proto.Message) (cast.Actor, error) {
			r := &role{context: ActorContext{c, n}}
			given, err := cast.Disclose(arguments)
			if err != nil {
				return nil, err
			}
			if r.actor, err = k.create(&r.context, given); err != nil {
				return nil, err
			}
			if r.actor == nil {
				return nil, status.Internalf("The program made no actor of kind %q", kind)
			}
			r.behaviour = r.actor
			return r, nil
		}}
	}
	return all
}

// role adapts an actor of the program to the runtime.
type role struct {
	actor     Actor        // as it was made
	behaviour Actor        // receives the messages
	context   ActorContext // for messages without a sender
}

func (r *role) Receive(c *cast.Context, message any) {
	switch message.(type) {
	case cast.Ended, cast.Answer:
		message = noticeOf(message) // a call, since its variables would take stack for each message
	}
	if c == r.context.context {
		r.behaviour.Receive(&r.context, message)
		return
	}
	r.behaviour.Receive(&ActorContext{c, r.context.node}, message)
}

// noticeOf converts a notice of the runtime to the program's type.
//
//go:noinline
func noticeOf(notice any) any {
	switch n := notice.(type) {
	case cast.Ended:
		return ActorEnded{refOf(n.Ref), n.Err}
	case cast.Answer:
		a := ActorAnswer{From: refOf(n.From), Tag: n.Tag, Err: n.Err, own: n.Own, notBegun: n.NotBegun}
		if a.Err == nil {
			a.Message, a.Err = cast.Disclose(n.Message)
		}
		return a
	}
	return notice
}

func (r *role) Close() error {
	if c, ok := r.actor.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// ActorContext is an actor's view of itself, its node and the message that it handles. Its methods may only be called on the actor's own
// goroutine, in its ActorMaker and in Receive. Self, Node, Context, Reply and Fail may be called from any goroutine.
//
// Timers, watches, asks and children end with the actor, and when it restarts (see Restart).
type ActorContext struct {
	context *cast.Context
	node    *Node
}

// Self returns the actor's own address.
func (c *ActorContext) Self() ActorRef { return refOf(c.context.Self()) }

// Node returns the node that the actor lives on, which may be that of a server.
func (c *ActorContext) Node() *Node { return c.node }

// Context returns a context for what the actor does for the message. It ends when the actor ends or restarts, or its server stops. That of a
// request also ends when nobody waits for its answer any more, because the caller of Ask has given up or is lost, and after it was answered, when
// Receive returns. An actor that waits must use it: the error of Node.Stop names actors that do not return. What it asks other actors with the context
// is a part of what holds it up (see Keep for work that goes on after Receive). If the message belongs to a trace, so does the context.
func (c *ActorContext) Context() context.Context { return c.context.Context() }

// Sender returns the sender of the message that is being handled: an actor, a caller of Ask, or the zero ActorRef if
// there is none. To answer a caller of Ask later, use Keep.
func (c *ActorContext) Sender() ActorRef { return refOf(c.context.Sender()) }

// Send is Node.Send with this actor as the sender.
//
// An actor that waits in Send handles no messages meanwhile: two actors that send each other more than their queues
// hold wait until one of them ends. Such actors should use TrySend. Send to the actor itself does not wait either: it
// is TrySend.
func (c *ActorContext) Send(to ActorRef, message any) error {
	ref, m, err := c.resolve(to, message)
	if err != nil {
		return err
	}
	return c.context.Send(ref, m)
}

// TrySend is Send that does not wait for room: it returns RESOURCE_EXHAUSTED if there is none.
func (c *ActorContext) TrySend(to ActorRef, message any) error {
	ref, m, err := c.resolve(to, message)
	if err != nil {
		return err
	}
	return c.context.TrySend(ref, m)
}

// resolve returns a reference with the full name of its task, and a message as it is sent.
func (c *ActorContext) resolve(to ActorRef, message any) (cast.Ref, proto.Message, error) {
	ref, err := c.node.resolve(to)
	if err != nil {
		return ref, nil, err
	}
	m, err := cast.Enclose(message)
	return ref, m, err
}

// Reply sends a message to the sender of the message that this context is for. To a caller of Ask it is the answer. It returns
// FAILED_PRECONDITION if there is no sender, if the request has been answered, or if Receive has returned without answering or keeping it.
// It may be called from any goroutine.
func (c *ActorContext) Reply(message any) error {
	m, err := cast.Enclose(message)
	if err != nil {
		return err
	}
	return c.context.Reply(m)
}

// Fail answers a caller of Ask with an error, including its code. It returns FAILED_PRECONDITION if the message was not
// sent by Ask, and whenever Reply does. It may be called from any goroutine.
func (c *ActorContext) Fail(err error) error { return c.context.Fail(err) }

// Keep returns the request that is being handled, which may then be answered at any time, from any goroutine, even after Receive has
// returned. It returns nil if the message was not sent by Ask. A request that Receive neither answers nor keeps fails with UNIMPLEMENTED:
// no caller of Ask waits for an actor that does not know its message.
func (c *ActorContext) Keep() *ActorRequest {
	if r := c.context.Keep(); r != nil {
		return &ActorRequest{r}
	}
	return nil
}

// ActorRequest is a message of a caller of Ask, which waits for the answer. It fails when the actor that kept it ends or restarts. All methods may be
// called concurrently; the first answer counts.
type ActorRequest struct{ request *cast.Request }

// Reply answers the request. It returns FAILED_PRECONDITION if it has been answered.
func (r *ActorRequest) Reply(message any) error {
	m, err := cast.Enclose(message)
	if err != nil {
		return err
	}
	return r.request.Reply(m)
}

// Context returns a context that ends when the request needs no answer any more: the caller of Ask has given up or is lost, or has its answer, or the
// actor has ended or restarted.
func (r *ActorRequest) Context() context.Context { return r.request.Context() }

// Fail answers the request with an error, including its code. It returns FAILED_PRECONDITION if it has been answered.
func (r *ActorRequest) Fail(err error) error { return r.request.Fail(err) }

// Forward passes the request that is being handled on to another actor: it receives the message, and its answer, or its error, goes to the
// caller of Ask. If its task is lost, Ask fails with UNAVAILABLE. This actor can no longer answer the request, and its own end does
// not end it, but the answer passes through this task if the other actor is on another one.
//
// Like Send, Forward waits while the other actor's queue is full, unless that is this actor's own. After an error, the request is still to be
// answered. The error is FAILED_PRECONDITION if the message was not sent by Ask, if it has been answered, or after Receive has returned.
func (c *ActorContext) Forward(to ActorRef) error {
	ref, err := c.node.resolve(to)
	if err != nil {
		return err
	}
	return c.context.Forward(ref)
}

// Ask sends a message to an actor, as the function Ask does, and does not wait: the actor itself receives the answer or the error as
// an ActorAnswer with the tag, which may be any value. It receives exactly one for each Ask, after timeout at the latest, unless it ends or
// restarts before. If the other actor's queue is full, the error is RESOURCE_EXHAUSTED, as with TrySend. An actor may wait for
// MaxActorAsks answers.
func (c *ActorContext) Ask(to ActorRef, message any, timeout time.Duration, tag any) {
	c.ask(to, message, timeout, tag, c.context.Ask)
}

// askFor is Ask on behalf of a request that the actor has kept: it ends with CANCELLED when the requester no longer waits, and so does the
// context of the actor that is asked.
func (c *ActorContext) askFor(r *ActorRequest, to ActorRef, message any, timeout time.Duration, tag any) {
	c.ask(to, message, timeout, tag, func(to, as cast.Ref, m proto.Message, timeout time.Duration, tag any) {
		c.context.AskFor(r.request, to, as, m, timeout, tag)
	})
}

func (c *ActorContext) ask(to ActorRef, message any, timeout time.Duration, tag any, send func(to, as cast.Ref, m proto.Message, timeout time.Duration, tag any)) {
	ref, m, err := c.resolve(to, message)
	if err != nil {
		c.context.FailAsk(to.ref, tag, err)
		return
	}
	send(ref, to.ref, m, timeout, tag)
}

// ActorAnswer is the answer to an ActorContext.Ask, or the error that the function Ask would have returned.
type ActorAnswer struct {
	From     ActorRef // the actor that was asked, as it was given to Ask
	Tag      any
	Message  any // as Receive would get it; nil if Err is set
	Err      error
	own      bool // the actor itself answered with Err, and lives on
	notBegun bool // no actor has begun to handle the message
}

// After sends the actor a message once, after d. The message, which may be any value, arrives in Receive in its turn, after those that wait
// already, and without a sender. It takes no room in the actor's queue.
//
// stop cancels it, and may be called from any goroutine, at any time and repeatedly. If the actor calls it, the message does not arrive any
// more, even if it waits in the queue.
func (c *ActorContext) After(d time.Duration, message any) (stop func()) {
	return c.context.After(d, message)
}

// Every is After that sends the message again and again, every d, until stop is called. At most one of them waits: while the actor is busy,
// the times that pass are skipped. It panics if d is not positive, as time.NewTicker does.
func (c *ActorContext) Every(d time.Duration, message any) (stop func()) {
	return c.context.Every(d, message)
}

// Spawn makes an actor of a kind on this actor's task, as its child, and waits until it exists. With an empty name, it gets a unique one.
// The errors are those of Node.Spawn.
//
// A child ends when its parent ends or restarts: at once, after the message that it is handling, as with Stop. Its watchers get the
// reason for the parent's end. The parent waits for that before it is closed, and before its own end is reported. An actor that is to live on,
// or to live on another task, is made by Node.Spawn.
func (c *ActorContext) Spawn(kind, name string, arguments any) (ActorRef, error) {
	enclosed, err := cast.Enclose(arguments)
	if err != nil {
		return ActorRef{}, err
	}
	ref, err := c.context.Spawn(kind, name, enclosed)
	return ActorRef{ref}, err
}

// Watch sends the actor an ActorEnded when another one ends, or at once if there is no such actor. It does nothing if the actor watches
// the other one already.
func (c *ActorContext) Watch(ref ActorRef) error {
	to, err := c.node.resolve(ref)
	if err != nil {
		return err
	}
	return c.context.Watch(to, ref.ref)
}

// Unwatch ends a watch: the actor receives no ActorEnded of the other one, even if one waits in the queue. It does nothing if there is no
// such watch. Its error is that of Watch for an invalid reference.
func (c *ActorContext) Unwatch(ref ActorRef) error {
	to, err := c.node.resolve(ref)
	if err != nil {
		return err
	}
	return c.context.Unwatch(to)
}

// WatchTasks sends the actor a TaskStatus of each task, as Node.WatchTasks yields them.
func (c *ActorContext) WatchTasks() { c.context.WatchTasks() }

// Stop ends the actor after the message that is being handled. Messages that wait for it are lost.
func (c *ActorContext) Stop() { c.context.Stop() }

// Crash makes the actor fail after the message that is being handled, as a panic does, but with the code of err: callers of Ask and watchers
// receive it as the reason for the actor's end, unless the actor restarts. A nil err is INTERNAL. In an ActorMaker, return
// the error instead.
func (c *ActorContext) Crash(err error) { c.context.Crash(err) }
