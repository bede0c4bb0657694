package cast

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
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

// Limits of programs' actors.
const (
	// MaxMessage bounds the encoded size of a message in bytes.
	MaxMessage = 1 << 20
	// MaxQueued and MaxQueuedBytes bound the messages that wait for one actor.
	MaxQueued      = 8192
	MaxQueuedBytes = 16 << 20
	// MaxAsks bounds the answers that an actor waits for after Context.Ask.
	MaxAsks = MaxQueued
	// MaxActors bounds the actors of a task unless Config.MaxActors does, and MaxBytes the messages that wait for all of them.
	MaxActors = 1 << 16
	MaxBytes  = 256 << 20
	// Overhead is the size in bytes of a queued message's record. It counts towards MaxBytes.
	Overhead = 144
	// maxName bounds the bytes of an actor's name.
	maxName = 256
	// maxErrands bounds the answers for a task that wait to be sent, and the notices for which no caller
	// waits; maxCouriers is how many of each are in flight.
	maxErrands  = 1 << 20
	maxCouriers = 64
)

// idPrefix begins the actor system's ids of programs' actors.
const idPrefix = "cast/"

// Ref addresses an actor by the full name of its task and its own name.
type Ref struct{ Task, Name string }

// Actor receives its messages one at a time.
type Actor interface {
	// Receive handles a proto.Message, an Ended, or a value that was passed to TaskChanged.
	Receive(c *Context, message any)
	// Close is called once, after the last message.
	Close() error
}

// Maker makes the actors of a kind.
type Maker struct {
	// Make creates an actor from its arguments, which may be nil.
	Make func(c *Context, arguments proto.Message) (Actor, error)
	// Restart is how the actors restart after a failure. If it is nil, they end with their first one.
	Restart *Restart
	// Decide decides what follows a failure. If it is nil, the actors restart as often as Restart allows, and then end.
	Decide func(Failure) Decision
	// Virtual makes them virtual. If it is nil, they are spawned.
	Virtual *Virtual
}

// Ended reports that an actor has ended. Err is nil if it ended on purpose.
type Ended struct {
	Ref Ref
	Err error
}

// Transport delivers mail to other tasks.
type Transport interface {
	// Reach returns the way to a task. If the task cannot be reached, it fails in bounded time.
	Reach(ctx context.Context, task string) (Way, error)
	// Watch registers a function that is called for every task whose link breaks. It must not block.
	Watch(down func(task string, err error))
	// Break breaks the links that a task has opened to this one, because it waits for a message that cannot be delivered.
	Break(task, why string)
}

// Config holds the parts that a cast is made of.
type Config struct {
	System    *actor.ActorSystem
	Self      string   // the task's full name
	Tasks     []string // of the cluster
	Boot      uint64
	Transport Transport
	Kinds     map[string]Maker
	// MaxActors bounds the actors of the task, of which those that one client has spawned, or begun by its messages, may be half; 0 means the constant of
	// that name.
	MaxActors int
	// Present returns the initial status of the tasks for a new subscriber.
	Present func() []TaskChange
	// Find looks for a task that was never seen, for a bounded time within ctx. It returns why the task is not up, if it is not.
	Find func(ctx context.Context, task string) error
	// Watched, if set, is called when the first subscriber for task changes arrives, and when the last one leaves. It must not block.
	Watched func(bool)
	// Outsiders allows processes outside the cluster and the program's actors to exchange messages.
	Outsiders bool
	// Address is what actors outside know this task by, Refused is called for messages of the actor
	// system's own from outside that were refused. Both are needed with Outsiders.
	Address string
	Refused func(target, message, from string)
	// Tracer, if set, records spans.
	Tracer Tracer
	// Panicked, if set, is called for each panic of an actor. It must not block.
	Panicked func(actor, kind string, err error)
	Log      *slog.Logger
}

