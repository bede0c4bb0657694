package cast

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
)

// Bounds of what programs' actors may take.
const (
	// MaxMessage bounds the encoded size of a message in bytes.
	MaxMessage = 1 << 20
	// MaxQueued and MaxQueuedBytes bound what waits for one actor.
	MaxQueued      = 8192
	MaxQueuedBytes = 16 << 20
	// MaxActors bounds the actors of a task, MaxBytes what waits for all of them.
	MaxActors = 1 << 16
	MaxBytes  = 256 << 20
	// Overhead is how many bytes a message takes in a queue beside its own. They count for MaxBytes.
	Overhead = 136
	// maxName bounds the bytes of an actor's name.
	maxName = 256
	// maxErrands bounds the answers and notices for a task that wait to be sent without anybody who waits
	// for that, maxCouriers how many are under way.
	maxErrands  = 1 << 20
	maxCouriers = 64
)

// idPrefix begins the ids that the actor system has for programs' actors.
const idPrefix = "cast/"

// Ref addresses an actor: the full name of its task, and its own.
type Ref struct{ Task, Name string }

// Actor gets its messages one at a time.
type Actor interface {
	// Receive handles a proto.Message, an Ended, or what TaskChanged was given.
	Receive(c *Context, message any)
	// Close is called once, after the last message.
	Close() error
}

// Make makes an actor of a kind for its arguments, which may be nil.
type Make func(c *Context, arguments proto.Message) (Actor, error)

// Ended tells that an actor has ended: Err is nil where that was on purpose.
type Ended struct {
	Ref Ref
	Err error
}

// Transport takes mail to other tasks.
type Transport interface {
	// Reach gives the way to a task; where it cannot be reached that is an error, in bounded time.
	Reach(ctx context.Context, task string) (Way, error)
	// Watch registers what is told, without waiting, of every task whose link breaks.
	Watch(down func(task string, err error))
}

// Config is what a cast is made of.
type Config struct {
	System    *actor.ActorSystem
	Self      string   // the task's full name
	Tasks     []string // of the cluster
	Boot      uint64
	Transport Transport
	Kinds     map[string]Make
	// Present gives what is to be told first to who wants to know of tasks.
	Present func() []TaskChange
	// Outsiders lets processes outside the cluster send to the program's actors, and these to theirs.
	Outsiders bool
	// Address is what actors outside know this task by, Refused what is told of messages of the actor
	// system's from outside that were refused. Both are needed with Outsiders.
	Address string
	Refused func(target, message, from string)
	Log     *slog.Logger
}

// Cast is a task's actors of programs. All methods may be called concurrently.
type Cast struct {
	config Config
	log    *slog.Logger
	life   context.Context
	die    context.CancelFunc
	work   sync.WaitGroup // couriers
	bytes  atomic.Int64   // that wait for all actors
	lanes  map[string]*lane
	tasks  hub
	drops  drops

	outsidersMu sync.Mutex
	outsiders   map[string]*lane // by the addresses of processes outside the cluster

	mu      sync.Mutex
	stopped bool
	actors  map[string]*performer
	handled map[string]uint64 // by kind, messages that actors had handled which have ended
	born    uint64            // actors so far
	asks    map[string]*ask
	nextAsk uint64
	asked   map[Ref]*performer // requests that an actor has got and not answered, by who asks
	watches map[Ref]*watch
	nextID  uint64
}

// New makes a task's cast.
func New(c Config) *Cast {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	s := &Cast{config: c, log: c.Log, lanes: map[string]*lane{}, outsiders: map[string]*lane{}, actors: map[string]*performer{},
		asks: map[string]*ask{}, nextAsk: rand.Uint64(), asked: map[Ref]*performer{}, watches: map[Ref]*watch{}, nextID: rand.Uint64()}
	s.tasks.subscribers = map[*Subscription]struct{}{}
	s.life, s.die = context.WithCancel(context.Background())
	for _, t := range c.Tasks {
		s.lanes[t] = &lane{}
	}
	c.Transport.Watch(s.down)
	return s
}

// Self is the task's full name.
func (s *Cast) Self() string { return s.config.Self }

// KindPrefix is what the kinds of programs' actors begin with in the list of a task's actors, where the runtime's are, too.
const KindPrefix = "program/"

