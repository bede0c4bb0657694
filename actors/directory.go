package actors

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/internal/questions"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
)

// directory is the actor that keeps this task's part of the homes of named resources that request no device. A name's home is decided once:
// it is what the first claimer proposes. The name chooses the task that decides, among the cluster's stable tasks or, if there are none,
// among all that are not down.
//
// If the task of a home is down, another home is decided, unless the task is a stable one, which comes back. The decisions of a directory
// outlive its process: the claimer's task and the home know them too (Note), and a directory asks the others (Known) before it decides a
// name that is new to it.
type directory struct {
	task     *Task
	homes    map[resourceName]home
	holdings holdings
	// asking are the claims that wait for other directories' answers; the first of them is the one being asked about.
	asking []*asking
	// passed counts the claims that were passed on to other directories and are not answered yet.
	passed atomic.Int64
	// first is how often homes that are decided now count as handed over: more often than all that were forgotten.
	first uint64
}

type resourceName struct{ container, kind, name string }

func nameOf(r *wire.Resource) resourceName { return resourceName{r.Container, r.Kind, r.Name} }

// home is where a resource lives, and the task and the client whose session claimed it first.
type home struct {
	device, claimer, client string
	moves                   uint64 // how often it was handed over; what is decided after a reset begins with the next multiple of resetMoves
}

// resetMoves is more often than a home is handed over before its container is reset. A task that a reset did not reach knows a home from before, and
// may hand it over; nobody believes it any more.
const resetMoves = 1 << 20

func homeOf(r *wire.Resource) home { return home{r.Device, r.Claimer, r.Client, r.Moves} }

// asking is a claim that waits for what other directories know.
type asking struct {
	claim  *wire.Claim
	sender *actor.PID
}

// known holds their answers about the resources of a claim. The directory sends it to itself.
type known struct{ homes map[resourceName]home }

const (
	// maxHomeBytes bounds the bytes of the homes that a directory keeps, as does a part of the process's memory, of which homesPart is the divisor.
	// See holdings for the parts of clients.
	maxHomeBytes = 1 << 30
	homesPart    = 8
	// maxTold bounds the names whose sharing was logged.
	maxTold = 1 << 20
	// maxAsking bounds the waiting claims.
	maxAsking = 1 << 10
	// maxAsked bounds the directories that are asked; if there are more, none is. askedTime bounds the wait for them. It suits far tasks: the
	// link to a task that is gone or frozen is given up sooner, and ends the wait for that one.
	maxAsked  = 64
	askedTime = 10 * time.Second
)

// startDirectory spawns the directory.
func (t *Task) startDirectory() (err error) {
	limit := int64(maxHomeBytes)
	if memory := tensor.Process.Limit(); memory > 0 {
		limit = min(limit, memory/homesPart)
	}
	d := newDirectory(t, limit)
	t.directory, err = t.spawn(roles.Spec{Name: directoryName, Kind: "directory", Receive: d.Receive})
	return err
}

func newDirectory(t *Task, limit int64) *directory {
	return &directory{task: t, homes: map[resourceName]home{}, holdings: holdings{limit: limit, of: map[holder]int64{}}}
}

// Receive answers claims and keeps notes. See wire/directory.proto.
func (d *directory) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *wire.Note:
		d.note(m)
		return
	case *known:
		d.settle(m)
		return
	}
	if c.Sender() == nil { // nobody waits for the answer
		return
	}
	switch m := c.Message().(type) {
	case *wire.Claim:
		d.claim(&asking{m, c.Sender()})
	case *wire.Known:
		homes := &wire.Homes{}
		for _, r := range m.Resources {
			if h, ok := d.lives(nameOf(r)); ok {
				homes.Resources = append(homes.Resources, resourceAt(nameOf(r), h))
			}
		}
		c.Respond(homes)
	case *wire.Leaves:
		d.task.leaves(m.Task, c.Sender())
	case *wire.Left:
		d.note(&wire.Note{Resources: m.Moved})
		d.task.adoptions.confirm(m.Task)
		d.task.left(m.Task, c.Sender())
	case *wire.Forget:
		containers := m.Containers
		if len(containers) == 0 {
			containers = []string{""}
		}
		d.forget(containers)
		c.Respond(&wire.Done{})
	}
}