// Cast holds the program's actors on a task. All methods may be called concurrently.
type Cast struct {
	config   Config
	log      *slog.Logger
	life     context.Context
	die      context.CancelFunc
	stopping error          // for what ends with the server
	work     sync.WaitGroup // couriers
	bytes    atomic.Int64   // that wait for all actors
	lanes    map[string]*lane
	tasks    hub
	drops    drops
	placer   *placer
	kinds    map[string]*actorKind // the program's
	keeper   *actorKind            // of keepers and anchors
	topics   *topics
	crew     crew

	counting sync.Mutex // guards twice from a second count at the same time: scrapes come on their own goroutines

	outsidersMu sync.Mutex       // guards outsiders: messages from outside arrive on the goroutines of their connections
	outsiders   map[string]*lane // by the addresses of processes outside the cluster

	mu      sync.Mutex // guards the rest: programs send and ask on their own goroutines; the actors themselves handle one message at a time
	stopped bool
	actors  map[string]*performer
	virtual map[*performer]struct{}     // those of the actors that are virtual, which are looked at every few seconds
	clients map[string]int              // how many of the actors are there because of each client
	former  map[string]roles.KindStatus // by kind, the totals of ended actors
	round   uint8                       // the last count of the actors: 1 to 255, in turn
	twice   map[string]roles.KindStatus // by kind, of former, what that count has counted already; nil when it is over
	asks    map[string]*ask
	nextAsk uint64
	asked   map[Ref]*held // requests that an actor has got and not answered, by their sender
	spare   *held         // the first of the records for further requests; held.after links them
	spares  int           // how many they are
	relays  map[Ref]relay // requests that were forwarded to another task, by their sender
	// contexts are those of requests that an actor has, by their sender.
	contexts map[Ref]requestContext
	watches  map[Ref]*watch
	nextID   uint64
}

// New creates a task's cast.
func New(c Config) *Cast {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.MaxActors == 0 {
		c.MaxActors = MaxActors
	}
	s := &Cast{config: c, log: c.Log, lanes: map[string]*lane{}, outsiders: map[string]*lane{}, actors: map[string]*performer{}, virtual: map[*performer]struct{}{}, clients: map[string]int{},
		asks: map[string]*ask{}, nextAsk: rand.Uint64(), asked: map[Ref]*held{}, relays: map[Ref]relay{}, contexts: map[Ref]requestContext{}, watches: map[Ref]*watch{}, nextID: rand.Uint64() >> 1}
	s.stopping = status.Errorf(status.Cancelled, "The server of %s is stopping.", c.Self)
	s.crew.init()
	s.tasks.subscribers, s.tasks.watched = map[*Subscription]struct{}{}, c.Watched
	s.life, s.die = context.WithCancel(context.Background())
	for _, t := range c.Tasks {
		s.lanes[t] = &lane{}
	}
	s.kinds = make(map[string]*actorKind, len(c.Kinds))
	for name, m := range c.Kinds {
		s.kinds[name] = &actorKind{name, m}
	}
	s.placer = newPlacer(s)
	s.keeper = &actorKind{keeperKind, Maker{Make: makeKeeper}}
	s.topics = newTopics(s)
	c.Transport.Watch(s.down)
	return s
}

// Self returns the task's full name.
func (s *Cast) Self() string { return s.config.Self }

// KindPrefix begins the kinds of programs' actors in the list of a task's actors, which also has the runtime's.
const KindPrefix = "program/"

// List returns the program's actors on the task, in no order. It waits for no actor. Only actors that restart have panicked.
func (s *Cast) List() []roles.Status {
	var all []*performer
	s.each(func(p *performer) { all = append(all, p) })
	list := make([]roles.Status, 0, len(all))
	for _, p := range all {
		list = append(list, p.status())
	}
	return list
}

// eachPiece is how many actors are looked at before messages and spawns, which need the same lock, get a turn.
const eachPiece = 1024