// List gives the task's actors of programs, in no order. It waits for no actor. None has panics: an actor ends with its first.
func (s *Cast) List() []roles.Status {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.actors))
	s.mu.Unlock()
	list := make([]roles.Status, 0, len(all))
	for _, p := range all {
		list = append(list, p.status())
	}
	return list
}

// Kinds sums up the task's actors of programs by kind, in no order. It waits for no actor.
func (s *Cast) Kinds() []roles.KindStatus {
	all := map[string]*roles.KindStatus{}
	of := func(kind string) *roles.KindStatus {
		if all[kind] == nil {
			all[kind] = &roles.KindStatus{Kind: KindPrefix + kind}
		}
		return all[kind]
	}
	s.mu.Lock()
	for kind, handled := range s.handled {
		of(kind).Handled = handled
	}
	for _, p := range s.actors {
		of(p.kind).Add(roles.Status{Handled: p.begun.Load(), Waiting: p.queued()})
	}
	s.mu.Unlock()
	out := make([]roles.KindStatus, 0, len(all))
	for _, k := range all {
		out = append(out, *k)
	}
	return out
}

// countEndedLocked keeps what an actor that has ended had done.
func (s *Cast) countEndedLocked(p *performer) {
	if s.handled == nil {
		s.handled = map[string]uint64{}
	}
	s.handled[p.kind] += p.begun.Load()
}

// Knows tells whether a name is the full name of a task of the cluster.
func (s *Cast) Knows(task string) bool { return s.lanes[task] != nil }

// Stop ends all actors: their contexts end, they handle no further message, and are closed. It waits for
// them until ctx ends; who goes on then is named in the error.
func (s *Cast) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	all := slices.Collect(maps.Values(s.actors))
	asks := s.asks
	s.asks = map[string]*ask{}
	watched := map[Ref]uint64{}
	for ref, w := range s.watches {
		watched[ref] = w.id
	}
	s.mu.Unlock()
	s.die()
	for ref, id := range watched {
		s.ended(ref, id, s.stopping())
	}
	for _, a := range asks {
		a.settle(content{}, s.stopping())
	}
	for _, p := range all {
		p.dismiss(s.stopping())
	}
	var late []string
	for _, p := range all {
		select {
		case <-p.gone:
		case <-ctx.Done():
			select {
			case <-p.gone:
			default:
				late = append(late, p.ref.Name)
			}
		}
	}
	s.tasks.close()
	s.work.Wait() // their context has ended
	if len(late) > 0 {
		slices.Sort(late)
		return status.Errorf(status.DeadlineExceeded, "%d actors of %s have not ended, among them %s: they must return when their context ends",
			len(late), s.config.Self, strings.Join(late[:min(len(late), 5)], ", "))
	}
	return nil
}

func (s *Cast) stopping() error {
	return status.Errorf(status.Cancelled, "The server of %s is stopping.", s.config.Self)
}

// errand runs f, which has something to say to a task and ends with its context, on a goroutine that Stop
// waits for. False where that will not be: the cast stops, or far too much waits for the task.
func (s *Cast) errand(task string, f func(ctx context.Context)) bool {
	l := s.lane(task)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped || l == nil:
		return false
	case len(l.errands) >= maxErrands:
		s.log.Error("an answer to another task was dropped: too many wait to be sent", "task", task, "limit", maxErrands)
		return false
	}
	l.errands = append(l.errands, f)
	if l.couriers < maxCouriers {
		l.couriers++
		s.work.Go(contain.Func(s.log, "An errand to another task", func() { s.run(l) }, nil))
	}
	return true
}

func (s *Cast) run(l *lane) {
	for {
		s.mu.Lock()
		if len(l.errands) == 0 {
			l.errands = nil
			l.couriers--
			s.mu.Unlock()
			return
		}
		f := l.errands[0]
		l.errands[0], l.errands = nil, l.errands[1:]
		s.mu.Unlock()
		f(s.life)
	}
}

// resolve checks a reference; an empty task is the own one.
func (s *Cast) resolve(r Ref) (Ref, error) {
	if r.Task == "" {
		r.Task = s.config.Self
	}
	if r.Task != s.config.Self && s.lane(r.Task) == nil {
		return r, s.unknown(r.Task)
	}
	return r, nil
}

