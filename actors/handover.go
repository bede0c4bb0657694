package actors

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/kernels/restore"
)

const (
	// leastHandOver is how long a task that leaves may take to hand over its homes, if its running steps have used up its time.
	leastHandOver = 5 * time.Second
	// adoptTime bounds the wait for a task that takes over a piece of a resource.
	adoptTime = 30 * time.Second
	// pieceBytes is the size of the pieces.
	pieceBytes = 4 << 20
	// maxAdoptions bounds the tasks that hand over their homes to one at the same time.
	maxAdoptions = 64
	// confirmTime bounds how long a task that leaves asks again whether a resource was taken over, if the link breaks before the answer.
	confirmTime = 2 * time.Second
	// maxNamed is how many resources one line of the log names.
	maxNamed = 20
)

// hasHomes reports whether resources have their home on this task, but not by a client's choice, and move when it leaves.
func (t *Task) hasHomes() bool {
	// A stable task comes back, or its cluster ends with it.
	return !t.Lent && len(t.Cluster.Tasks()) > 1 && !slices.Contains(t.stable(), t.name) && len(t.shared.all()) > 0
}

// handOver moves the resources that have their home on this task, but not by a client's choice, to another task, with all that they have: the
// task leaves, and other sessions may need them. They move to one task, since sessions may have put several of them on one device. No step
// changes them any more. What cannot be described to another process, such as a reader, is lost. The result is what has moved, with its new homes.
func (t *Task) handOver(ctx context.Context) []*wire.Resource {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < leastHandOver {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), leastHandOver)
		defer cancel()
	}
	h := &handing{task: t, lost: map[string]bool{t.name: true}}
	all := t.shared.all()
	slices.SortFunc(all, func(a, b *wire.Resource) int {
		return cmp.Or(strings.Compare(a.Container, b.Container), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	for _, r := range all {
		h.move(ctx, r)
	}
	if len(h.moved) > 0 {
		t.Log.Info("resources that other sessions share were handed over", "resources", len(h.moved), "to", taskOf(h.moved[0].Device))
	}
	if n := len(h.alone); n > 0 {
		t.Log.Warn("resources that other sessions share are lost with this task: no other task is up that does not leave", "resources", n, "names", h.alone[:min(n, maxNamed)])
	}
	return h.moved
}

// handing is the state of a hand-over.
type handing struct {
	task   *Task
	lost   map[string]bool // tasks that cannot take anything
	number uint64          // of the resources that were sent
	moved  []*wire.Resource
	alone  []string // the names of resources that no task was left to take
}

// successor returns the task that resources move to: one that stays, if the cluster has such tasks, or else the first in the order of the
// leaving task's name. It is "" if no task is left.
func (h *handing) successor(not map[string]bool) string {
	t := h.task
	may := func(task string) bool {
		return !h.lost[task] && !not[task] && t.Cluster.Known(task) != nil && !t.bare(task) && !t.Cluster.Down(task) && t.departures.of(task) == nil
	}
	return cmp.Or(place.First(t.stable(), "", t.name, may), place.First(t.Cluster.Tasks(), "", t.name, may))
}

// move moves a resource, or logs that it is lost.
func (h *handing) move(ctx context.Context, r *wire.Resource) {
	device, kind, found := h.task.resourceOf(r)
	if found == nil {
		return
	}
	holds := containers.Describe(found)
	lost := func(why error) {
		h.task.Log.Warn("a resource that other sessions share is lost with this task", "kind", r.Kind, "name", r.Name, "holds", holds, "reason", why)
	}
	d, ok := found.(containers.Durable)
	switch {
	case !ok || kind == "":
		lost(status.Unimplementedf("resources of this kind cannot be handed over"))
		return
	case device.Type() != "CPU":
		lost(status.Unimplementedf("resources in the memory of a %s cannot be handed over", device.Type()))
		return
	}
	refused, again := map[string]bool{}, map[string]bool{}
	var unsure []string
	var why error
	for {
		to := h.successor(refused)
		switch {
		case to == "" && why == nil:
			h.alone = append(h.alone, r.Name)
			return
		case to == "":
			lost(why)
			return
		}
		home, last, err := h.send(ctx, to, r, d, unsure)
		var refusal *refusal
		switch {
		case err == nil:
			h.moved = append(h.moved, home)
			return
		case ctx.Err() != nil:
			lost(status.Errorf(status.DeadlineExceeded, "the time to leave is over"))
			return
		case last:
			// That task may have it. The home that another one becomes counts as a later one, so that all directories agree on it.
			unsure = append(unsure, to)
			r.Moves++
			h.lost[to] = true
		case brokeOff(err) && !again[to] && h.reaches(ctx, to):
			again[to] = true
			continue
		case errors.As(err, &refusal):
			refused[to] = true
		case status.CodeOf(err) == status.Unavailable:
			h.lost[to] = true
		default:
			lost(err)
			return
		}
		why = cmp.Or(why, err)
	}
}

// brokeOff reports whether a task has not got all of a resource: the link broke.
func brokeOff(err error) bool {
	return status.CodeOf(err) == status.Unavailable || status.CodeOf(err) == status.Aborted
}

// reaches reports whether a task can be reached, within a bound.
func (h *handing) reaches(ctx context.Context, task string) bool {
	return h.insist(ctx, func(ctx context.Context) error {
		_, err := h.task.Cluster.Peer(ctx, task)
		return err
	}) == nil
}

// insist calls f until it succeeds or fails with another error than UNAVAILABLE, for a bounded time.
func (h *handing) insist(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	for pause := claimPause; ; pause *= 2 {
		err := f(ctx)
		if err == nil || status.CodeOf(err) != status.Unavailable {
			return err
		}
		if !rest(ctx, pause) {
			return err
		}
	}
}

// refusal is the error of a task that does not take a resource.
type refusal struct{ error }

// Unwrap returns the reason.
func (r *refusal) Unwrap() error { return r.error }

// isUnanswered reports whether a task has not answered: it has neither taken a resource nor refused it, as far as is known.
func isUnanswered(err error) bool {
	var refused *refusal
	return status.CodeOf(err) == status.Unavailable && !errors.As(err, &refused)
}

// send sends a resource to another task, and returns its home there. The error is UNAVAILABLE if the task does not answer, and a refusal if it
// does not take the resource. last reports that the task may have taken it, since only its last answer is missing. unsure are the tasks of which
// that is known.
func (h *handing) send(ctx context.Context, to string, r *wire.Resource, d containers.Durable, unsure []string) (home *wire.Resource, last bool, err error) {
	about, err := d.About()
	if err != nil {
		return nil, false, err
	}
	image, err := durable.Take(d.State)
	if err != nil {
		return nil, false, err
	}
	defer image.Release()
	h.number++
	m := &wire.Adopt{From: h.task.name, Number: h.number, Resource: r, About: about, Unsure: unsure}
	post := func(ctx context.Context) error {
		homes, err := askFor[*wire.Homes](ctx, h.task, to, workerName, m, adoptTime)
		if err != nil {
			return err
		}
		if err := homes.Failure.Err(); err != nil {
			return &refusal{err}
		}
		if len(homes.Resources) == 1 {
			home = homes.Resources[0]
		}
		return nil
	}
	if err := image.Send(pieceBytes, func(piece []byte) error {
		m.Entries = piece
		err := post(ctx)
		m = &wire.Adopt{From: m.From, Number: m.Number}
		return err
	}); err != nil {
		return nil, false, err
	}
	m.Last = true
	if err = post(ctx); isUnanswered(err) {
		m = &wire.Adopt{From: m.From, Number: m.Number, Last: true}
		err = h.insist(ctx, post)
	}
	if err != nil {
		return nil, isUnanswered(err), err
	}
	if home == nil {
		return nil, false, status.Internalf("%s has not said where %s is", to, r.Name)
	}
	home.Moves = max(home.Moves, r.Moves+1) // tasks of older versions do not count
	return home, false, nil
}

// resourceOf returns a resource that lives on this task, with its device and its kind there; it is nil if it was never made, or stays with its
// disk. The kind is "" if it cannot be handed over.
func (t *Task) resourceOf(r *wire.Resource) (on devices.Device, kind string, found containers.Resource) {
	for _, d := range t.Devices {
		if d.Name() != r.Device || d.Resources().IsDurable(r.Container) {
			continue
		}
		if kind := kindOfHome(r.Kind); kind != "" {
			if found, err := d.Resources().Lookup(r.Container, kind, r.Name); err == nil {
				return d, kind, found
			}
			return nil, "", nil
		}
		list, err := d.Resources().List()
		if err != nil {
			t.Log.Warn("not all containers say what is lost with this task", "error", err)
		}
		container := cmp.Or(r.Container, d.Resources().DefaultContainer())
		for _, e := range list {
			if _, ephemeral := e.Resource.(containers.Ephemeral); e.Container == container && e.Name == r.Name && homeKind(e.Kind) == "" && !ephemeral {
				return d, "", e.Resource
			}
		}
	}
	return nil, "", nil
}

// adoptions are the resources that tasks which leave hand over to this one: at most one from each task at a time. The last one of each task stays
// until the task sends another or says what has moved, since its answer may be lost.
type adoptions struct {
	mu     sync.Mutex // guards from, complete and taken: pieces come on the goroutines of links
	from   map[string]*adoption
	closed bool
}

// adoption is a resource that comes in pieces.
type adoption struct {
	number   uint64
	resource *wire.Resource
	unsure   []string // tasks that may have taken it over, too
	pieces   *io.PipeWriter
	done     chan struct{} // closed when made or err is set
	made     containers.Resource
	err      error
	complete bool // all pieces have come
	taken    bool // it is in its container, and the task that leaves may not know it
}

// adopt takes over a piece of a resource, which waits for the pieces before to be decoded, and answers with the resource's home after the last
// one.
func (t *Task) adopt(m *wire.Adopt, sender *actor.PID) {
	homes := &wire.Homes{}
	home, err := t.adoptPiece(m)
	if err != nil {
		homes.Failure = wire.FailureOf(err)
	} else if home != nil {
		homes.Resources = []*wire.Resource{home}
		t.directory.Send(&wire.Note{Resources: homes.Resources})
	}
	t.System.Root.Send(sender, homes)
}

// correct notifies directories of tasks that may take themselves for the home of a resource.
func (t *Task) correct(tasks []string, home *wire.Resource) {
	t.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, announceTime)
		defer cancel()
		// Those that cannot be told are logged, and learn of it from the directory that decides or from the task that leaves.
		_ = parallel(ctx, tasks, func(ctx context.Context, task string) error {
			p, err := t.Cluster.Peer(ctx, task)
			if err != nil {
				t.Log.Warn("a task was not told that a resource lives elsewhere", "task", task, "name", home.Name, "home", home.Device, "error", err)
				return nil
			}
			t.System.Root.Send(actor.NewPID(p.Address(), directoryName), &wire.Note{Resources: []*wire.Resource{home}})
			return nil
		})
	})
}