func resourceAt(n resourceName, h home) *wire.Resource {
	return &wire.Resource{Container: n.container, Kind: n.kind, Name: n.name, Device: h.device, Claimer: h.claimer, Client: h.client, Moves: h.moves}
}

// lives returns the home of a resource, unless its task is down and may not come back.
func (d *directory) lives(n resourceName) (home, bool) {
	h, ok := d.homes[n]
	if !ok {
		return h, false
	}
	task := taskOf(h.device)
	if task != d.task.name && !slices.Contains(d.task.stable(), task) && d.task.Cluster.Down(task) {
		return h, false
	}
	return h, true
}

// note records what another directory has decided, or what has moved. An answer that was given before a resource moved may come after the news that
// it has. What is known of a home that is gone gives way to all news.
func (d *directory) note(m *wire.Note) {
	for _, r := range m.Resources {
		n, h := nameOf(r), homeOf(r)
		if d.room(n, h) != nil {
			continue // the deciding directory refuses names beyond that
		}
		known, alive := d.lives(n)
		if !alive || known.moves <= h.moves {
			d.keep(n, h)
		}
		older, newer := known, h
		if h.moves < known.moves {
			older, newer = h, known
		}
		if alive && older.moves < newer.moves && d.isHere(older) && !d.isHere(newer) {
			d.task.discard(n)
		}
	}
}

func (d *directory) isHere(h home) bool { return taskOf(h.device) == d.task.name }

// homeBytes is about what a home takes, also in the tables of shared resources.
func homeBytes(n resourceName) int64 { return int64(len(n.container)+len(n.kind)+len(n.name)) + 256 }

// holdings counts the bytes of the homes of a directory by their holders. Half of the limit is for clients that can be told apart, and half for the
// containers of the others; each may hold at most half of what the others of its kind leave. Names of one client thus never keep another's from
// being decided. A home counts until its container is reset, whether the resource was made or not.
type holdings struct {
	limit int64
	told  int64            // of clients that can be told apart
	other int64            // of the others
	of    map[holder]int64 // of each
}

// holder is a client that can be told apart from others, or a container of the others.
type holder struct{ client, container string }

func holderOf(n resourceName, h home) holder {
	if h.client != "" {
		return holder{client: h.client}
	}
	return holder{container: n.container}
}

func (h holder) String() string {
	if h.client != "" {
		return "the client " + view.Line(h.client)
	}
	return fmt.Sprintf("the container %q", view.Line(h.container))
}

// count counts the name of a home once more or, with times -1, no longer.
func (a *holdings) count(n resourceName, h home, times int64) {
	bytes, of := times*homeBytes(n), holderOf(n, h)
	if of.client != "" {
		a.told += bytes
	} else {
		a.other += bytes
	}
	if a.of[of] += bytes; a.of[of] == 0 {
		delete(a.of, of)
	}
}

// most returns how much a holder may hold.
func (a *holdings) most(of holder) int64 {
	all := a.other
	if of.client != "" {
		all = a.told
	}
	return (a.limit/2 - (all - a.of[of])) / 2
}

// room returns an error if the directory has no room for the home of a name. The error is RESOURCE_EXHAUSTED.
func (d *directory) room(n resourceName, h home) error {
	if _, old := d.homes[n]; old {
		return nil
	}
	of := holderOf(n, h)
	if used, most := d.holdings.of[of], d.holdings.most(of); used+homeBytes(n) > most {
		return status.Errorf(status.ResourceExhausted, "The directory of %s holds names of %d bytes of %v, and its limit is %d, which is half of what others leave: reset containers that are not used any more",
			d.task.name, used, of, most)
	}
	return nil
}

// forget drops the homes of containers.
func (d *directory) forget(containers []string) {
	for n, h := range d.homes {
		if slices.Contains(containers, n.container) {
			delete(d.homes, n)
			d.first = max(d.first, (h.moves/resetMoves+1)*resetMoves)
			d.holdings.count(n, h, -1)
			d.task.shared.forget(n)
		}
	}
}

func (d *directory) keep(n resourceName, h home) {
	if old, known := d.homes[n]; known {
		d.holdings.count(n, old, -1)
	}
	d.holdings.count(n, h, 1)
	d.homes[n] = h
	if d.isHere(h) {
		d.task.shared.add(n, h)
	} else {
		d.task.shared.forget(n)
	}
}