// checkName refuses what cannot be an actor's name.
func checkName(name string) error {
	bad := strings.IndexFunc(name, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '?' || c == '#' })
	if name == "" || len(name) > maxName || bad >= 0 {
		return status.InvalidArgumentf("%q is not a name of an actor: it has 1 to %d bytes, and no space, control character, ? or #", name, maxName)
	}
	return nil
}

// checkRef refuses what cannot be an actor's name on its task; outside there may be others.
func (s *Cast) checkRef(r Ref) error {
	if Outside(r.Task) && r.Name != "" {
		return nil
	}
	return checkName(r.Name)
}

// Spawn makes an actor of a kind on ref's task and waits until it is there, or why it is not. Without a
// name it gets one of its own.
func (s *Cast) Spawn(ctx context.Context, kind string, ref Ref, arguments proto.Message) (Ref, error) {
	ref, err := s.resolve(ref)
	if err != nil {
		return Ref{}, err
	}
	if ref.Name == "" {
		s.mu.Lock()
		s.nextID++
		ref.Name = kind + "-" + strconv.FormatUint(s.nextID, 36)
		s.mu.Unlock()
	}
	if err := checkName(ref.Name); err != nil {
		return Ref{}, err
	}
	enclosed, err := enclose(arguments)
	if err != nil {
		return Ref{}, err
	}
	if err := s.request(ctx, ref, &wire.Mail{What: &wire.Mail_Spawn{Spawn: &wire.Spawn{Kind: kind, Arguments: enclosed}}}); err != nil {
		return Ref{}, err
	}
	return ref, nil
}

// End lets an actor handle what it has got, ends it, and waits until it has ended.
func (s *Cast) End(ctx context.Context, ref Ref) error {
	ref, err := s.resolve(ref)
	if err != nil {
		return err
	}
	return s.request(ctx, ref, &wire.Mail{What: &wire.Mail_End{End: &wire.End{}}})
}

// spawn makes an actor of this task; who asked is told when it is there.
func (s *Cast) spawn(name string, q *wire.Spawn, asker Ref) {
	p, err := s.admit(name, q, asker)
	if err != nil {
		s.answer(asker, err)
		return
	}
	props := actor.PropsFromFunc(p.receive, actor.WithSupervisor(actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })))
	// Ids of the actor system's own: a name may be given again before the system has forgotten it.
	pid, err := s.config.System.Root.SpawnNamed(props, idPrefix+strconv.FormatUint(p.number, 10))
	if err != nil {
		p.finish(status.Internalf("The actor %s did not start: %v", name, err))
		return
	}
	p.found(pid)
}

func (s *Cast) admit(name string, q *wire.Spawn, asker Ref) (*performer, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	create := s.config.Kinds[q.GetKind()]
	if create == nil {
		return nil, status.Errorf(status.NotFound, "The program of %s has no actors of kind %q; it has %s", s.config.Self, q.GetKind(), list(s.config.Kinds))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return nil, s.stopping()
	case s.actors[name] != nil:
		return nil, status.Errorf(status.AlreadyExists, "There is an actor %s already on %s, of kind %q", name, s.config.Self, s.actors[name].kind)
	case len(s.actors) >= MaxActors:
		return nil, status.Errorf(status.ResourceExhausted, "%s has %d actors, which is the limit", s.config.Self, MaxActors)
	}
	s.born++
	p := newPerformer(s, name, q, create, asker)
	s.actors[name] = p
	return p, nil
}

func list(kinds map[string]Make) string {
	if len(kinds) == 0 {
		return "none at all"
	}
	return strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
}

// find gives an actor of this task.
func (s *Cast) find(name string) (*performer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(name)
}

func (s *Cast) findLocked(name string) (*performer, error) {
	p := s.actors[name]
	switch {
	case p == nil && s.stopped:
		return nil, s.stopping()
	case p == nil:
		return nil, status.Errorf(status.NotFound, "There is no actor %s on %s", name, s.config.Self)
	}
	return p, nil
}

// expectLocked keeps in mind who has asked an actor, until that is answered. It does nothing for messages that are no
// requests, and for an actor that is ending.
func (s *Cast) expectLocked(p *performer, asker Ref) {
	if p.pending != nil && isAsk(asker.Name) {
		p.pending[asker], s.asked[asker] = struct{}{}, p
	}
}