func (t *Task) adoptPiece(m *wire.Adopt) (*wire.Resource, error) {
	a, err := t.adoption(m)
	if err != nil {
		return nil, err
	}
	if len(m.Entries) > 0 {
		_, err = a.pieces.Write(m.Entries)
	}
	if err == nil && !m.Last {
		return nil, nil
	}
	t.adoptions.end(a, err)
	<-a.done // the end of the pieces ends the decoding
	if err := cmp.Or(a.err, err); err != nil {
		t.adoptions.forget(m.From, a)
		return nil, err
	}
	r := a.resource
	home := &wire.Resource{Container: r.Container, Kind: r.Kind, Name: r.Name, Device: t.Devices[0].Name(), Claimer: r.Claimer, Client: r.Client,
		Moves: r.Moves + 1}
	if t.adoptions.take(a) && len(a.unsure) > 0 {
		t.correct(a.unsure, home)
	}
	return home, nil
}

// adoption returns the adoption that a piece belongs to, and begins it with the first piece. It replaces one that was not completed.
func (t *Task) adoption(m *wire.Adopt) (*adoption, error) {
	all := &t.adoptions
	all.mu.Lock()
	defer all.mu.Unlock()
	was := all.from[m.From]
	switch kind := kindOfHome(m.GetResource().GetKind()); {
	case all.closed:
		return nil, status.Errorf(status.Unavailable, "The server of %s is shutting down", t.name)
	case m.Resource == nil && was != nil && was.number == m.Number:
		return was, nil
	case m.Resource == nil:
		return nil, status.Errorf(status.Aborted, "the pieces of the resource were lost")
	case kind == "":
		return nil, status.Unimplementedf("%s takes over no resources of kind %s", t.name, m.Resource.Kind)
	case was != nil:
		was.pieces.CloseWithError(errReplaced)
	case !all.room():
		return nil, tooMany("tasks that hand over their resources", t.name, maxAdoptions, "try another task")
	}
	r, w := io.Pipe()
	a := &adoption{number: m.Number, resource: m.Resource, unsure: m.Unsure, pieces: w, done: make(chan struct{})}
	if all.from == nil {
		all.from = map[string]*adoption{}
	}
	all.from[m.From] = a
	about := m.About
	t.work.Go(contain.Func(t.Log, "The adoption of a resource", func() { // ends with the pieces
		defer close(a.done)
		a.err = errReplaced // if it panics
		a.made, a.err = t.decode(a.resource, about, r)
		r.CloseWithError(cmp.Or(a.err, errReplaced))
	}, func(err error) { r.CloseWithError(err) }))
	return a, nil
}