// each calls f for the task's actors, with mu held. It lets go of mu now and then: f may not see an actor that is added meanwhile.
func (s *Cast) each(f func(p *performer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, p := range s.actors {
		f(p)
		if n++; n%eachPiece == 0 {
			s.mu.Unlock()
			runtime.Gosched()
			s.mu.Lock()
		}
	}
}

// Kinds returns the totals of the program's actors on the task by kind, in no order. It waits for no actor. What has been handled never gets less.
func (s *Cast) Kinds() []roles.KindStatus {
	all := map[string]*roles.KindStatus{}
	of := func(kind string) *roles.KindStatus {
		if all[kind] == nil {
			all[kind] = &roles.KindStatus{Kind: KindPrefix + kind}
		}
		return all[kind]
	}
	s.counting.Lock()
	defer s.counting.Unlock()
	s.mu.Lock()
	s.round = s.round%255 + 1
	s.twice = map[string]roles.KindStatus{}
	s.mu.Unlock()
	s.each(func(p *performer) {
		p.counted = s.round
		panics, restarts := p.failed()
		of(p.kind.name).Add(roles.Status{Handled: p.begun.Load(), Panics: panics, Restarts: restarts, Waiting: p.queued()})
	})
	s.mu.Lock()
	for kind, k := range s.former {
		all, twice := of(kind), s.twice[kind]
		all.Handled += k.Handled - twice.Handled
		all.Panics += k.Panics - twice.Panics
		all.Restarts += k.Restarts - twice.Restarts
	}
	s.twice = nil
	s.mu.Unlock()
	out := make([]roles.KindStatus, 0, len(all))
	for _, k := range all {
		out = append(out, *k)
	}
	return out
}

// countEndedLocked adds an ended actor's counts to the totals, and takes it off its client's.
func (s *Cast) countEndedLocked(p *performer) {
	if r := p.rare.Load(); r != nil && r.client != "" {
		if s.clients[r.client]--; s.clients[r.client] == 0 {
			delete(s.clients, r.client)
		}
	}
	if s.former == nil {
		s.former = map[string]roles.KindStatus{}
	}
	p.addTo(s.former)
	if s.twice != nil && p.counted == s.round {
		p.addTo(s.twice)
	}
}

// addTo adds the actor's counts to those of its kind.
func (p *performer) addTo(all map[string]roles.KindStatus) {
	k := all[p.kind.name]
	panics, restarts := p.failed()
	k.Handled += p.begun.Load()
	k.Panics += panics
	k.Restarts += restarts
	all[p.kind.name] = k
}

// Knows reports whether a name is the full name of a task of the cluster.
func (s *Cast) Knows(task string) bool { return s.lanes[task] != nil }

// Stop ends all actors: their contexts end, they handle no further message, and are closed. It waits for
// them until ctx ends, or a second longer; the error names those that still run.
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
		s.ended(ref, id, s.stopping)
	}
	for _, a := range asks {
		a.settle(content{}, s.stopping)
	}
	for _, p := range all {
		p.dismiss(s.stopping)
	}
	var late []string
	for _, p := range all {
		select {
		case <-p.done():
		case <-ctx.Done():
			select {
			case <-p.done():
			default:
				late = append(late, p.name)
			}
		}
	}
	s.tasks.close()
	s.work.Wait() // their context has ended
	ended := s.crew.close(ctx)
	if len(late) > 0 {
		slices.Sort(late)
		return status.Errorf(status.DeadlineExceeded, "%d actors of %s have not ended, among them %s: they must return when their context ends",
			len(late), s.config.Self, strings.Join(late[:min(len(late), 5)], ", "))
	}
	if !ended {
		return status.Errorf(status.DeadlineExceeded, "the actors of %s have ended, and their goroutines have not", s.config.Self)
	}
	return nil
}

// errand runs f, which sends something to a task and ends with its context, on a goroutine that Stop
// waits for. It returns false if the cast is stopping, or if far too much waits for the task.
func (s *Cast) errand(task string, f func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errandLocked(task, f)
}

func (s *Cast) errandLocked(task string, f func(ctx context.Context)) bool {
	l := s.lane(task)
	return l != nil && s.sendOffLocked(&l.errands, task, f)
}

// dispatch is errand for what does not wait for an answer: it does not wait for errands that do.
func (s *Cast) dispatch(task string, f func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lane(task)
	return l != nil && s.sendOffLocked(&l.answers, task, f)
}

func (s *Cast) sendOffLocked(e *errands, task string, f func(ctx context.Context)) bool {
	switch {
	case s.stopped:
		return false
	case len(e.waiting) >= maxErrands:
		s.log.Error("an answer to another task was dropped: too many wait to be sent", "task", task, "limit", maxErrands)
		return false
	}
	e.waiting = append(e.waiting, f)
	if e.couriers < maxCouriers {
		e.couriers++
		s.work.Go(contain.Func(s.log, "An errand to another task", func() { s.run(e) }, nil))
	}
	return true
}

func (s *Cast) run(e *errands) {
	for {
		s.mu.Lock()
		if len(e.waiting) == 0 {
			e.waiting = nil
			e.couriers--
			s.mu.Unlock()
			return
		}
		f := e.waiting[0]
		e.waiting[0], e.waiting = nil, e.waiting[1:]
		s.mu.Unlock()
		f(s.life)
	}
}

// resolve checks a reference, and locates a virtual actor. An empty task means this one.
func (s *Cast) resolve(r Ref) (Ref, error) {
	if IsVirtual(r.Task) {
		return s.locate(r)
	}
	if r.Task == "" {
		r.Task = s.config.Self
	}
	if r.Task != s.config.Self && s.lane(r.Task) == nil {
		return r, s.unknown(r.Task)
	}
	return r, nil
}

