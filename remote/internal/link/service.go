package link

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

const (
	serviceName   = "troupe.v1.Link"
	greetMethod   = "/" + serviceName + "/Greet"
	vouchMethod   = "/" + serviceName + "/Vouch"
	confirmMethod = "/" + serviceName + "/Confirm"
)

// vouchTimeout bounds the look at a third task's address on behalf of a caller.
const vouchTimeout = 700 * time.Millisecond

var service = grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil), Metadata: "remote/internal/wire/link.proto",
	Methods: []grpc.MethodDesc{
		{MethodName: "Greet", Handler: unary((*Links).greeted)},
		{MethodName: "Vouch", Handler: unary((*Links).vouch)},
		{MethodName: "Confirm", Handler: unary((*Links).confirm)},
	}}

func unary[Req any](f func(*Links, context.Context, *Req) (*wire.Identity, error)) grpc.MethodHandler {
	return func(srv any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		m := new(Req)
		if err := read(m); err != nil {
			return nil, err
		}
		id, err := f(srv.(*Links), ctx, m)
		return id, wire.ToGRPC(err)
	}
}

// Register serves what asks who this task is; see Handle for the links.
func (l *Links) Register(r grpc.ServiceRegistrar) { r.RegisterService(&service, l) }

// greeting is what this task says to another one, of which the process boot is wanted if that is
// not 0.
func (l *Links) greeting(to spec.Task, boot uint64) *wire.Greeting {
	return &wire.Greeting{From: l.self, Task: to.Name(), Address: to.Address, Boot: boot}
}

// Greet asks the process at a declared task's address who it is, without opening a link. A
// process of another cluster spec, or that is not the task, is FAILED_PRECONDITION with a
// message that names both sides; the other side logs it too. Nobody there is UNAVAILABLE.
func (l *Links) Greet(ctx context.Context, task spec.Task) (*wire.Identity, error) {
	id, err := identify(ctx, l.config.Call, task.Address, greetMethod, l.greeting(task, 0))
	if err != nil {
		return nil, err
	}
	return id, checkWelcome(l.self, l.config.Spec, task, id)
}

// AskVouch asks the process of task by whom it finds another task's address served. Two
// processes whose machines resolve one name differently learn of each other in this way.
func (l *Links) AskVouch(ctx context.Context, by spec.Task, of string) (*wire.Identity, error) {
	return identify(ctx, l.config.Call, by.Address, vouchMethod, &wire.VouchRequest{Task: of})
}

// Who asks the process at any address who it is, and is not part of a cluster itself.
func Who(ctx context.Context, call Caller, address string) (*wire.Identity, error) {
	return identify(ctx, call, address, greetMethod, &wire.Greeting{})
}

// Holder gives a function that tells in words who serves an address; it is empty when nobody
// answers. It is what a port asks when its address is taken.
func Holder(call Caller) func(ctx context.Context, address string) string {
	return func(ctx context.Context, address string) string {
		id, err := Who(ctx, call, address)
		if err != nil {
			return ""
		}
		return Describe(id)
	}
}

func identify(ctx context.Context, call Caller, address, method string, request proto.Message) (*wire.Identity, error) {
	id := &wire.Identity{}
	if err := call(ctx, address, method, request, id); err != nil {
		return nil, err
	}
	return id, nil
}

// greeted answers Greet.
func (l *Links) greeted(_ context.Context, g *wire.Greeting) (*wire.Identity, error) {
	if g.GetFrom() == nil && g.GetTask() == "" {
		return l.self, nil // somebody only asks who is there
	}
	return l.self, l.admit(g)
}

// admit checks a caller, and logs whom it refuses: the caller prints the same error.
func (l *Links) admit(g *wire.Greeting) error {
	err := checkGreeting(l.self, l.config.Spec, g)
	if err != nil {
		l.log.Warn("a process was refused", "task", g.GetFrom().GetTask(), "address", g.GetFrom().GetAddress(), "error", err)
	}
	return err
}

// vouch answers Vouch.
func (l *Links) vouch(ctx context.Context, r *wire.VouchRequest) (*wire.Identity, error) {
	if r.GetTask() == l.self.Task {
		return l.self, nil
	}
	k, err := l.find(r.GetTask())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, vouchTimeout)
	defer cancel()
	return identify(ctx, l.config.Call, k.task.Address, greetMethod, &wire.Greeting{})
}

// process is a key for the links that others opened.
type process struct {
	task string
	boot uint64
}

// presence is the end of the link that a process has opened to this task; nil if it has none.
func (l *Links) presence(id *wire.Identity) *accepted {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.callers[process{id.GetTask(), id.GetBoot()}]
}