var errReplaced = status.New(status.Aborted, "the hand-over of the resource did not go on")

// decode reads a resource and puts it into its container.
func (t *Task) decode(r *wire.Resource, about []byte, pieces io.Reader) (containers.Resource, error) {
	d := t.Devices[0]
	kind := kindOfHome(r.Kind)
	at := durable.Place{Device: d.Name(), Container: cmp.Or(r.Container, d.Resources().DefaultContainer()), Kind: kind, Name: r.Name}
	made, err := restore.Decode(d.Resources(), d.Pool(), durable.Received(pieces), at, about)
	if err != nil {
		return nil, err
	}
	return made, d.Resources().Adopt(r.Container, kind, r.Name, made)
}

// room reports whether another task may hand over a resource, and makes room if only answers are kept. The caller holds the lock.
func (all *adoptions) room() bool {
	if len(all.from) < maxAdoptions {
		return true
	}
	for task, a := range all.from {
		if a.taken {
			delete(all.from, task)
			return true
		}
	}
	return false
}

// end ends an adoption after its last piece, or with an error.
func (all *adoptions) end(a *adoption, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	a.complete = err == nil
	a.pieces.CloseWithError(err) // nil is the end
}

// take records that an adoption has succeeded, and reports whether it had not been recorded.
func (all *adoptions) take(a *adoption) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	was := a.taken
	a.taken = true
	return !was
}