// checkName rejects invalid names of actors.
func checkName(name string) error {
	bad := strings.IndexFunc(name, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '?' || c == '#' })
	if name == "" || len(name) > maxName || bad >= 0 {
		return status.InvalidArgumentf("%q is not a name of an actor: it has 1 to %d bytes, and no space, control character, ? or #", name, maxName)
	}
	return nil
}

// checkRef rejects invalid names of actors on tasks. Outside the cluster, other names are allowed.
func (s *Cast) checkRef(r Ref) error {
	if Outside(r.Task) && r.Name != "" {
		return nil
	}
	return checkName(r.Name)
}

// Spawn creates an actor of a kind on ref's task and waits until it exists, or fails. Without a
// name, the actor gets a generated one.
func (s *Cast) Spawn(ctx context.Context, kind string, ref Ref, arguments proto.Message) (Ref, error) {
	return s.create(ctx, kind, ref, arguments, nil)
}

// Ensure returns once an actor of a kind exists at ref: the one that is there, or else one that it creates.
func (s *Cast) Ensure(ctx context.Context, kind string, ref Ref, arguments proto.Message) (Ref, error) {
	enclosed, err := enclose(arguments)
	if err != nil {
		return Ref{}, err
	}
	return s.ensure(ctx, kind, ref, enclosed)
}

// ensure is Ensure with encoded arguments; nil for none.
func (s *Cast) ensure(ctx context.Context, kind string, ref Ref, arguments *wire.Content) (Ref, error) {
	if ref.Name == "" {
		return Ref{}, status.InvalidArgumentf("an actor of kind %q that is to be there already, or else to be made, needs a name", kind)
	}
	return s.createWith(ctx, ref, &wire.Spawn{Kind: kind, Arguments: arguments, Ensure: true}, nil)
}

// create is Spawn of an actor that ends with its parent, if it has one. A parent's task is this one.
func (s *Cast) create(ctx context.Context, kind string, ref Ref, arguments proto.Message, parent *life) (Ref, error) {
	enclosed, err := enclose(arguments)
	if err != nil {
		return Ref{}, err
	}
	return s.createWith(ctx, ref, &wire.Spawn{Kind: kind, Arguments: enclosed}, parent)
}

// createWith is create with the encoded request, in which it sets the client.
func (s *Cast) createWith(ctx context.Context, ref Ref, q *wire.Spawn, parent *life) (Ref, error) {
	q.Client = clientOf(ctx).Name
	if IsVirtual(ref.Task) {
		return Ref{}, status.InvalidArgumentf("Actors of kind %q are virtual: they begin with their first message, and are not spawned", q.GetKind())
	}
	ref, err := s.resolve(ref)
	if err != nil {
		return Ref{}, err
	}
	if ref.Name == "" {
		s.mu.Lock()
		s.nextID++
		ref.Name = generated(q.GetKind(), s.nextID)
		s.mu.Unlock()
	}
	if err := checkName(ref.Name); err != nil {
		return Ref{}, err
	}
	if ref.Task == s.config.Self { // as request does, without a message
		_, err = s.await(ctx, ref.Task, asking{}, func(asker Ref) error {
			s.spawn(ref.Name, q, asker, parent)
			return nil
		})
	} else {
		err = s.request(ctx, ref, &wire.Mail{What: &wire.Mail_Spawn{Spawn: q}})
	}
	if err != nil {
		return Ref{}, err
	}
	return ref, nil
}

// generated returns the name of an actor that is given none.
func generated(kind string, id uint64) string { return numbered(kind+"-", id, 36) }

// numbered returns a prefix followed by a number in a base. It makes no string but its result.
func numbered(prefix string, n uint64, base int) string {
	var b [maxNumbered]byte
	return string(strconv.AppendUint(append(b[:0], prefix...), n, base))
}

// maxNumbered is how many bytes of a numbered name are put together without memory of their own.
const maxNumbered = 64

// End lets an actor handle its queued messages, ends it, and waits until it has ended.
func (s *Cast) End(ctx context.Context, ref Ref) error {
	ref, err := s.resolve(ref)
	if err != nil {
		return err
	}
	return s.request(ctx, ref, &wire.Mail{What: &wire.Mail_End{End: &wire.End{}}})
}