// claim answers a claim, at once if all of its resources are known or there is no other directory to ask.
func (d *directory) claim(a *asking) {
	if d.elsewhere(a.claim) {
		d.pass(a)
		return
	}
	fresh := slices.ContainsFunc(a.claim.Resources, func(r *wire.Resource) bool {
		_, ok := d.lives(nameOf(r))
		return !ok
	})
	switch others := d.others(); {
	case len(d.asking) == 0 && (!fresh || len(others) == 0):
		d.decide(a, nil)
	case len(d.asking) >= maxAsking:
		d.task.System.Root.Send(a.sender, &wire.Homes{Failure: wire.FailureOf(tooMany("claims that wait", "The directory of "+d.task.name, maxAsking, "try again"))})
	default:
		if d.asking = append(d.asking, a); len(d.asking) == 1 {
			d.ask(a, others)
		}
	}
}

// elsewhere reports whether another stable task decides a resource of the claim. That happens if the claimer declares only some of the
// stable tasks: it asks the one that a name chooses among those. Each directory that a claim is passed on to ranks higher for the name, so
// the claim ends at the directory that all claimers that declare it ask.
func (d *directory) elsewhere(m *wire.Claim) bool {
	return len(d.task.stable()) > 0 && slices.ContainsFunc(m.Resources, func(r *wire.Resource) bool {
		return d.task.decider(r.Container, r.Name) != d.task.name
	})
}

// pass has the deciding directories answer a claim, outside the actor.
func (d *directory) pass(a *asking) {
	t := d.task
	if d.passed.Add(1) > maxAsking {
		d.passed.Add(-1)
		t.System.Root.Send(a.sender, &wire.Homes{Failure: wire.FailureOf(tooMany("claims that wait", "The directory of "+t.name, maxAsking, "try again"))})
		return
	}
	t.background(func(ctx context.Context) {
		defer d.passed.Add(-1)
		ctx, cancel := context.WithTimeout(ctx, questions.AnswerTime)
		defer cancel()
		resources, err := t.claim(ctx, a.claim.Resources)
		if err != nil {
			t.System.Root.Send(a.sender, &wire.Homes{Failure: wire.FailureOf(err)})
			return
		}
		t.System.Root.Send(a.sender, &wire.Homes{Resources: resources})
	})
}

// others returns the tasks whose directories may know names that are new to this one: all that are up, in clusters without stable tasks,
// where any directory may end. Large clusters do without.
func (d *directory) others() []string {
	t := d.task
	if len(t.stable()) > 0 {
		return nil
	}
	var all []string
	for _, task := range t.Cluster.Tasks() {
		if task != t.name && t.Cluster.Known(task) != nil && !t.Cluster.Down(task) {
			all = append(all, task)
		}
	}
	if len(all) > maxAsked {
		return nil
	}
	return all
}

// ask asks other directories for the resources of a claim, outside the actor.
func (d *directory) ask(a *asking, others []string) {
	t := d.task
	q := &wire.Known{}
	for _, r := range a.claim.Resources {
		q.Resources = append(q.Resources, &wire.Resource{Container: r.Container, Kind: r.Kind, Name: r.Name})
	}
	self := t.directory
	t.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, askedTime)
		defer cancel()
		k := &known{map[resourceName]home{}}
		defer func() { self.Send(k) }()
		var mu sync.Mutex // guards k between the goroutines of this question, which end with it
		var all sync.WaitGroup
		for _, task := range others {
			all.Go(contain.Func(t.Log, "A question to a directory", func() {
				answer, err := ask[*wire.Homes](ctx, t, task, directoryName, q)
				if err != nil {
					t.Log.Debug("a directory did not answer", "task", task, "error", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				for _, r := range answer.Resources {
					if n, h := nameOf(r), homeOf(r); k.homes[n].moves <= h.moves {
						k.homes[n] = h
					}
				}
			}, nil))
		}
		all.Wait()
	})
}

// settle decides the claim that others were asked about and handles the claims behind it again, up to the next that others must be asked
// about.
func (d *directory) settle(k *known) {
	first := d.asking[0]
	waiting := d.asking[1:]
	d.asking = nil
	d.decide(first, k.homes)
	for _, a := range waiting {
		d.claim(a)
	}
}

