package link

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/trust"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// Caller makes a unary call of the port at an address, with errors of graph/status; Port.Call is one.
type Caller = func(ctx context.Context, address, method string, request, answer proto.Message) error

// Config configures a task's links.
type Config struct {
	Spec    *spec.Spec
	Self    spec.Task
	Boot    uint64 // random, chosen when this process starts
	Version string // of Troupe, for messages to people
	Devices []device.Attributes
	// Call makes a unary call.
	Call Caller
	// Open makes a stream to the port at an address.
	Open Opener
	// System contains the actors of this process; nil if none receives messages over links.
	System *actor.ActorSystem
	// Reachable reports whether actors of other tasks may send messages to the actor of that name; nil allows all.
	Reachable func(name string) bool
	// Programs receives the messages to programs' actors; nil refuses the streams that carry them.
	Programs Programs
	// Outsiders admits processes that are not tasks of the cluster. They reach Programs only.
	Outsiders bool
	// AdmitOutsider, if set, returns an error unless such a process may exchange messages with programs' actors. It is called
	// with the stream's context, when the process opens its stream and with each batch of messages.
	AdmitOutsider func(ctx context.Context) error
	// Pool provides the memory for tensors that come with actors' messages; nil means tensor.Host.
	Pool *tensor.Pool
	// Sink receives the tensors that peers push; nil drops them.
	Sink Sink
	// Secret is shared by the cluster's tasks; nil if there is none. Both ends of a link prove that they know it.
	Secret *trust.Secret
	// Identify checks that the caller of a stream has the task's certificate. ctx is the stream's context. It is nil
	// without certificates.
	Identify func(ctx context.Context, task spec.Task) error
	// Confirm makes this task ask the address of a task that opens a link whether it really does.
	Confirm bool
	// Strangers admits tasks that neither Spec nor the specs of its tasks contain, if they prove that they belong to the cluster.
	Strangers bool
	// NoLending sends tensors to processes of this machine, and to tasks of this process, as to
	// others, and reads none out of their memory.
	NoLending bool
	// InUse reports whether this task must learn of the loss of a peer, apart from Hold and
	// OnDown. Links for which it returns false are closed after a while. It must not block or call
	// the links. If nil, no link is closed while a Watch is active.
	InUse func(task string) bool
	// Changed, if set, is called for each task whose State has changed: a link came up, became idle or was lost. It must not block
	// or call the links.
	Changed func(task string)
	// Seen reports whether a process of the task has been seen by other means than links, such as gossip. It must not block or call
	// the links. If nil, only links count.
	Seen func(task string) bool
	// Stalled, if set, is called when a peer has accepted no byte of its tensors for a while. It must not block.
	Stalled func(task string, bytes int64)
	Timing  Timing
	Logger  *slog.Logger // nil: slog.Default()
}

// Programs receives what other processes send to programs' actors.
type Programs interface {
	// Receive takes messages of a task's process, in the order in which they were sent. It must not block or retain
	// the slice. It calls each message's Room when the message has been handled.
	Receive(task string, boot uint64, letters []cast.Letter)
	// ReceiveOutside takes messages of a process outside the cluster. It may block until ctx ends; meanwhile
	// nothing is read from that process.
	ReceiveOutside(ctx context.Context, address string, letters []cast.Letter)
}

// Links are a task's links to the other tasks of its cluster, one for each at most. All methods
// may be called concurrently.
type Links struct {
	config   Config
	timing   Timing
	log      *slog.Logger
	self     *wire.Identity
	roster   atomic.Pointer[roster]
	called   atomic.Pointer[string] // this task's address as another task writes it; nil until one is met
	clock    clock
	counters counters
	epochs   atomic.Uint64 // of the streams of programs' actors that were opened
	budget   budget
	visitors visitors
	openings openings
	attach   func(offer []byte, parties string) (memory, error)
	startup  time.Time // until then, peers that were never seen are waited for

	ctx    context.Context // ends when the links close
	cancel context.CancelFunc
	ending chan struct{} // closed before ctx ends: time to say goodbye
	once   sync.Once

	mu        sync.Mutex
	closed    bool
	watchers  map[int]func(task string, err error)
	nextID    int
	outsiders map[string]*Outsider  // by address
	callers   map[process]*accepted // processes that have opened a link to this task
	work      sync.WaitGroup        // every goroutine of the links
}

// New returns the links of a task. It opens nothing.
func New(config Config) *Links {
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.Pool == nil {
		config.Pool = tensor.Host
	}
	// Without a host name, the address in the spec still shows people where to look.
	host, _ := os.Hostname()
	l := &Links{config: config, timing: config.Timing.withDefaults(), log: config.Logger, startup: time.Now().Add(config.Timing.Startup),
		ending: make(chan struct{}), watchers: map[int]func(string, error){}, callers: map[process]*accepted{}, outsiders: map[string]*Outsider{},
		self: &wire.Identity{Task: config.Self.Name(), Address: config.Self.Address, Spec: config.Spec.String(), Boot: config.Boot,
			Pid: int64(os.Getpid()), Host: host, Started: time.Now().UnixNano(),
			Protocol: Protocol, Version: config.Version}}
	for _, d := range config.Devices {
		l.self.Devices = append(l.self.Devices, wire.DeviceOf(d))
	}
	l.clock.links, l.attach = l, attach
	l.ctx, l.cancel = context.WithCancel(context.Background())
	others := &roster{map[string]*link{}, map[string]*link{}}
	for _, t := range config.Spec.Tasks() {
		if t != config.Self {
			others.put(&link{links: l, task: t, declared: true})
		}
	}
	l.roster.Store(others)
	l.registerLocal()
	return l
}