// spawn creates an actor of this task, and notifies the requester when it exists. parent is nil if it is no child.
func (s *Cast) spawn(name string, q *wire.Spawn, asker Ref, parent *life) {
	for {
		p, created, err := s.admit(name, q, asker, parent)
		switch {
		case err != nil:
			s.answer(asker, err)
		case !created && !p.join(q, asker):
			continue // it has just ended
		case created && parent != nil && !parent.adopt(p):
			p.finish(parent.performer.over())
		case created:
			s.start(p)
		}
		return
	}
}

// start makes the actor system run an actor.
func (s *Cast) start(p *performer) {
	pid, err := s.crew.take(s.config.System, p)
	if err != nil {
		p.finish(status.Internalf("The actor %s did not start: %v", p.name, err))
		return
	}
	p.found(pid)
}

// admit adds an actor. If there is one that the request is content with, it returns that, with created false.
func (s *Cast) admit(name string, q *wire.Spawn, asker Ref, parent *life) (p *performer, created bool, err error) {
	if err := checkName(name); err != nil {
		return nil, false, err
	}
	kind := s.kinds[q.GetKind()]
	switch q.GetKind() {
	case keeperKind:
		kind = s.keeper
	case topicKind:
		kind = s.topics.kind(name)
	}
	if kind == nil {
		return nil, false, status.Errorf(status.NotFound, "The program of %s has no actors of kind %q; it has %s", s.config.Self, q.GetKind(), list(s.kinds))
	}
	if of, _, v := s.virtualOf(name); v != nil || kind.Virtual != nil {
		return nil, false, status.InvalidArgumentf("%s cannot be spawned: actors of kind %q are virtual, and begin with their first message", name, cmp.Or(of, q.GetKind()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	there := s.actors[name]
	switch {
	case s.stopped:
		return nil, false, s.stopping
	case there != nil && q.GetEnsure() && there.kind.name == q.GetKind():
		return there, false, nil
	case there != nil:
		return nil, false, status.Errorf(status.AlreadyExists, "There is an actor %s already on %s, of kind %q", name, s.config.Self, there.kind.name)
	}
	p, err = s.addLocked(name, q.GetArguments(), kind, asker, parent, q.GetClient())
	return p, true, err
}

// addLocked adds an actor, whose name is free, for a client; "" is the program.
func (s *Cast) addLocked(name string, arguments *wire.Content, kind *actorKind, asker Ref, parent *life, client string) (*performer, error) {
	switch {
	case len(s.actors) >= s.config.MaxActors:
		return nil, status.Errorf(status.ResourceExhausted, "%s has %d actors, which is the limit", s.config.Self, s.config.MaxActors)
	case client != "" && s.clients[client] >= max(1, s.config.MaxActors/2):
		return nil, status.Errorf(status.ResourceExhausted, "%d actors of %s are there because of the client %s, which is the limit for one client", s.clients[client], s.config.Self, client)
	}
	p := newPerformer(s, name, arguments, kind, asker, parent)
	if client != "" {
		s.clients[client]++
		p.needRare().client = client
	}
	s.actors[name] = p
	if kind.Virtual != nil {
		s.virtual[p] = struct{}{}
	}
	return p, nil
}

// removeLocked frees the name of an actor that handles no more messages, and adds its counts to the totals.
func (s *Cast) removeLocked(p *performer) {
	delete(s.actors, p.name)
	delete(s.virtual, p)
	s.countEndedLocked(p)
}

func list(kinds map[string]*actorKind) string {
	if len(kinds) == 0 {
		return "none at all"
	}
	return strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
}

// find returns an actor of this task.
func (s *Cast) find(name string) (*performer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(name)
}

// receiverLocked returns the actor of this task that a message is for. It may be a virtual one that begins with it: the caller calls launch when it
// has released mu.
func (s *Cast) receiverLocked(name, client string) (*performer, error) {
	if s.actors[name] == nil && !s.stopped {
		if kind, identity, v := s.virtualOf(name); v != nil {
			return s.activateLocked(kind, identity, v, client)
		}
	}
	return s.findLocked(name)
}

func (s *Cast) findLocked(name string) (*performer, error) {
	p := s.actors[name]
	switch {
	case p == nil && s.stopped:
		return nil, s.stopping
	case name == "": // what Spawn returned with an error, or a variable that was never set
		return nil, status.InvalidArgumentf("The reference names no actor: it is empty")
	case p == nil:
		return nil, notBegun(status.Errorf(status.NotFound, "There is no actor %s on %s", name, s.config.Self))
	}
	return p, nil
}