// forget forgets an adoption that has ended.
func (all *adoptions) forget(from string, a *adoption) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.from[from] == a {
		delete(all.from, from)
	}
}

// confirm forgets the adoption from a task that has said what has moved.
func (all *adoptions) confirm(from string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if a := all.from[from]; a != nil && a.taken {
		delete(all.from, from)
	}
}

// lost ends the adoption from a task that is lost, unless all of it has come.
func (all *adoptions) lost(from string, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if a := all.from[from]; a != nil && !a.complete {
		delete(all.from, from)
		a.pieces.CloseWithError(err)
	}
}

// superseded returns a resource that was taken over and has another home nevertheless, which its adoption has lost: its last answer was lost,
// and another task took it over, too. It is nil if there is none.
func (all *adoptions) superseded(n resourceName) containers.Resource {
	all.mu.Lock()
	defer all.mu.Unlock()
	for task, a := range all.from {
		if a.taken && nameOf(a.resource) == n {
			delete(all.from, task)
			return a.made
		}
	}
	return nil
}

// discard removes a resource that this task has taken over in vain from its container: its home is elsewhere, and a copy with an older value
// must not come back when that one moves here.
func (t *Task) discard(n resourceName) {
	made := t.adoptions.superseded(n)
	if made == nil {
		return
	}
	t.departures.changes.Add(1) // sessions that use it follow
	t.background(func(context.Context) {
		all, kind := t.Devices[0].Resources(), kindOfHome(n.kind)
		if found, err := all.Lookup(n.container, kind, n.name); err != nil || found != made {
			return // a client has deleted it
		}
		if err := all.Delete(n.container, kind, n.name); err != nil {
			t.Log.Warn("a copy of a resource that lives elsewhere was not deleted", "kind", n.kind, "name", n.name, "error", err)
		}
	})
}

// close refuses all adoptions from now on, and ends those that are under way.
func (all *adoptions) close(err error) {
	all.mu.Lock()
	all.closed = true
	from := sortedKeys(all.from)
	all.mu.Unlock()
	for _, task := range from {
		all.lost(task, err)
	}
}
