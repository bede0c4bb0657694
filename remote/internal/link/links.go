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
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/trust"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// Caller makes a unary call of the port at an address, with errors of graph/status; Port.Call is one.
type Caller = func(ctx context.Context, address, method string, request, answer proto.Message) error

// Config is what a task's links need.
type Config struct {
	Spec    *spec.Spec
	Self    spec.Task
	Boot    uint64 // random, of this process's start
	Version string // of Troupe, for messages to people
	Devices []*wire.Device
	// Call makes a unary call.
	Call Caller
	// Open makes a stream to the port at an address.
	Open Opener
	// System has the actors of this process; nil where none gets messages over links.
	System *actor.ActorSystem
	// Reachable tells whether actors of other tasks may send messages to the actor of that name; nil: to all.
	Reachable func(name string) bool
	// Programs takes the messages to programs' actors; nil refuses the streams that carry them.
	Programs Programs
	// Outsiders lets processes that are no tasks of the cluster in, to Programs.
	Outsiders bool
	// AdmitOutsider, if set, tells whether such a process may exchange messages with programs' actors. It is asked when
	// the process opens its stream, whose context ctx is, and with each batch of messages.
	AdmitOutsider func(ctx context.Context) error
	// Pool has the memory for tensors that come with actors' messages; nil: tensor.Host.
	Pool *tensor.Pool
	// Sink takes the tensors that peers push; nil drops them.
	Sink Sink
	// Secret is what the cluster's tasks share; nil: nothing. Both ends of a link prove that they know it.
	Secret *trust.Secret
	// Identify, where there are certificates, checks that the caller of a stream, whose context ctx is, has that of
	// the task; nil: there are none.
	Identify func(ctx context.Context, task spec.Task) error
	// Confirm asks the address of a task whether it opens a link.
	Confirm bool
	// NoLending sends tensors to processes of this machine, and to tasks of this process, as to
	// others, and reads none out of their memory.
	NoLending bool
	// InUse tells whether this task needs to know when a peer is lost, besides by Hold and
	// OnDown. Links that it does not claim are closed after a while. It must not block or call
	// the links. Without it nothing is closed while somebody watches all links with Watch.
	InUse func(task string) bool
	// Stalled, if set, is told when a peer has taken no byte of its tensors for a while. It must not block.
	Stalled func(task string, bytes int64)
	Timing  Timing
	Logger  *slog.Logger // nil: slog.Default()
}

// Programs takes what other processes send to programs' actors.
type Programs interface {
	// Receive takes messages of a task's process, in the order of their sending. It must not wait, nor keep
	// the slice. It tells each one's Room when the message was handled.
	Receive(task string, boot uint64, letters []cast.Letter)
	// ReceiveOutside takes messages of a process outside the cluster. While it waits, which ends with ctx,
	// nothing is read from that process.
	ReceiveOutside(ctx context.Context, address string, letters []cast.Letter)
}

// Links are a task's links to the other tasks of its cluster, one for each at most. All methods
// may be called concurrently.
type Links struct {
	config    Config
	timing    Timing
	log       *slog.Logger
	self      *wire.Identity
	tasks     map[string]*link // by name; fixed
	addresses map[string]*link // the same by address
	clock     clock
	counters  counters
	epochs    atomic.Uint64 // of the streams of programs' actors that were opened
	budget    budget
	visitors  visitors
	openings  openings
	attach    func(offer []byte, parties string) (memory, error)

	ctx    context.Context // ends when the links close
	cancel context.CancelFunc
	ending chan struct{} // closed before ctx ends: say goodbye
	once   sync.Once

	mu        sync.Mutex
	closed    bool
	watchers  map[int]func(task string, err error)
	nextID    int
	outsiders map[string]*Outsider  // by address
	callers   map[process]*accepted // who has opened a link to this task
	work      sync.WaitGroup        // every goroutine of the links
}

