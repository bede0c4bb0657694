package link

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

const (
	serviceName   = "troupe.v1.Link"
	greetMethod   = "/" + serviceName + "/Greet"
	vouchMethod   = "/" + serviceName + "/Vouch"
	confirmMethod = "/" + serviceName + "/Confirm"
)

// vouchTimeout bounds a query of a third task's address on behalf of a caller.
const vouchTimeout = 700 * time.Millisecond

// Register registers the service that identifies this task. For the links, see Handle.
func (l *Links) Register(r http2.Registrar) {
	r.Register(http2.Service{Name: serviceName, Methods: map[string]http2.Handler{
		"Greet":   wire.Unary(nil, l.greeted),
		"Vouch":   wire.Unary(nil, l.vouch),
		"Confirm": wire.Unary(nil, l.confirm),
	}})
}

// greeting returns this task's greeting to another one. If boot is not 0, it is meant for that process only.
func (l *Links) greeting(to spec.Task, boot uint64) *wire.Greeting {
	return &wire.Greeting{From: l.self, Task: to.Name(), Address: to.Address, Boot: boot}
}

// Greet returns the identity of the process at a declared task's address, without opening a link. It
// returns FAILED_PRECONDITION, with a message that names both sides, if the process has another cluster
// spec or is not the task; the other side logs it too. It returns UNAVAILABLE if no process answers.
func (l *Links) Greet(ctx context.Context, task spec.Task) (*wire.Identity, error) {
	id, err := identify(ctx, l.config.Call, task.Address, greetMethod, l.greeting(task, 0))
	if err != nil {
		return nil, err
	}
	if err := checkWelcome(l.self, l.config.Spec, task, id); err != nil {
		return id, err
	}
	if theirs, err := spec.Parse(id.GetSpec()); err == nil && task != l.config.Self {
		if self, ok := theirs.ByName(l.self.Task); ok {
			l.called.Store(&self.Address)
		}
	}
	return id, nil
}

// AskVouch asks the process that runs the task by for the identity of the process that it reaches at the address of
// the task of. Processes whose machines resolve a name differently detect each other this way.
func (l *Links) AskVouch(ctx context.Context, by spec.Task, of string) (*wire.Identity, error) {
	return identify(ctx, l.config.Call, by.Address, vouchMethod, &wire.VouchRequest{Task: of})
}

// Who returns the identity of the process at any address. The caller need not be part of a cluster.
func Who(ctx context.Context, call Caller, address string) (*wire.Identity, error) {
	return identify(ctx, call, address, greetMethod, &wire.Greeting{})
}

// Holder returns a function that describes the process that serves an address, or returns "" if none
// answers. A port calls it when its address is in use.
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
		return l.self, nil // sent by the method Who
	}
	return l.self, l.admit(g)
}

// admit checks a caller and logs a refusal. The caller prints the same error.
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

// process is the key of Links.callers.
type process struct {
	task string
	boot uint64
}

// presence returns this end of the link that a process has opened to this task, or nil if there is none.
func (l *Links) presence(id *wire.Identity) *accepted {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.callers[process{id.GetTask(), id.GetBoot()}]
}