// decide answers a claim; others is what other directories know.
func (d *directory) decide(a *asking, others map[resourceName]home) {
	homes := &wire.Homes{Resources: make([]*wire.Resource, len(a.claim.Resources))}
	for i, r := range a.claim.Resources {
		n := nameOf(r)
		h, ok := d.lives(n)
		if !ok {
			was := h
			if h, ok = others[n]; !ok {
				h = homeOf(r)
				h.moves = d.first
			}
			h.moves = max(h.moves, was.moves) // or else those that know where it was would not believe it
			if err := d.room(n, h); err != nil {
				d.task.System.Root.Send(a.sender, &wire.Homes{Failure: wire.FailureOf(err)})
				return
			}
			if was.device != "" && was.device != h.device {
				d.task.Log.Warn("a resource whose home is down has another home now, without its value", "resource", n.name, "container", n.container, "was", was.device, "is", h.device)
			}
			d.keep(n, h)
		}
		homes.Resources[i] = resourceAt(n, h)
	}
	d.task.System.Root.Send(a.sender, homes)
	d.notifyHomes(homes.Resources)
}

// notifyHomes notifies the homes of what was decided; they answer for this directory when it is gone.
func (d *directory) notifyHomes(all []*wire.Resource) {
	at := map[string]*wire.Note{}
	for _, r := range all {
		if task := taskOf(r.Device); task != d.task.name {
			if at[task] == nil {
				at[task] = &wire.Note{}
			}
			at[task].Resources = append(at[task].Resources, r)
		}
	}
	d.task.noteTo(at)
}

// noteTo sends notes to directories of tasks that are reached. Other directories ask when they need to.
func (t *Task) noteTo(at map[string]*wire.Note) {
	for task, note := range at {
		if p := t.Cluster.Reached(task); p != nil {
			t.System.Root.Send(actor.NewPID(p.Address(), directoryName), note)
		}
	}
}

// stableJob is the job whose tasks are permanent, by TensorFlow's convention: workers come and go, parameter servers serve until they are
// stopped.
const stableJob = "/job:ps/"

// stable returns the cluster's permanent tasks; none if it has no such job.
func (t *Task) stable() []string {
	t.stableOnce.Do(func() {
		for _, task := range t.Cluster.Tasks() {
			if strings.HasPrefix(task, stableJob) {
				t.stableTasks = append(t.stableTasks, task)
			}
		}
	})
	return t.stableTasks
}

// decider returns the task whose directory decides a name's home: a stable one, or else the first in the name's order that is not down.
func (t *Task) decider(container, name string) string {
	if first := place.First(t.stable(), container, name, func(task string) bool { return !t.bare(task) }); first != "" {
		return first
	}
	return cmp.Or(place.First(t.Cluster.Tasks(), container, name, func(task string) bool { return task == t.name || !t.Cluster.Down(task) && !t.bare(task) }), t.name)
}

// bare reports whether a task is known to have no devices: its program hosts actors alone (package bare). One of which that is not known yet
// answers UNAVAILABLE where it would have to decide, and is known then.
func (t *Task) bare(task string) bool {
	known := t.Cluster.Known(task)
	return known != nil && len(known) == 0
}

// deciders returns the tasks whose directories decide the homes of resources.
func (t *Task) deciders(resources []*wire.Resource) []string {
	tasks := map[string]bool{}
	for _, r := range resources {
		tasks[t.decider(r.Container, r.Name)] = true
	}
	return sortedKeys(tasks)
}

// claimPause is how long a session waits before it claims resources again, and lastClaimPause bounds it: it doubles each time.
const (
	claimPause     = 5 * time.Millisecond
	lastClaimPause = 640 * time.Millisecond
)

// homesOf returns the devices of resources, as the directories decide, for a session of a client; "" is one that is not told apart.
func (t *Task) homesOf(ctx context.Context, client string, resources []place.Resource) ([]string, error) {
	wanted := make([]*wire.Resource, len(resources))
	for i, r := range resources {
		wanted[i] = &wire.Resource{Container: r.Container, Kind: r.Kind, Name: r.Name, Device: r.Default, Claimer: t.name, Client: client}
	}
	claimed, err := t.claimAll(ctx, wanted)
	if err != nil {
		return nil, err
	}
	t.shared.logSharing(t, claimed)
	homes := make([]string, len(claimed))
	told := &wire.Note{}
	for i, r := range claimed {
		homes[i] = r.GetDevice()
		if t.decider(r.GetContainer(), r.GetName()) != t.name {
			told.Resources = append(told.Resources, r)
		}
	}
	if len(told.Resources) > 0 {
		t.directory.Send(told)
	}
	return homes, nil
}