// New makes the links of a task; nothing is opened yet.
func New(config Config) *Links {
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.Pool == nil {
		config.Pool = tensor.Host
	}
	// Without a name of the host, its address in the spec still tells people where to look.
	host, _ := os.Hostname()
	l := &Links{config: config, timing: config.Timing.withDefaults(), log: config.Logger, tasks: map[string]*link{}, addresses: map[string]*link{},
		ending: make(chan struct{}), watchers: map[int]func(string, error){}, callers: map[process]*accepted{}, outsiders: map[string]*Outsider{},
		self: &wire.Identity{Task: config.Self.Name(), Address: config.Self.Address, Spec: config.Spec.String(), Boot: config.Boot,
			Pid: int64(os.Getpid()), Host: host, Started: time.Now().UnixNano(), Devices: config.Devices,
			Protocol: Protocol, Version: config.Version}}
	l.clock.links, l.attach = l, attach
	l.ctx, l.cancel = context.WithCancel(context.Background())
	for _, t := range config.Spec.Tasks() {
		if t != config.Self {
			k := &link{links: l, task: t}
			l.tasks[t.Name()], l.addresses[t.Address] = k, k
		}
	}
	l.moveIn()
	return l
}

// Identity says who this process is.
func (l *Links) Identity() *wire.Identity { return proto.CloneOf(l.self) }

// Ensure gives the peer that runs the task, and opens the link if it is not up. A task that was
// never reached is waited for, 4.5 s at most; one that was reached before and is lost gets one
// attempt, which fails at once when nobody listens there. ctx bounds both. A task that is not
// reached is UNAVAILABLE, and the message tells why and since when; a process of another
// cluster spec is FAILED_PRECONDITION. Nothing of a failure is remembered for the next call.
func (l *Links) Ensure(ctx context.Context, task string) (*Peer, error) {
	k, err := l.find(task)
	if err != nil {
		return nil, err
	}
	return k.ensure(ctx)
}

// Reached is the peer that runs the task if its link is up now, else nil.
func (l *Links) Reached(task string) *Peer {
	if k := l.tasks[task]; k != nil {
		return k.reached()
	}
	return nil
}

// State is what is known of the link to a task, without asking anybody.
func (l *Links) State(task string) (State, error) {
	k, err := l.find(task)
	if err != nil {
		return State{}, err
	}
	return k.state(), nil
}

func (l *Links) find(task string) (*link, error) {
	if k := l.tasks[task]; k != nil {
		return k, nil
	}
	if task == l.self.Task {
		return nil, status.Internalf("A task has no link to itself: %s", task)
	}
	return nil, status.InvalidArgumentf("%s is not a task of the cluster %v", task, l.config.Spec)
}

// Watch calls down whenever a peer is lost, whichever end opened the link: once for each link,
// so perhaps twice. With Config.Outsiders it does so with the address of each process outside the cluster
// whose connection ends. down must not block; cancel ends the watch, but not a call under way.
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

func (l *Links) tell(task string, err error) {
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
	if k := l.tasks[task]; k != nil {
		k.unwatched()
	}
}

// mayClose tells whether nobody watches over the task by other means than its Peer.
func (l *Links) mayClose(task string) bool {
	if l.config.InUse != nil {
		return !l.config.InUse(task)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.watchers) == 0
}

// start runs f on a goroutine of the links, unless they are closed.
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

// Close says goodbye to all peers, so that they know at once, closes the links and waits for
// their goroutines, until ctx ends. Peers of this side are told CANCELLED.
func (l *Links) Close(ctx context.Context) error {
	l.once.Do(func() {
		l.moveOut()
		close(l.ending)
		var leaving sync.WaitGroup
		for _, k := range l.tasks {
			if p := k.reached(); p != nil {
				leaving.Go(func() { p.leave(errClosed) })
			}
		}
		leaving.Wait() // bounded, see leave
		l.mu.Lock()
		callers := slices.Collect(maps.Values(l.callers))
		l.mu.Unlock()
		for _, a := range callers {
			a.part() // now: later nobody writes a goodbye any more
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