// Called returns this task's address as the last task met writes it. This task's own spec may write it differently.
func (l *Links) Called() string {
	if a := l.called.Load(); a != nil {
		return *a
	}
	return l.self.Address
}

// Identity returns the identity of this process.
func (l *Links) Identity() *wire.Identity { return proto.CloneOf(l.self) }

// Ensure returns the peer that runs the task, and opens the link if it is not up. It waits for a task that was
// never seen until timing.Startup is over, and at least timing.First; it waits only timing.First for an address
// that is wrong: a host name that is not known, or another program there. A task that was reached before and is
// lost gets one attempt, which fails at once if nothing listens there. ctx bounds all of this; view.Waiter describes
// the caller. Ensure returns UNAVAILABLE, with the reason and the time, for a task that cannot be reached, and
// FAILED_PRECONDITION for a process of another cluster spec. Failures do not affect later calls. The address of a
// task that is not in the cluster spec is learned from the tasks that are.
func (l *Links) Ensure(ctx context.Context, task string) (*Peer, error) {
	k, err := l.find(task)
	if err != nil && task != l.self.Task {
		k, err = l.learn(ctx, task, nil)
	}
	if err != nil {
		return nil, err
	}
	return k.ensure(ctx, anything)
}

// Reach returns the way for messages to programs' actors of a task: a stream that the task has opened, or the peer that Ensure returns. Until the
// way has ended, it returns the same one, which keeps messages in order.
func (l *Links) Reach(ctx context.Context, task string) (cast.Way, error) {
	k, err := l.find(task)
	if err != nil && task != l.self.Task {
		k, err = l.learn(ctx, task, nil)
	}
	if err != nil {
		return nil, err
	}
	return k.reachWay(ctx)
}

// Try opens the link to a task if it is not up. Unlike Ensure, it makes one attempt, which fails at once if nothing listens at the task's address. The
// error is the reason. mail means that messages to programs' actors will follow.
func (l *Links) Try(ctx context.Context, task string, mail bool) error {
	k, err := l.find(task)
	if err != nil {
		return err
	}
	what := once
	if mail {
		what |= forMail
	}
	return k.try(ctx, what)
}

// Reached returns the peer that runs the task if its link is up now, else nil.
func (l *Links) Reached(task string) *Peer {
	if k := l.link(task); k != nil {
		return k.reached()
	}
	return nil
}

// State returns what is known of the link to a task. It does not communicate.
func (l *Links) State(task string) (State, error) {
	k, err := l.find(task)
	if err != nil {
		return State{}, err
	}
	return k.state(), nil
}

func (l *Links) find(task string) (*link, error) {
	if k := l.link(task); k != nil {
		return k, nil
	}
	if task == l.self.Task {
		return nil, status.Internalf("A task has no link to itself: %s", task)
	}
	return nil, status.InvalidArgumentf("%s is not a task of the cluster %v", task, l.config.Spec)
}

// Watch calls down whenever a peer is lost, whichever end opened the link: once for each link,
// so perhaps twice. With Config.Outsiders, it also calls down with the address of each process outside the
// cluster whose connection ends. down must not block. cancel ends the watch but does not wait for a call in progress.
func (l *Links) Watch(down func(task string, err error)) (cancel func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.nextID
	l.nextID++
	l.watchers[id] = down
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, id)
	}
}

// changed notifies the owner that the state of a task has changed.
func (l *Links) changed(task string) {
	if l.config.Changed != nil {
		l.config.Changed(task)
	}
}

func (l *Links) notify(task string, err error) {
	l.mu.Lock()
	ids := make([]int, 0, len(l.watchers))
	for id := range l.watchers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var calls []func(string, error)
	for _, id := range ids {
		calls = append(calls, l.watchers[id])
	}
	l.mu.Unlock()
	for _, down := range calls {
		down(task, err)
	}
	if k := l.link(task); k != nil {
		k.unwatched()
	}
}

// mayClose reports whether nothing but the task's Peer itself depends on its link.
func (l *Links) mayClose(task string) bool {
	if l.config.InUse != nil {
		return !l.config.InUse(task)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.watchers) == 0
}

// Break breaks the link that a task has opened to this one, and the one over which the task sends messages of programs' actors, if any. The task
// observes a loss; on this side, why is its reason.
func (l *Links) Break(task, why string) {
	k := l.link(task)
	if k == nil {
		return
	}
	if way := k.accepted.Load(); way != nil {
		way.cut(why)
	}
	k.mu.Lock()
	p := k.peer
	k.mu.Unlock()
	if p == nil {
		return
	}
	if way := p.posts(); way != nil && way.received.Load() > 0 {
		p.pipe.cut(why)
	}
}

// start runs f on a goroutine of the links. It returns false if they are closed.
func (l *Links) start(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.work.Go(f)
	return true
}

var errClosed = status.New(status.Cancelled, "The server is stopping.")

// Close says goodbye to all peers, so they learn of it at once, closes the links and waits for
// their goroutines, until ctx ends. Peers of this side fail with CANCELLED.
func (l *Links) Close(ctx context.Context) error {
	l.once.Do(func() {
		l.unregisterLocal()
		close(l.ending)
		var leaving sync.WaitGroup
		for _, k := range l.roster.Load().tasks {
			if p := k.reached(); p != nil {
				leaving.Go(func() { p.shutdown(errClosed) })
			}
		}
		leaving.Wait() // bounded, see leave
		l.mu.Lock()
		callers := slices.Collect(maps.Values(l.callers))
		l.mu.Unlock()
		for _, a := range callers {
			a.sendGoodbye() // now: once the links are closed, no goodbye is written
		}
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		l.cancel()
	})
	done := make(chan struct{})
	go func() {
		l.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return status.Errorf(status.DeadlineExceeded, "The links of %s did not close in time.", l.self.Task)
	}
}