// claimAll is claim, and claims again if a task that decides has gone meanwhile: another one takes its place, or it comes back.
func (t *Task) claimAll(ctx context.Context, resources []*wire.Resource) (claimed []*wire.Resource, err error) {
	for pause := claimPause; ; pause *= 2 {
		if err := t.unseen(t.deciders(resources)); err != nil {
			return nil, err
		}
		if claimed, err = t.claim(ctx, resources); status.CodeOf(err) != status.Unavailable || pause > lastClaimPause {
			return claimed, err
		}
		if !rest(ctx, pause) {
			return nil, err
		}
	}
}

// rest waits before another attempt. It returns false if ctx ends first.
func rest(ctx context.Context, pause time.Duration) bool {
	again := time.NewTimer(pause)
	defer again.Stop()
	select {
	case <-again.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// claim asks the directories for the homes of resources: one message to each task that decides some of them, all concurrently.
func (t *Task) claim(ctx context.Context, resources []*wire.Resource) ([]*wire.Resource, error) {
	deciders := map[string][]int{}
	for i, r := range resources {
		task := t.decider(r.Container, r.Name)
		deciders[task] = append(deciders[task], i)
	}
	claimed := make([]*wire.Resource, len(resources))
	err := parallel(ctx, sortedKeys(deciders), func(ctx context.Context, task string) error {
		claim := &wire.Claim{}
		for _, i := range deciders[task] {
			claim.Resources = append(claim.Resources, resources[i])
		}
		answer, err := ask[*wire.Homes](ctx, t, task, directoryName, claim)
		if err == nil {
			err = answer.Failure.Err()
		}
		if err != nil {
			return err
		}
		if len(answer.Resources) != len(deciders[task]) {
			return status.Internalf("The directory of %s answered %d of %d names", task, len(answer.Resources), len(deciders[task]))
		}
		for k, i := range deciders[task] {
			claimed[i] = answer.Resources[k]
		}
		return nil
	})
	return claimed, err
}

// shared are the resources that sessions of all masters share and that live on a task or are used by its sessions.
type shared struct {
	mu   sync.Mutex // guards here and told: steps of all sessions look them up on their own goroutines
	here map[resourceName]home
	told map[resourceName]bool // whose sharing with another master's session was logged
}

func (s *shared) add(n resourceName, h home) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.here == nil {
		s.here = map[resourceName]home{}
	}
	s.here[n] = h
}

func (s *shared) forget(n resourceName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.here, n)
	delete(s.told, n)
}

// all returns the shared resources that live on the task.
func (s *shared) all() []*wire.Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*wire.Resource
	for n, h := range s.here {
		out = append(out, resourceAt(n, h))
	}
	return out
}

// logSharing logs, once for each, that sessions of this master share a resource that another master's session has claimed.
func (s *shared) logSharing(t *Task, all []*wire.Resource) {
	for _, r := range all {
		n := nameOf(r)
		s.mu.Lock()
		known := s.told[n]
		if !known && len(s.told) < maxTold {
			if s.told == nil {
				s.told = map[resourceName]bool{}
			}
			s.told[n] = true
		}
		s.mu.Unlock()
		if r.Claimer != "" && r.Claimer != t.name && !known {
			t.Log.Info("a resource without a device is shared with sessions of another master; --unpinned task gives each master its own",
				"kind", r.Kind, "name", r.Name, "container", r.Container, "device", r.Device, "master", r.Claimer)
		}
	}
}

// ask sends a request to a role of a task, which may be this one, and waits for its answer.
func ask[A any](ctx context.Context, t *Task, task, role string, request any) (A, error) {
	return askFor[A](ctx, t, task, role, request, questions.AnswerTime)
}

// askFor is ask for an answer that takes up to a given time.
func askFor[A any](ctx context.Context, t *Task, task, role string, request any, wait time.Duration) (A, error) {
	return questions.Ask[A](ctx, t.Asker, task, role, request, wait)
}
